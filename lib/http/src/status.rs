//! What became of an operation, asked by its key: for the caller who lost the answer.
//!
//! Invariant: a caller sees its own records only, since the id is made with the caller's own
//! tenant and principal (`the_status_of_another_caller_is_absent`); an attempt that ended without
//! a word is `processing` where a completer goes on with it
//! (`what_a_completer_goes_on_with_is_processing`).

use std::{fmt, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Path, Request},
    response::IntoResponse,
    routing::get,
};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    request::Parts,
};
use serde::Serialize;

use crate::{
    caller::{Caller, Principals},
    date,
    problem::{Code, Problem, seconds},
    replay::{Stored, location_of},
};
use hapax_core::{
    Hapax, Operation, OperationName, Outcome, Record, RequestKey, Status, Timestamp, store::Found,
};

/// Where the status of operations is, by convention.
pub const STATUS_PATH: &str = "/v1/operations";

/// `GET /v1/operations/{operation}/{key}` and `…/answer`.
///
/// ```
/// use std::sync::Arc;
/// use axum::Router;
/// use hapax_core::{Hapax, store::MemoryStore};
/// use hapax_http::{FromExtension, StatusRoutes};
///
/// let hapax = Hapax::new(Arc::new(MemoryStore::new()));
/// let app: Router = Router::new().merge(StatusRoutes::new(hapax, FromExtension).router());
/// ```
#[derive(Clone)]
#[must_use]
pub struct StatusRoutes {
    asked: Arc<Asked>,
}

#[derive(Clone)]
struct Asked {
    hapax: Hapax,
    principals: Arc<dyn Principals>,
    may_replay: Option<Arc<dyn Fn(&Parts, &Caller) -> bool + Send + Sync>>,
    base: Arc<str>,
    completed: Vec<OperationName>,
}

impl StatusRoutes {
    /// Routes below [`STATUS_PATH`] for the operations of `hapax`; `principals` says who asks.
    pub fn new(hapax: Hapax, principals: impl Principals) -> Self {
        let principals = Arc::new(principals);
        let base = Arc::from(STATUS_PATH);
        let completed = Vec::new();
        Self { asked: Arc::new(Asked { hapax, principals, may_replay: None, base, completed }) }
    }

    /// Mounts the routes elsewhere.
    pub fn at(mut self, base: &str) -> Self {
        Arc::make_mut(&mut self.asked).base = Arc::from(base);
        self
    }

    /// Says that a [`Completer`](hapax_core::Completer) goes on with `operation`: the caller of an
    /// attempt that ended without a word is told `processing` for as long as it may be taken over.
    ///
    /// Without it such an attempt is `unknown`.
    pub fn completed(mut self, operation: &Operation) -> Self {
        Arc::make_mut(&mut self.asked).completed.push(operation.name().clone());
        self
    }

    /// Whether the caller may see a stored answer; as
    /// [`IdempotencyLayer::may_replay`](crate::IdempotencyLayer::may_replay).
    pub fn may_replay(
        mut self,
        check: impl Fn(&Parts, &Caller) -> bool + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.asked).may_replay = Some(Arc::new(check));
        self
    }

    /// The routes, to be merged into an application.
    pub fn router<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let (status, answer) = (Arc::clone(&self.asked), Arc::clone(&self.asked));
        let base = &self.asked.base;
        let status_path = format!("{base}/{{operation}}/{{key}}");
        let answer_path = format!("{base}/{{operation}}/{{key}}/answer");
        Router::new()
            .route(&status_path, get(async move |request: Request| status.status(request).await))
            .route(&answer_path, get(async move |request: Request| answer.answer(request).await))
    }
}

impl fmt::Debug for StatusRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusRoutes").field("base", &self.asked.base).finish_non_exhaustive()
    }
}

/// A question that was understood, and the record as it stands.
struct Answered {
    parts: Parts,
    caller: Caller,
    operation: Operation,
    key: RequestKey,
    record: Arc<Record>,
    now: Timestamp,
    /// Nobody is at work on it at this moment, and a completer will be.
    is_processing: bool,
}

impl Asked {
    async fn status(&self, request: Request) -> Response<Body> {
        match self.look(request).await {
            Ok(answered) => report(&self.base, &answered),
            Err(problem) => problem.into_response(),
        }
    }

    /// The stored answer itself, as a repeat of the request would get it.
    async fn answer(&self, request: Request) -> Response<Body> {
        let answered = match self.look(request).await {
            Ok(answered) => answered,
            Err(problem) => return problem.into_response(),
        };
        let Answered { parts, caller, record, now, is_processing, .. } = answered;
        let allowed = self.may_replay.as_ref().is_none_or(|check| check(&parts, &caller));
        if !allowed {
            return Problem::new(Code::Forbidden).into_response();
        }
        match (record.status(now), record.outcome.clone()) {
            (Status::Completed, Some(Outcome::Value(stored))) => match Stored::read(&stored) {
                Some(stored) => stored.into_response(),
                None => Problem::new(Code::AnswerUnreadable).into_response(),
            },
            (Status::Completed, Some(Outcome::Tombstone(reference))) => {
                let problem = Problem::new(Code::ResultNotRetained);
                match location_of(&reference) {
                    Some(location) => problem.location(location).into_response(),
                    None => problem.into_response(),
                }
            }
            (Status::Expired, _) => Problem::new(Code::KeyExpired).into_response(),
            (Status::Running, _) => Problem::new(Code::InProgress)
                .retry_after(record.lease_until.since(now))
                .into_response(),
            (Status::Abandoned, _) if is_processing => {
                Problem::new(Code::InProgress).retry_after(LOOK_AGAIN).into_response()
            }
            (Status::Open, _) => Problem::new(Code::KeyUnknown).into_response(),
            (Status::Abandoned | Status::Unknown | Status::Completed, _) => {
                Problem::new(Code::OutcomeUnknown).into_response()
            }
        }
    }

    async fn look(&self, request: Request) -> Result<Answered, Problem> {
        let (mut parts, _) = request.into_parts();
        let caller = self.principals.caller(&parts)?;
        let path = Path::<(String, String)>::from_request_parts(&mut parts, &()).await;
        let Ok(Path((name, key))) = path else { return Err(Problem::new(Code::KeyInvalid)) };
        let declared = OperationName::parse(&name).ok().and_then(|it| self.hapax.operation(&it));
        let Some(operation) = declared else { return Err(Problem::new(Code::OperationUnknown)) };
        let key = RequestKey::parse(&key)
            .map_err(|invalid| Problem::new(Code::KeyInvalid).detail(format!("The {invalid}.")))?;
        let (tenant, principal) = (caller.tenant.clone(), caller.principal.clone());
        let looked = operation.request(tenant, principal, key.clone()).look().await;
        let Found { record, now } = looked.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "a status was not found out");
            Problem::new(Code::StoreUnavailable).retry_after(std::time::Duration::from_secs(1))
        })?;
        let Some(record) = record.filter(|record| !record.is_reusable(now)) else {
            return Err(Problem::new(Code::KeyUnknown));
        };
        let is_processing = self.completed.contains(operation.name()) && may_go_on(&record, now);
        Ok(Answered { parts, caller, operation, key, record, now, is_processing })
    }
}

/// Whether an attempt that ended without a word may still be taken over.
fn may_go_on(record: &Record, now: Timestamp) -> bool {
    record.status(now) == Status::Abandoned
        && record.terms.retake_after.is_some()
        && record.terms.retake_until.is_none_or(|until| now < until)
}

/// The body of a status.
#[derive(Serialize)]
struct Report<'a> {
    operation: &'a str,
    status: &'static str,
    attempts: u32,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

/// What is known about the stored answer.
#[derive(Serialize)]
struct Answer {
    /// The status code that the first client got.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Where the answer can be had again; absent if it was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    /// Where the result itself is, as the first answer said.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

fn report(base: &str, answered: &Answered) -> Response<Body> {
    let Answered { operation, key, record, now, is_processing, .. } = answered;
    let status = record.status(*now);
    let report = Report {
        operation: operation.name().as_str(),
        status: if *is_processing { PROCESSING } else { word(status) },
        attempts: record.attempts,
        created_at: date::rfc3339(record.created_at),
        completed_at: record.completed_at.map(date::rfc3339),
        expires_at: record.expires_at.map(date::rfc3339),
        answer: record.outcome.as_ref().filter(|_| status == Status::Completed).map(|outcome| {
            let path = || format!("{}/answer", path(base, operation.name(), key));
            kept(outcome, path)
        }),
    };
    // Strings and numbers always serialize.
    let body = serde_json::to_vec(&report).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let wait = match status {
        Status::Running => Some(std::cmp::min(record.lease_until.since(*now), LOOK_AGAIN)),
        Status::Abandoned
        | Status::Unknown
        | Status::Open
        | Status::Completed
        | Status::Expired => is_processing.then_some(LOOK_AGAIN),
    };
    if let Some(wait) = wait {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds(wait)));
    }
    response
}

/// The word for what a completer goes on with; it is the one of a 202 as well.
const PROCESSING: &str = "processing";

/// A running operation is worth another look after this long: most take less.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The caller need not know whether a holder died or said that it does not know.
fn word(status: Status) -> &'static str {
    match status {
        Status::Abandoned => Status::Unknown.as_str(),
        Status::Running | Status::Unknown | Status::Open | Status::Completed | Status::Expired => {
            status.as_str()
        }
    }
}

fn kept(outcome: &Outcome, path: impl Fn() -> String) -> Answer {
    let text = |value: HeaderValue| value.to_str().ok().map(str::to_owned);
    match outcome {
        Outcome::Value(stored) => {
            let stored = Stored::read(stored);
            Answer {
                status: stored.as_ref().map(|stored| stored.status.as_u16()),
                replay: stored.as_ref().map(|_| path()),
                location: stored
                    .and_then(|mut stored| stored.headers.remove(http::header::LOCATION))
                    .and_then(text),
            }
        }
        Outcome::Tombstone(reference) => Answer {
            status: Stored::read(reference).map(|stored| stored.status.as_u16()),
            replay: None,
            location: location_of(reference).and_then(text),
        },
    }
}

/// The path of an operation's status; what a path segment cannot hold is percent-encoded.
pub(crate) fn path(base: &str, operation: &OperationName, key: &RequestKey) -> String {
    let segment: String = key.as_str().bytes().map(escaped).collect();
    format!("{base}/{operation}/{segment}")
}

fn escaped(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
