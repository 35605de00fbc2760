//! Starts and stops of the service.

use super::{Conn, read, sql};
use crate::error::Error;
use hapax::Timestamp;

/// Writes a start down and gives its number.
pub(crate) async fn start(conn: &mut Conn, now: Timestamp) -> Result<i64, Error> {
    let row = sqlx::query(sql::INSERT_RUN).bind(now.as_millis()).fetch_one(conn).await?;
    read(&row, "seq")
}

/// Writes an orderly stop down.
pub(crate) async fn stop(conn: &mut Conn, run: i64, now: Timestamp) -> Result<(), Error> {
    sqlx::query(sql::STOP_RUN).bind(run).bind(now.as_millis()).execute(conn).await?;
    Ok(())
}
