//! Idempotency records: look, release, settle, purge.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use super::{Office, bounded, invalid};
use crate::{error::Error, utc::rfc3339};
use hapax::{
    Actor, Class, Epoch, Id, Identity, OperationName, Outcome, Principal, Record, RequestKey,
    Retention, Ruled, Scope, State, Status, Tenant, Timestamp,
    http::StoredAnswer,
    store::{Found, Ruling as Verdict, Scan},
};

/// How long a late packet of a settled attempt is remembered: longer than any of them travels.
const MEMORY: Duration = Duration::from_secs(3600);
/// Hex digits of a whole id.
const ID_DIGITS: usize = 64;
/// Fewest digits that an id can be abbreviated to: logs show eight.
const SHORT_DIGITS_MIN: usize = 4;

/// One key, as an operator names it.
#[derive(Clone, Debug)]
pub enum KeyName {
    /// By the 64 hex digits of its id, or by the first ones, as logs show them.
    Id(String),
    /// By what its caller sent.
    Sent {
        /// Whose key it is.
        tenant: String,
        /// The stable subject that sent it.
        principal: String,
        /// What was to be done.
        operation: String,
        /// The key, quoted or bare.
        key: String,
    },
}

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
    /// What the class means for whoever decides about the key.
    pub class_means: &'static str,
    /// The fence to settle with.
    pub epoch: i64,
    /// Who made the current attempt.
    pub caller: String,
    /// When the lease of an unfinished attempt ends or ended.
    pub lease_until: Option<String>,
    /// From when on an operator may decide about an unfinished attempt.
    pub settle_from: Option<String>,
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

/// What became of a ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It holds. Whatever the old attempt still writes is refused.
    Settled {
        /// The fence that it left.
        epoch: i64,
    },
    /// There is no such key.
    Missing,
    /// Nothing is left to decide.
    Over {
        /// What became of it.
        status: &'static str,
    },
    /// Another attempt took over since the operator looked.
    MovedOn {
        /// Its fence.
        epoch: i64,
    },
    /// Its holder is alive.
    Alive {
        /// Until then, if it does not renew.
        until: String,
    },
    /// Its holder has only just died and may yet finish.
    Quiet {
        /// Until then.
        until: String,
    },
}

impl Office {
    /// A page of keys.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a filter that cannot be read;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn keys(&self, filter: &KeyFilter) -> Result<KeyPage, Error> {
        let operation = filter.operation.as_deref().map(OperationName::parse).transpose();
        let scan = Scan {
            operation: operation.map_err(invalid)?,
            status: filter.status.as_deref().map(parse_status).transpose()?,
            after: filter.after.as_deref().map(Id::parse).transpose().map_err(invalid)?,
            limit: bounded(filter.limit),
        };
        let page = self.hapax.store().scan(scan).await.map_err(Error::store)?;
        let keys = page.records.iter().map(|record| line(record, page.now)).collect();
        Ok(KeyPage { keys, next: page.next.map(|id| id.hex()) })
    }

    /// One key. `None`: there is no such record.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for text that names none or several;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn key(&self, name: &KeyName) -> Result<Option<KeyDetail>, Error> {
        let Some(id) = self.resolve(name).await? else { return Ok(None) };
        let Found { record, now } = self.hapax.look(id).await?;
        let Some(record) = record else { return Ok(None) };
        let history = self.hapax.store().history(id).await.map_err(Error::store)?;
        let is_over = matches!(record.state, State::Completed | State::Open);
        let unfinished = |at: Timestamp| (!is_over).then(|| rfc3339(at));
        Ok(Some(KeyDetail {
            line: line(&record, now),
            class: class_word(record.terms.class),
            class_means: class_meaning(record.terms.class),
            epoch: record.epoch.get(),
            caller: record.caller.as_str().to_owned(),
            lease_until: unfinished(record.lease_until),
            settle_from: unfinished(settle_from(&record)),
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

    /// Decides what an abandoned or unknown attempt did; `epoch` is the fence that was looked at.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for an answer that cannot be one;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn rule(
        &self,
        id: &str,
        epoch: i64,
        ruling: &Ruling,
        by: &str,
        reason: &str,
    ) -> Result<Judged, Error> {
        let by = Actor::parse(by).map_err(invalid)?;
        let id = Id::parse(id).map_err(invalid)?;
        let ruling = match ruling {
            Ruling::NothingHappened => Verdict::NothingHappened { memory: MEMORY },
            Ruling::Happened { status, body } => Verdict::Completed {
                outcome: answer(*status, body, self.sql.now().await?)?,
                retention: Retention::FOREVER,
            },
        };
        let seen = Epoch::from_stored(epoch);
        Ok(match self.hapax.settle(id, seen, ruling, by, reason).await? {
            Ruled::Settled { epoch } => Judged::Settled { epoch: epoch.get() },
            Ruled::Refused(found) => why_not(&found, seen),
        })
    }

    /// Removes at most `rows` records that count as absent.
    ///
    /// # Errors
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn purge_keys(&self, rows: u16) -> Result<u16, Error> {
        self.hapax.store().purge(rows).await.map_err(Error::store)
    }

    async fn resolve(&self, name: &KeyName) -> Result<Option<Id>, Error> {
        match name {
            KeyName::Id(digits) if digits.len() == ID_DIGITS => {
                Id::parse(digits).map(Some).map_err(invalid)
            }
            KeyName::Id(digits) => self.complete(&digits.to_ascii_lowercase()).await,
            KeyName::Sent { tenant, principal, operation, key } => {
                let bare = key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let identity = Identity::request(
                    Tenant::parse(tenant).map_err(invalid)?,
                    Principal::parse(principal).map_err(invalid)?,
                    OperationName::parse(operation).map_err(invalid)?,
                    RequestKey::parse(bare.unwrap_or(key)).map_err(invalid)?,
                );
                Ok(Some(identity.id()))
            }
        }
    }

    /// The one id that begins with these digits.
    async fn complete(&self, digits: &str) -> Result<Option<Id>, Error> {
        let is_fit = (SHORT_DIGITS_MIN..ID_DIGITS).contains(&digits.len());
        let first = Id::parse(&format!("{digits:0<ID_DIGITS$}")).ok().filter(|_| is_fit);
        let first = first
            .ok_or_else(|| invalid("the id must be 64 hex digits, or at least its first four"))?;
        // A scan begins behind the id that it is given: behind the one before the first.
        let scan = Scan { operation: None, status: None, after: before(first), limit: 2 };
        let page = self.hapax.store().scan(scan).await.map_err(Error::store)?;
        let ids = page.records.iter().map(|record| record.identity.id());
        let mut fitting = ids.filter(|id| id.hex().starts_with(digits));
        match (fitting.next(), fitting.next()) {
            (Some(_), Some(_)) => {
                Err(invalid(format!("several ids begin with {digits}; give more digits")))
            }
            (found, _) => Ok(found),
        }
    }
}

/// The id just below; `None` below the lowest.
fn before(id: Id) -> Option<Id> {
    let mut bytes = *id.as_bytes();
    for byte in bytes.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return Some(Id::from_stored(bytes));
        }
    }
    None
}

/// From when on an unfinished attempt may be judged: its lease and its quiet time have passed.
fn settle_from(record: &Record) -> Timestamp {
    record.lease_until.plus(record.terms.retake_after.unwrap_or_default())
}

/// Says why a record was not judged, in the order in which it matters to the judge.
fn why_not(found: &Found, seen: Epoch) -> Judged {
    let Found { record, now } = found;
    let Some(record) = record.as_ref().filter(|record| !record.is_reusable(*now)) else {
        return Judged::Missing;
    };
    match record.state {
        State::Completed | State::Open => Judged::Over { status: record.status(*now).as_str() },
        State::Claimed | State::Unknown if record.epoch != seen => {
            Judged::MovedOn { epoch: record.epoch.get() }
        }
        State::Claimed | State::Unknown if record.lease_until > *now => {
            Judged::Alive { until: rfc3339(record.lease_until) }
        }
        State::Claimed | State::Unknown => Judged::Quiet { until: rfc3339(settle_from(record)) },
    }
}

fn answer(status: u16, body: &str, now: Timestamp) -> Result<Outcome, Error> {
    let rule = "the status must be that of a final answer with a body: 200 to 499, such as 201";
    let status = StatusCode::from_u16(status).map_err(|_| invalid(rule))?;
    let has_no_body = matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    if has_no_body || !(200..=499).contains(&status.as_u16()) {
        return Err(invalid(rule));
    }
    serde_json::from_str::<serde_json::Value>(body)
        .map_err(|why| invalid(format!("the answer must be JSON: {why}")))?;
    Ok(StoredAnswer::json(status, Bytes::copy_from_slice(body.as_bytes()), now))
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
        invalid(format!("the status must be one of {words}"))
    })
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Transactional => "transactional",
        Class::Keyed => "keyed",
        Class::Queryable => "queryable",
        Class::Opaque => "opaque",
    }
}

fn class_meaning(class: Class) -> &'static str {
    match class {
        Class::Transactional => {
            "effect and completion commit in one transaction: an attempt that died did nothing"
        }
        Class::Keyed => {
            "the receiver dedupes by our key: the same request sent again has no second effect \
             while the receiver remembers it"
        }
        Class::Queryable => {
            "the receiver can be asked: ask it, and close the old attempt there, before you decide"
        }
        Class::Opaque => {
            "nobody can tell but you: if it did happen and the key is released, it happens twice"
        }
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
