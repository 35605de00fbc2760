//! What a repeat gets while the first request is at work, and how long it wants to wait.

use std::{fmt, sync::Arc, time::Duration};

use axum::{body::Body, response::IntoResponse};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, LOCATION, RETRY_AFTER},
};

use crate::{
    header,
    problem::{Code, Problem, seconds},
    status,
};
use hapax_core::{OperationName, RequestKey};

/// Longest wait that a client can ask for with `Prefer: wait=n`, by default.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// A request that somebody else's attempt is at work on.
#[derive(Debug)]
#[non_exhaustive]
pub struct Waiting<'a> {
    /// The operation.
    pub operation: &'a OperationName,
    /// The caller's key.
    pub key: &'a RequestKey,
    /// When another look is worth it.
    pub retry_after: Duration,
    pub(crate) status_base: Option<&'a str>,
}

impl Waiting<'_> {
    /// The path of the operation's status, if the layer was told where it is.
    pub fn status_path(&self) -> Option<String> {
        self.status_base.map(|base| status::path(base, self.operation, self.key))
    }
}

/// The statuses that the field uses for "still at work".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusyStatus {
    /// 409, as the IETF draft has it.
    #[default]
    Conflict,
    /// 425 Too Early.
    TooEarly,
    /// 429 Too Many Requests.
    TooMany,
    /// 423 Locked.
    Locked,
}

impl BusyStatus {
    fn code(self) -> StatusCode {
        match self {
            Self::Conflict => StatusCode::CONFLICT,
            Self::TooEarly => StatusCode::TOO_EARLY,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Locked => StatusCode::LOCKED,
        }
    }
}

/// The answer to a repeat while the first request is at work.
#[derive(Clone)]
pub struct InFlight(Arc<dyn Fn(&Waiting<'_>) -> Response<Body> + Send + Sync>);

impl InFlight {
    /// A problem `in_progress` with this status, `Retry-After`, and a link to the status.
    pub fn refuse(status: BusyStatus) -> Self {
        Self::answer(move |waiting| {
            let problem = Problem::new(Code::InProgress).status(status.code());
            let problem = problem.retry_after(waiting.retry_after);
            match waiting.status_path() {
                Some(path) => problem.status_link(&path).into_response(),
                None => problem.into_response(),
            }
        })
    }

    /// 202 with `{"status":"processing"}`, `Retry-After`, and the status as `Location`.
    ///
    /// The place comes from [`status_at`](crate::IdempotencyLayer::status_at).
    pub fn accept() -> Self {
        Self::answer(move |waiting| {
            let mut response = Response::new(Body::from(r#"{"status":"processing"}"#));
            *response.status_mut() = StatusCode::ACCEPTED;
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(waiting.retry_after)));
            // A base that is no header value gives an answer without a place.
            let place = waiting.status_path().map(HeaderValue::try_from);
            if let Some(Ok(place)) = place {
                headers.insert(LOCATION, place);
            }
            response
        })
    }

    /// Any other answer. It must not say that the operation failed.
    pub fn answer(answer: impl Fn(&Waiting<'_>) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self(Arc::new(answer))
    }

    pub(crate) fn respond(&self, waiting: &Waiting<'_>) -> Response<Body> {
        (self.0)(waiting)
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self::refuse(BusyStatus::default())
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight(..)")
    }
}

/// The wait that the client prefers (RFC 7240), if it says so.
pub(crate) fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers.get_all(header::PREFER).iter().filter_map(|line| line.to_str().ok());
    let mut wishes = lines.flat_map(|line| line.split(',')).filter_map(|wish| {
        let (name, value) = wish.split(';').next()?.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then(|| Duration::from_secs(seconds))
    });
    wishes.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_readable_wish_counts() {
        for (lines, wait) in [
            (&["wait=10"][..], Some(10)),
            (&["respond-async, Wait = \"3\""], Some(3)),
            (&["return=minimal", "wait=0; x=1, wait=9"], Some(0)),
            (&["wait=soon", "wait=-1", "wait", "waiting=5"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::PREFER, HeaderValue::from_static(line));
            }
            assert_eq!(preferred_wait(&headers), wait.map(Duration::from_secs), "{lines:?}");
        }
    }
}
