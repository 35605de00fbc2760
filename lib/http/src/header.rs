//! The headers of the wire contract, and what a browser must be allowed to send and see.

use http::HeaderName;

/// The key of one intended operation.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// An alias of the key header: a token that the service itself issued.
pub const IDEMPOTENT_TOKEN: HeaderName = HeaderName::from_static("idempotent-token");
/// `true` on an answer that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// On a replay: when the first answer was given.
pub const ORIGINAL_DATE: HeaderName = HeaderName::from_static("idempotency-original-date");
/// On a replay: the `X-Request-Id` of the request that did the work.
pub const ORIGINAL_REQUEST_ID: HeaderName =
    HeaderName::from_static("idempotency-original-request-id");
/// On an answer that is not protected as usual: `fail-open` or `not-stored`.
pub const DEGRADED: HeaderName = HeaderName::from_static("idempotency-degraded");

pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a CORS preflight must allow, besides the content type.
pub const CORS_ALLOWED: [HeaderName; 3] = [IDEMPOTENCY_KEY, IDEMPOTENT_TOKEN, PREFER];
/// What CORS must expose so that a page can tell a replay and obey a refusal.
pub const CORS_EXPOSED: [HeaderName; 6] = [
    IDEMPOTENCY_KEY,
    REPLAYED,
    ORIGINAL_DATE,
    DEGRADED,
    http::header::RETRY_AFTER,
    http::header::LOCATION,
];
