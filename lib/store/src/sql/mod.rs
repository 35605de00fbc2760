//! Stores on SQL engines: one body over [`Dialect`], whose implementation is the whole
//! difference between two engines.
//!
//! Work that writes runs on tasks that the store owns. A caller that goes away abandons an
//! answer, never a transaction.

mod batch;
mod clock;
mod dialect;
mod errand;
mod fate;
mod gate;
mod gather;
mod inbox;
mod join;
mod locks;
mod migrate;
mod outbox;
mod purge;
mod read;
mod row;
mod run_in_tx;
mod seal;
mod sheet;
mod sqlite;
mod store;
#[cfg(test)]
mod tests;
mod transition;
mod tx;
mod write;

pub(crate) use self::fate::Fate;
pub use self::{
    dialect::Dialect,
    join::{Joined, Sealed, Unsealed},
    migrate::Migration,
    outbox::Handling,
    purge::Old,
    run_in_tx::End,
    sqlite::{Opening, Sqlite, SqliteStore},
    store::Sql,
    transition::Moved,
    tx::Tx,
};
