//! Recounts effects against records, offline, and names every invariant that is broken.
//!
//! Each check is one statement over the whole database that selects what must not exist. It needs
//! no running service and changes nothing.

use serde::Serialize;
use sqlx::Row;

use super::Office;
use crate::{db::checks::CHECKS, error::Error};

/// Most examples that are shown of one broken invariant.
const EXAMPLES_MAX: i64 = 20;

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
        let mut broken = Vec::new();
        for &(invariant, statement) in CHECKS {
            let rows = sqlx::query(statement).bind(EXAMPLES_MAX).fetch_all(&mut *reader).await?;
            let examples = rows
                .iter()
                .map(|row| row.try_get::<String, _>(0).map_err(Error::corrupt))
                .collect::<Result<Vec<_>, _>>()?;
            if !examples.is_empty() {
                broken.push(Broken { invariant, examples });
            }
        }
        Ok(Verified { checked: CHECKS.len(), broken })
    }
}
