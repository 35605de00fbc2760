//! What an operator can see and do, on the service's own database.
//!
//! It works beside a running service: two processes on one file. Every ruling has a name and a
//! reason and is journalled.

mod keys;
mod outbox;
mod payments;
mod recount;
mod schema;
mod tokens;
mod verify;

use std::sync::Arc;

pub use self::{
    keys::{Judged, KeyDetail, KeyFilter, KeyLine, KeyName, KeyPage, Line, Ruling},
    outbox::{HandlingLine, LetterDetail, LetterLine, LetterPage, Replayed, Which},
    payments::{
        PaymentCheck, PaymentDetail, PaymentLine, PaymentPage, RefundLine, Said, TransitionLine,
    },
    schema::{SchemaLine, migrate, migrations},
    tokens::{TokenCheck, TokenIssue, TokenUse},
    verify::{Broken, Verified},
};
use crate::{
    config::Config,
    db::Sql,
    error::{Error, Kind},
};
use hapax::{Hapax, sql::SqliteStore};

/// Most rows of one page.
const ROWS_MAX: u16 = 1000;

/// The operator's side of one database.
#[derive(Debug)]
pub struct Office {
    config: Config,
    sql: Sql,
    hapax: Hapax,
}

impl Office {
    /// Opens the database of a configuration; it must be there and current.
    ///
    /// # Errors
    /// [`Kind::Store`] if there is none or it does not answer, [`Kind::Schema`] if it is older or
    /// newer than this build, each with the sentence that says what to do.
    pub async fn open(config: &Config) -> Result<Self, Error> {
        let file = schema::file(config)?;
        if !file.is_file() {
            let why = format!(
                "there is no database at {}; make one with `hapax migrate up`, or start the \
                 service",
                file.display()
            );
            return Err(Error::caused(Kind::Store, "open the database", why));
        }
        schema::check(config).await?;
        let sql = SqliteStore::open(&file).await?;
        let hapax = Hapax::new(Arc::new(sql.clone()));
        Ok(Self { config: config.clone(), sql, hapax })
    }

    /// Closes the database after the last word was written.
    pub async fn close(self) {
        self.hapax.drain().await;
        self.sql.close().await;
    }
}

/// A sentence about what was asked for.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands its error over")]
fn invalid(sentence: impl ToString) -> Error {
    Error::caused(Kind::Invalid, "read the request", sentence.to_string())
}

/// At most this many rows, and at least one.
fn bounded(rows: u16) -> u16 {
    rows.clamp(1, ROWS_MAX)
}
