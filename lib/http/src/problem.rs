//! Refusals as RFC 9457 problem details: one row of a table each.
//!
//! Invariant: status, title, `retryable` and `reuse_key` of a code never change within a major
//! version (`every_problem_is_as_documented`). No text repeats what the client sent.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use axum::{body::Body, response::IntoResponse};
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, LINK, LOCATION, RETRY_AFTER},
};
use serde::Serialize;

/// What went wrong, as programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The operation needs a key and none was sent.
    KeyMissing,
    /// The key cannot be read.
    KeyInvalid,
    /// Nobody said whose key it is.
    ScopeRequired,
    /// The caller has not shown who it is.
    Unauthenticated,
    /// The caller may not do or see this.
    Forbidden,
    /// The body is larger than the operation accepts.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTooSlow,
    /// The body broke off.
    BodyBroken,
    /// The same key came before with another request.
    KeyReused,
    /// The first request with this key is still at work.
    InProgress,
    /// An earlier attempt broke off and nobody knows what it did.
    OutcomeUnknown,
    /// Done before; the answer is no longer kept.
    KeyExpired,
    /// Done before; the answer was too large to keep.
    ResultNotRetained,
    /// Too many bodies are held in memory.
    Overloaded,
    /// Nothing was done, since it could not be recorded.
    StoreUnavailable,
    /// The stored answer cannot be read by this build.
    AnswerUnreadable,
    /// The work broke off.
    HandlerFailed,
    /// Nobody declared such an operation.
    OperationUnknown,
    /// The caller never used this key, or it was forgotten.
    KeyUnknown,
    /// The route is not behind the layer that its handler counts on.
    NotGuarded,
}

/// What a code stands for. Applications write their own refusals in the same form.
///
/// ```
/// use axum::{http::StatusCode, response::IntoResponse};
/// use hapax_http::{Problem, Row};
///
/// const SOLD_OUT: Row = Row {
///     code: "sold_out",
///     status: StatusCode::CONFLICT,
///     title: "The show is sold out",
///     detail: "Choose another show.",
///     retryable: false,
///     reuse_key: Some(false),
/// };
/// assert_eq!(Problem::of(&SOLD_OUT).into_response().status(), StatusCode::CONFLICT);
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a row is written out where it is declared")]
pub struct Row {
    /// The stable word for programs.
    pub code: &'static str,
    /// The usual status.
    pub status: StatusCode,
    /// What it is, the same every time.
    pub title: &'static str,
    /// What to do about it.
    pub detail: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Whether the next try must use the same key (`true`) or a new one (`false`).
    pub reuse_key: Option<bool>,
}

const fn row(
    code: &'static str,
    status: StatusCode,
    retryable: bool,
    reuse_key: Option<bool>,
    title: &'static str,
    detail: &'static str,
) -> Row {
    Row { code, status, title, detail, retryable, reuse_key }
}

impl Code {
    #[expect(clippy::too_many_lines, reason = "a table reads best in one piece")]
    const fn row(self) -> Row {
        match self {
            Self::KeyMissing => row(
                "key_missing",
                StatusCode::BAD_REQUEST,
                false,
                None,
                "The key is missing",
                "Send a header `Idempotency-Key` with a random key: one for each intended \
                 operation, and the same one on every retry.",
            ),
            Self::KeyInvalid => row(
                "key_invalid",
                StatusCode::BAD_REQUEST,
                false,
                None,
                "The key cannot be read",
                "Send the key once, as 1 to 255 visible ASCII characters, bare or in quotes.",
            ),
            Self::ScopeRequired => row(
                "scope_required",
                StatusCode::BAD_REQUEST,
                false,
                None,
                "Nobody said whose key it is",
                "A key belongs to a caller. Authenticate, or use a route that does.",
            ),
            Self::Unauthenticated => row(
                "unauthenticated",
                StatusCode::UNAUTHORIZED,
                false,
                Some(true),
                "The caller is not known",
                "Authenticate and send the request again with the same key.",
            ),
            Self::Forbidden => row(
                "forbidden",
                StatusCode::FORBIDDEN,
                false,
                None,
                "The caller may not do this",
                "The caller has no right to this operation or to its answer.",
            ),
            Self::BodyTooLarge => row(
                "body_too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                false,
                None,
                "The body is too large",
                "Send a smaller body.",
            ),
            Self::BodyTooSlow => row(
                "body_too_slow",
                StatusCode::REQUEST_TIMEOUT,
                true,
                Some(true),
                "The body did not arrive in time",
                "Nothing was done. Send the whole request again with the same key.",
            ),
            Self::BodyBroken => row(
                "body_broken",
                StatusCode::BAD_REQUEST,
                true,
                Some(true),
                "The body broke off",
                "Nothing was done. Send the whole request again with the same key.",
            ),
            Self::KeyReused => row(
                "key_reused",
                StatusCode::UNPROCESSABLE_ENTITY,
                false,
                Some(false),
                "The key was used for another request",
                "This key came before with other content. For a new intention use a new key; for \
                 a retry send exactly what was sent before.",
            ),
            Self::InProgress => row(
                "in_progress",
                StatusCode::CONFLICT,
                true,
                Some(true),
                "The first request is still at work",
                "Wait and send the same request again with the same key.",
            ),
            Self::OutcomeUnknown => row(
                "outcome_unknown",
                StatusCode::CONFLICT,
                true,
                Some(true),
                "The outcome is not known yet",
                "An earlier attempt broke off and it is being found out what it did. Keep the key \
                 and ask again later.",
            ),
            Self::KeyExpired => row(
                "key_expired",
                StatusCode::CONFLICT,
                false,
                Some(false),
                "The key has expired",
                "The operation was done, and its answer is no longer kept. Look the result up; for \
                 a new intention use a new key.",
            ),
            Self::ResultNotRetained => row(
                "result_not_retained",
                StatusCode::CONFLICT,
                false,
                Some(true),
                "The answer was not kept",
                "The operation was done once; its answer was too large to keep. Look the result \
                 up, at `Location` if there is one.",
            ),
            Self::Overloaded => row(
                "overloaded",
                StatusCode::SERVICE_UNAVAILABLE,
                true,
                Some(true),
                "The service is overloaded",
                "Nothing was done. Wait and send the same request again with the same key.",
            ),
            Self::StoreUnavailable => row(
                "store_unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                true,
                Some(true),
                "The operation cannot be recorded",
                "Nothing was begun. Wait and send the same request again with the same key.",
            ),
            Self::AnswerUnreadable => row(
                "answer_unreadable",
                StatusCode::SERVICE_UNAVAILABLE,
                true,
                Some(true),
                "The stored answer cannot be read here",
                "The operation was done once. A newer build wrote its answer; ask again with the \
                 same key.",
            ),
            Self::HandlerFailed => row(
                "handler_failed",
                StatusCode::INTERNAL_SERVER_ERROR,
                true,
                Some(true),
                "The work broke off",
                "It is not known how much was done. Ask again with the same key and never with a \
                 new one.",
            ),
            Self::OperationUnknown => row(
                "operation_unknown",
                StatusCode::NOT_FOUND,
                false,
                None,
                "No such operation",
                "Check the name of the operation in the path.",
            ),
            Self::KeyUnknown => row(
                "key_unknown",
                StatusCode::NOT_FOUND,
                true,
                Some(true),
                "Nothing is known about this key",
                "This caller never used the key for this operation, or it was forgotten.",
            ),
            Self::NotGuarded => row(
                "not_guarded",
                StatusCode::INTERNAL_SERVER_ERROR,
                false,
                None,
                "The route is not guarded",
                "The handler counts on an idempotency layer that is not around its route.",
            ),
        }
    }

    /// The stable word for the code.
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// The status that goes with it unless the operation says otherwise.
    pub const fn status(self) -> StatusCode {
        self.row().status
    }

    /// Every code, in the order of the decision table.
    pub const ALL: [Self; 20] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::ScopeRequired,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::BodyTooLarge,
        Self::BodyTooSlow,
        Self::BodyBroken,
        Self::KeyReused,
        Self::InProgress,
        Self::OutcomeUnknown,
        Self::KeyExpired,
        Self::ResultNotRetained,
        Self::Overloaded,
        Self::StoreUnavailable,
        Self::AnswerUnreadable,
        Self::HandlerFailed,
        Self::OperationUnknown,
        Self::KeyUnknown,
        Self::NotGuarded,
    ];
}

/// A refusal on its way to the client.
#[derive(Clone, Debug)]
#[must_use = "a problem helps nobody until it is answered"]
pub struct Problem {
    code: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: Cow<'static, str>,
    retryable: bool,
    reuse_key: Option<bool>,
    members: Vec<(&'static str, serde_json::Value)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// The problem of this code, in its own words.
    pub fn new(code: Code) -> Self {
        Self::of(&code.row())
    }

    /// The application's own problem, in its own words.
    pub fn of(row: &Row) -> Self {
        let Row { code, status, title, detail, retryable, reuse_key } = *row;
        let (detail, members, headers) = (Cow::Borrowed(detail), Vec::new(), Vec::new());
        Self { code, status, title, detail, retryable, reuse_key, members, headers }
    }

    /// The stable word for what went wrong.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Adds a member of the application's own, as RFC 9457 §3.2 allows.
    pub fn member(mut self, name: &'static str, value: serde_json::Value) -> Self {
        self.members.push((name, value));
        self
    }

    /// Says what is wrong in this very case. Never repeat what the client sent.
    pub fn detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Answers with another status than the code's own.
    pub fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Says when another try is worth it: whole seconds, at least one.
    pub fn retry_after(self, span: Duration) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from(seconds(span)))
    }

    /// Says where the result is.
    pub fn location(self, location: HeaderValue) -> Self {
        self.header(LOCATION, location)
    }

    /// Says where the status of the operation can be asked.
    pub(crate) fn status_link(self, path: &str) -> Self {
        self.link(path, "status")
    }

    /// Says where the problem is explained.
    pub(crate) fn describedby(self, url: &str) -> Self {
        self.link(url, "describedby")
    }

    fn link(self, target: &str, relation: &str) -> Self {
        match HeaderValue::try_from(format!("<{target}>; rel=\"{relation}\"")) {
            Ok(link) => self.header(LINK, link),
            // A target that is no header value was not made by us: leave it out.
            Err(_) => self,
        }
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// Whole seconds, rounded up, at least one: a client that comes back at once is no help.
pub(crate) fn seconds(span: Duration) -> u64 {
    let whole = span.as_secs() + u64::from(span.subsec_nanos() > 0);
    std::cmp::max(whole, 1)
}

/// The body of a problem, in the order in which people read it.
#[derive(Serialize)]
struct Details<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse_key: Option<bool>,
    #[serde(flatten)]
    members: BTreeMap<&'static str, serde_json::Value>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let details = Details {
            r#type: format!("urn:hapax:problem:{}", self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            retryable: self.retryable,
            reuse_key: self.reuse_key,
            members: self.members.into_iter().collect(),
        };
        // Strings, numbers and booleans always serialize.
        let body = serde_json::to_vec(&details).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}
