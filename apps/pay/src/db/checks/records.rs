//! Records as they lie in the database, for checks that look inside.

use serde::Serialize;
use sqlx::sqlite::SqliteRow;

use super::sql;
use crate::{
    db::{Conn, read},
    error::Error,
};

/// A record, not yet believed.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: Vec<u8>,
    pub(crate) scope: String,
    pub(crate) tenant: String,
    pub(crate) subject: String,
    pub(crate) operation: String,
    pub(crate) key: String,
    pub(crate) outcome: Option<Vec<u8>>,
}

impl Stored {
    fn read(row: &SqliteRow) -> Result<Self, Error> {
        Ok(Self {
            id: read(row, "id")?,
            scope: read(row, "scope")?,
            tenant: read(row, "tenant")?,
            subject: read(row, "subject")?,
            operation: read(row, "operation")?,
            key: read(row, "key_text")?,
            outcome: read(row, "outcome")?,
        })
    }
}

/// A payment that a stored answer tells of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Promise {
    pub(crate) tenant: String,
    pub(crate) payment_no: String,
}

/// The records after this id, in the order of their ids.
pub(crate) async fn page(conn: &mut Conn, after: &[u8], rows: u16) -> Result<Vec<Stored>, Error> {
    let query = sqlx::query(sql::RECORDS).bind(after).bind(rows);
    query.fetch_all(conn).await?.iter().map(Stored::read).collect()
}

/// Which of these payments the tenant does not have.
pub(crate) async fn unknown_payments(
    conn: &mut Conn,
    promises: &[Promise],
) -> Result<Vec<String>, Error> {
    let list = serde_json::to_string(promises).map_err(Error::corrupt)?;
    let rows = sqlx::query(sql::UNKNOWN_PAYMENTS).bind(list).fetch_all(conn).await?;
    rows.iter().map(|row| read(row, "payment_no")).collect()
}
