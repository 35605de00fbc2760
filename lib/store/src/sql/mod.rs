//! Stores on SQL engines: one body over [`Dialect`], whose implementation is the whole
//! difference between two engines.
//!
//! Work that writes runs on tasks that the store owns. A caller that goes away abandons an
//! answer, never a transaction.

mod batch;
mod dialect;
mod errand;
mod fate;
mod gate;
mod gather;
mod inbox;
mod join;
mod line;
mod locks;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
mod opening;
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
mod purge;
mod read;
mod row;
mod run_in_tx;
mod seal;
mod sheet;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
#[cfg(test)]
mod tests;
mod transition;
mod tx;
mod write;

pub(crate) use self::fate::Fate;
#[cfg(feature = "mysql")]
pub use self::mysql::{MySql, MySqlStore};
#[cfg(feature = "postgres")]
pub use self::postgres::{Postgres, PostgresStore};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{Sqlite, SqliteStore};
pub use self::{
    dialect::Dialect,
    join::{Joined, Sealed, Unsealed},
    migrate::Migration,
    opening::Opening,
    outbox::Handling,
    purge::Old,
    run_in_tx::End,
    store::Sql,
    transition::Moved,
    tx::Tx,
};
