//! The last write of a guarded transaction: the record is completed in the same commit.
//!
//! Invariant: the seal is tied to the attempt's fence and to the witness, so that neither a
//! holder that was taken over nor a transaction that no longer lives can complete a record
//! (`a_zombie_is_refused_and_changes_nothing`, `a_transaction_that_ended_itself_is_not_sealed`).

use bytes::Bytes;
use serde::Serialize;

use super::{
    clock,
    dialect::{Bind, Conn, Dialect},
    sheet::{self, FencedRow, JournalRow},
};
use crate::error::{Error, Kind};
use hapax_core::{Outcome, Sealing, Timestamp, store::Event};

/// Sets the witness that the transaction lives.
pub(super) async fn set_witness<D: Dialect>(conn: &mut Conn<D>) -> Result<(), Error> {
    D::execute(conn, D::WITNESS_SET, Vec::new()).await?;
    Ok(())
}

/// Takes the business rows since the witness back, and sets it again.
pub(super) async fn forget_business<D: Dialect>(conn: &mut Conn<D>) -> Result<(), Error> {
    D::execute(conn, D::WITNESS_ROLLBACK, Vec::new()).await?;
    Ok(())
}

/// Completes the record; `None` if another attempt has taken over.
///
/// Nothing is written if the witness is gone: the engine broke the transaction off, or somebody
/// ended it, and the seal would commit alone.
pub(super) async fn seal<D: Dialect>(
    conn: &mut Conn<D>,
    sealing: &Sealing,
    outcome: &Outcome,
) -> Result<Option<Timestamp>, Error> {
    D::execute(conn, D::WITNESS_RELEASE, Vec::new())
        .await
        .map_err(|cause| Error::undone("find the transaction alive", cause))?;
    let (fence, retention) = (sealing.fence(), sealing.retention());
    let now = clock::tick::<D>(conn).await?;
    let row = FencedRow::completion(&fence, outcome, retention, now);
    let mut is_ours = false;
    for row in sheet::texts(&[row])? {
        let binds = vec![Bind::Text(row), Bind::Int(now.as_millis())];
        is_ours |= !D::fetch(conn, D::COMPLETE, binds).await?.is_empty();
    }
    if !is_ours {
        return Ok(None);
    }
    for line in sheet::texts(&[JournalRow::new(fence.id, Event::Completed)])? {
        let binds = vec![Bind::Text(line), Bind::Int(now.as_millis())];
        D::execute(conn, D::JOURNAL_WRITE, binds).await?;
    }
    Ok(Some(now))
}

/// The answer as `Call::run` would store it.
pub(super) fn encode<T: Serialize>(answer: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(answer)
        .map(Bytes::from)
        .map_err(|cause| Error::caused(Kind::Invalid, "store the answer", cause))
}
