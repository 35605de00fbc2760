//! Idempotency records: look, release, settle, purge.

use bytes::Bytes;
use hapax::{
    Actor, Id, OperationName, Outcome, Record, Retention, Ruled, Scope, Status, Timestamp,
    http::StoredAnswer,
    store::{Found, Ruling as Verdict, Scan},
};
use http::StatusCode;
use serde::Serialize;

use super::Office;
use crate::{
    error::{Error, Kind},
    utc::rfc3339,
};

/// Most rows of one page.
const ROWS_MAX: u16 = 1000;
/// How long a late packet of a settled attempt is remembered: longer than any of them travels.
const MEMORY: std::time::Duration = std::time::Duration::from_secs(3600);

/// Which keys to list.
#[derive(Clone, Debug, Default)]
pub struct KeyFilter {
    /// Only this operation.
    pub operation: Option<String>,
    /// Only this status, such as `unknown`.
    pub status: Option<String>,
    /// Only ids after this one (64 hex digits).
    pub after: Option<String>,
    /// Most rows.
    pub limit: u16,
}

/// One key of a list.
#[derive(Clone, Debug, Serialize)]
pub struct KeyLine {
    /// 64 hex digits.
    pub id: String,
    /// Whose key it is.
    pub tenant: String,
    /// The principal or channel; empty for business keys.
    pub subject: String,
    /// What is done.
    pub operation: String,
    /// The key itself.
    pub key: String,
    /// What became of it.
    pub status: &'static str,
    /// Attempts so far.
    pub attempts: u32,
    /// When the first attempt began.
    pub created_at: String,
}

/// A page of keys.
#[derive(Clone, Debug, Serialize)]
pub struct KeyPage {
    /// The keys, in the order of their ids.
    pub keys: Vec<KeyLine>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Everything that is known about one key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyDetail {
    /// Its line.
    #[serde(flatten)]
    pub line: KeyLine,
    /// The class that says what may happen to an attempt that died.
    pub class: &'static str,
    /// The fence to settle with.
    pub epoch: i64,
    /// Who made the current attempt.
    pub caller: String,
    /// When the current lease ends or ended.
    pub lease_until: String,
    /// When it was completed.
    pub completed_at: Option<String>,
    /// When it stops being replayed.
    pub expires_at: Option<String>,
    /// The status of the stored answer, if it is an HTTP one.
    pub answer_status: Option<u16>,
    /// What happened, oldest first.
    pub history: Vec<Line>,
}

/// One line of a history.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// When.
    pub at: String,
    /// What.
    pub event: &'static str,
    /// The epoch that it left.
    pub epoch: i64,
    /// Who.
    pub actor: String,
    /// Why.
    pub note: String,
}

/// What an operator says about an attempt that nobody can finish.
#[derive(Clone, Debug)]
pub enum Ruling {
    /// Surely nothing happened: the key is free.
    NothingHappened,
    /// It happened, and repeats get this status and JSON body.
    Happened {
        /// HTTP status of the answer.
        status: u16,
        /// JSON text of the answer.
        body: String,
    },
}

impl Office {
    /// A page of keys.
    ///
    /// # Errors
    /// [`Kind::Config`] for a filter that cannot be read; [`Kind::Store`].
    pub async fn keys(&self, filter: &KeyFilter) -> Result<KeyPage, Error> {
        let operation = filter.operation.as_deref().map(OperationName::parse).transpose();
        let scan = Scan {
            operation: operation.map_err(|why| usage(why.to_string()))?,
            status: filter.status.as_deref().map(parse_status).transpose()?,
            after: filter.after.as_deref().map(parse_id).transpose()?,
            limit: filter.limit.clamp(1, ROWS_MAX),
        };
        let page = self.hapax.store().scan(scan).await.map_err(Error::store)?;
        let keys = page.records.iter().map(|record| line(record, page.now)).collect();
        Ok(KeyPage { keys, next: page.next.map(|id| id.hex()) })
    }

    /// One key by its id. `None`: there is no such record.
    ///
    /// # Errors
    /// [`Kind::Config`] for text that is no id; [`Kind::Store`].
    pub async fn key(&self, id: &str) -> Result<Option<KeyDetail>, Error> {
        let id = parse_id(id)?;
        let Found { record, now } = self.hapax.look(id).await?;
        let Some(record) = record else { return Ok(None) };
        let history = self.hapax.store().history(id).await.map_err(Error::store)?;
        Ok(Some(KeyDetail {
            line: line(&record, now),
            class: class_word(&record),
            epoch: record.epoch.get(),
            caller: record.caller.as_str().to_owned(),
            lease_until: rfc3339(record.lease_until),
            completed_at: record.completed_at.map(rfc3339),
            expires_at: record.expires_at.map(rfc3339),
            answer_status: record.outcome.as_ref().and_then(StoredAnswer::status),
            history: history
                .into_iter()
                .map(|entry| Line {
                    at: rfc3339(entry.at),
                    event: entry.event.as_str(),
                    epoch: entry.epoch.get(),
                    actor: entry.actor.as_str().to_owned(),
                    note: entry.note,
                })
                .collect(),
        }))
    }

    /// Decides what an abandoned or unknown attempt did. `Ok(false)`: it is alive, only just
    /// dead, or has moved on since `epoch` was seen.
    ///
    /// # Errors
    /// [`Kind::Config`] for an answer that cannot be one; [`Kind::Store`].
    pub async fn rule(
        &self,
        id: &str,
        epoch: i64,
        ruling: &Ruling,
        by: &str,
        reason: &str,
    ) -> Result<bool, Error> {
        let by = Actor::parse(by).map_err(|why| usage(why.to_string()))?;
        let ruling = match ruling {
            Ruling::NothingHappened => Verdict::NothingHappened { memory: MEMORY },
            Ruling::Happened { status, body } => Verdict::Completed {
                outcome: answer(*status, body, self.sql.now().await?)?,
                retention: Retention::FOREVER,
            },
        };
        let seen = hapax::Epoch::from_stored(epoch);
        let ruled = self.hapax.settle(parse_id(id)?, seen, ruling, by, reason).await?;
        Ok(matches!(ruled, Ruled::Settled { .. }))
    }

    /// Removes at most `rows` records that count as absent.
    ///
    /// # Errors
    /// [`Kind::Store`].
    pub async fn purge_keys(&self, rows: u16) -> Result<u16, Error> {
        self.hapax.store().purge(rows).await.map_err(Error::store)
    }
}

fn answer(status: u16, body: &str, now: Timestamp) -> Result<Outcome, Error> {
    let status = StatusCode::from_u16(status)
        .map_err(|_| usage("the status must be an HTTP status, such as 201".to_owned()))?;
    serde_json::from_str::<serde_json::Value>(body)
        .map_err(|why| usage(format!("the answer must be JSON: {why}")))?;
    Ok(StoredAnswer::json(status, Bytes::copy_from_slice(body.as_bytes()), now))
}

fn usage(sentence: String) -> Error {
    Error::caused(Kind::Config, "read the request", sentence)
}

fn parse_id(text: &str) -> Result<Id, Error> {
    Id::parse(text).map_err(|why| usage(why.to_string()))
}

fn parse_status(word: &str) -> Result<Status, Error> {
    let all = [
        Status::Running,
        Status::Abandoned,
        Status::Unknown,
        Status::Open,
        Status::Completed,
        Status::Expired,
    ];
    all.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
        let words = all.map(Status::as_str).join(", ");
        usage(format!("the status must be one of {words}"))
    })
}

fn class_word(record: &Record) -> &'static str {
    match record.terms.class {
        hapax::Class::Transactional => "transactional",
        hapax::Class::Keyed => "keyed",
        hapax::Class::Queryable => "queryable",
        hapax::Class::Opaque => "opaque",
    }
}

fn line(record: &Record, now: Timestamp) -> KeyLine {
    let identity = &record.identity;
    let scope: &Scope = identity.scope();
    KeyLine {
        id: identity.id().hex(),
        tenant: scope.tenant().as_str().to_owned(),
        subject: scope.subject().to_owned(),
        operation: identity.operation().as_str().to_owned(),
        key: identity.key().to_owned(),
        status: record.status(now).as_str(),
        attempts: record.attempts,
        created_at: rfc3339(record.created_at),
    }
}
