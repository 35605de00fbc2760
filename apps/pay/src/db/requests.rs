//! The journal of requests, repeats included.

use serde::Serialize;

use super::{Conn, sql};
use crate::error::Error;
use hapax::Timestamp;

/// One request, as it was answered.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Request {
    pub(crate) tenant: String,
    /// The first digits of the record's id: enough to see repeats, too few to guess a key.
    pub(crate) record: String,
    pub(crate) status: u16,
    pub(crate) is_replay: u8,
}

/// Writes a batch down.
pub(crate) async fn insert(
    conn: &mut Conn,
    requests: &[Request],
    now: Timestamp,
) -> Result<(), Error> {
    let batch = serde_json::to_string(requests).map_err(Error::corrupt)?;
    let query = sqlx::query(sql::INSERT_REQUESTS).bind(batch).bind(now.as_millis());
    query.execute(conn).await?;
    Ok(())
}

/// Removes at most `rows` requests that are older than `before`.
pub(crate) async fn purge(conn: &mut Conn, before: Timestamp, rows: u16) -> Result<u64, Error> {
    let query = sqlx::query(sql::PURGE_REQUESTS).bind(before.as_millis()).bind(rows);
    Ok(query.execute(conn).await?.rows_affected())
}
