//! The journal of every entity that changes its state.
//!
//! Invariant: a version of an entity is left once; of two transactions that both want to leave
//! it, one is refused (`a_version_is_left_once`).

use sqlx::Transaction;

use super::{
    dialect::{Bind, Dialect},
    row::Row,
    store::Sql,
};
use crate::error::{Error, Kind};
use hapax_core::{Actor, Invalid, Timestamp, machine::Transition};

/// Longest name of an entity, in bytes.
const ENTITY_BYTES_MAX: usize = 255;
/// Moves of one page.
const PAGE_ROWS_MAX: u16 = 1000;

/// A move of an entity, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The store's time.
    pub at: Timestamp,
    /// The version that it left.
    pub version: i64,
    /// The state that it left.
    pub from: String,
    /// The state that it entered.
    pub to: String,
    /// What happened.
    pub event: String,
    /// Who did it.
    pub actor: Actor,
}

impl<D: Dialect> Sql<D> {
    /// Journals a move in the transaction that makes it.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if another transaction has left this version already: roll back and look
    /// at the entity again. [`Kind::Invalid`] if its name is longer than 255 bytes; those of the
    /// database.
    pub async fn transition(
        &self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        transition: &Transition,
        actor: &Actor,
    ) -> Result<(), Error> {
        if transition.entity.len() > ENTITY_BYTES_MAX {
            return Err(Invalid::new("entity", "is longer than 255 bytes; shorten it").into());
        }
        let binds = vec![
            Bind::from(transition.kind),
            Bind::from(transition.entity.as_str()),
            Bind::Int(transition.version),
            Bind::from(transition.from),
            Bind::from(transition.to),
            Bind::from(transition.event),
            Bind::from(actor.as_str()),
        ];
        match D::insert(tx, D::TRANSITION_WRITE, binds).await? {
            true => Ok(()),
            false => Err(Error::new(Kind::Fenced, "journal a transition")),
        }
    }

    /// The moves of one entity from `version` on, oldest first; at most 1000.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn moves(
        &self,
        kind: &str,
        entity: &str,
        version: i64,
        rows: u16,
    ) -> Result<Vec<Moved>, Error> {
        let binds = vec![
            Bind::from(kind),
            Bind::from(entity),
            Bind::Int(version),
            Bind::Int(i64::from(std::cmp::min(rows, PAGE_ROWS_MAX))),
        ];
        let rows = D::read(self.readers(), D::TRANSITIONS, binds).await?;
        rows.into_iter().map(|row| moved(row).map_err(Error::torn)).collect()
    }
}

fn moved(mut row: Row) -> Result<Moved, Invalid> {
    Ok(Moved {
        at: row.time()?,
        version: row.int()?,
        from: row.text()?,
        to: row.text()?,
        event: row.text()?,
        actor: row.actor()?,
    })
}
