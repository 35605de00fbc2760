//! The last write of a guarded transaction: the record is completed in the same commit.
//!
//! Invariant: the seal is tied to the attempt's fence and to the witness, so that neither a
//! holder that was taken over nor a transaction that no longer lives can complete a record
//! (`a_zombie_is_refused_and_changes_nothing`, `a_transaction_that_ended_itself_is_not_sealed`).

use bytes::Bytes;
use serde::Serialize;

use super::{
    dialect::{Bind, Conn, Dialect, WITNESS_RELEASE, WITNESS_ROLLBACK, WITNESS_SET},
    sheet,
};
use crate::error::{Error, Kind};
use hapax_core::{Outcome, Sealing, Timestamp};

/// Sets the witness that the transaction lives.
pub(super) async fn set_witness<D: Dialect>(conn: &mut Conn<D>) -> Result<(), Error> {
    D::execute(conn, WITNESS_SET, Vec::new()).await?;
    Ok(())
}

/// Finds the transaction alive: nobody ended it, and the engine did not break it off.
pub(super) async fn ask_witness<D: Dialect>(conn: &mut Conn<D>) -> Result<(), Error> {
    let told = D::execute(conn, WITNESS_RELEASE, Vec::new()).await;
    told.map(drop).map_err(|cause| Error::undone("find the transaction alive", cause))
}

/// Takes the business rows since the witness back.
pub(super) async fn forget_business<D: Dialect>(conn: &mut Conn<D>) -> Result<(), Error> {
    D::execute(conn, WITNESS_ROLLBACK, Vec::new()).await?;
    ask_witness::<D>(conn).await
}

/// Completes the record; `None` if another attempt has taken over.
///
/// Ask the witness before: in a transaction that is over the seal would commit alone.
pub(super) async fn seal<D: Dialect>(
    conn: &mut Conn<D>,
    sealing: &Sealing,
    outcome: &Outcome,
) -> Result<Option<Timestamp>, Error> {
    let row = sheet::completion(&sealing.fence(), outcome, sealing.retention())?;
    let binds = vec![Bind::Text(format!("[{row}]"))];
    let Some(mut row) = D::fetch(conn, D::COMPLETE, binds).await?.into_iter().next() else {
        return Ok(None);
    };
    let mut now = || {
        row.id()?;
        row.epoch()?;
        row.time()
    };
    now().map(Some).map_err(Error::torn)
}

/// The answer as `Call::run` would store it.
pub(super) fn encode<T: Serialize>(answer: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(answer)
        .map(Bytes::from)
        .map_err(|cause| Error::caused(Kind::Invalid, "store the answer", cause))
}
