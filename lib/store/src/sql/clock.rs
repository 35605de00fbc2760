//! The store's clock: the engine's time, clamped by the latest time that was given out.
//!
//! Invariant: of two transactions that commit, the later one never reads an earlier time, also
//! in another process and after the machine's clock was set back
//! (`the_clock_never_goes_back`).

use super::dialect::{Conn, Dialect};
use crate::error::{Error, Kind};
use hapax_core::Timestamp;

/// Reads the time inside a transaction and raises the mark that others read.
pub(super) async fn tick<D: Dialect>(conn: &mut Conn<D>) -> Result<Timestamp, Error> {
    let rows = D::fetch(conn, D::TICK, Vec::new()).await?;
    let mut row = rows.into_iter().next().ok_or_else(stopped)?;
    row.time().map_err(Error::torn)
}

fn stopped() -> Error {
    Error::new(Kind::Corrupt, "read the store's clock")
}
