//! Recounts effects against records, offline, and names every invariant that is broken.
//!
//! A check is one statement over the whole database that selects what must not exist, or a look
//! inside each record. It needs no running service and changes nothing
//! (`verify_names_each_violation_and_nothing_else`).

use serde::Serialize;
use sqlx::Row;

use super::{Office, recount::Recount};
use crate::{db::checks::CHECKS, error::Error};

/// Most examples that are shown of one broken invariant.
pub(super) const EXAMPLES_MAX: usize = 20;

/// What a recount found.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// How many invariants were checked.
    pub checked: usize,
    /// Those that are broken, with examples.
    pub broken: Vec<Broken>,
}

/// One broken invariant.
#[derive(Clone, Debug, Serialize)]
pub struct Broken {
    /// The stable name of the check.
    pub check: &'static str,
    /// The sentence that does not hold.
    pub invariant: &'static str,
    /// What breaks it, at most 20.
    pub examples: Vec<String>,
}

impl Office {
    /// Recounts everything.
    ///
    /// # Errors
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn verify(&self) -> Result<Verified, Error> {
        let mut reader = self.sql.readers().acquire().await?;
        let examples_max = i64::try_from(EXAMPLES_MAX).unwrap_or(i64::MAX);
        let mut broken = Vec::new();
        for &(invariant, statement) in CHECKS {
            let rows = sqlx::query(statement).bind(examples_max).fetch_all(&mut *reader).await?;
            let examples = rows
                .iter()
                .map(|row| row.try_get::<String, _>(0).map_err(Error::corrupt))
                .collect::<Result<Vec<_>, _>>()?;
            if !examples.is_empty() {
                broken.push(Broken { check: name_of(statement), invariant, examples });
            }
        }
        broken.extend(Recount::of(&mut reader).await?.broken());
        Ok(Verified { checked: CHECKS.len() + Recount::CHECKS, broken })
    }
}

/// A statement is named by its first line.
fn name_of(statement: &'static str) -> &'static str {
    statement.lines().next().and_then(|line| line.strip_prefix("-- ")).unwrap_or(statement)
}
