//! What an operator can see and do, on the service's own database.
//!
//! It works beside a running service: two processes on one file. Every ruling has a name and a
//! reason and is journalled.

mod keys;
mod outbox;
mod payments;
mod schema;
mod verify;

use std::sync::Arc;

use hapax::{Hapax, sql::SqliteStore};

pub use self::{
    keys::{KeyDetail, KeyFilter, KeyLine, KeyPage, Line, Ruling},
    outbox::LetterLine,
    payments::{PaymentDetail, PaymentLine, RefundLine, TransitionLine},
    schema::{SchemaLine, migrate, migrations},
    verify::{Broken, Verified},
};
use crate::{
    config::Config,
    db::Sql,
    error::{Error, Kind},
};

/// The operator's side of one database.
#[derive(Debug)]
pub struct Office {
    sql: Sql,
    hapax: Hapax,
}

impl Office {
    /// Opens the database of a configuration; it must be there and current.
    ///
    /// # Errors
    /// [`Kind::Config`] and [`Kind::Store`], each with the sentence that says what to do.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let op = "open the database";
        let file = config.sqlite_file().map_err(|why| Error::caused(Kind::Config, op, why))?;
        if !file.is_file() {
            let why = format!("there is no database at {}; start the service once", file.display());
            return Err(Error::caused(Kind::Config, op, why));
        }
        let sql = SqliteStore::open(&file).await?;
        let hapax = Hapax::new(Arc::new(sql.clone()));
        Ok(Self { sql, hapax })
    }

    /// Closes the database after the last word was written.
    pub async fn close(self) {
        self.hapax.drain().await;
        self.sql.close().await;
    }
}
