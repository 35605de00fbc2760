//! What the payment API refuses, beside what the HTTP layer refuses.

use axum::response::{IntoResponse, Response};
use http::{
    StatusCode,
    header::{ALLOW, CONNECTION, CONTENT_TYPE},
};
use serde_json::json;

use crate::{error::Error, order::Conflict};
use hapax::http::{Code, Problem, Row};

macro_rules! rows {
    ($(
        $name:ident = $code:literal $status:ident $retryable:literal $reuse:expr,
            $title:literal, $detail:literal;
    )+) => {
        $(pub(super) const $name: Row = Row {
            code: $code,
            status: StatusCode::$status,
            title: $title,
            detail: $detail,
            retryable: $retryable,
            reuse_key: $reuse,
        };)+
        /// Every row, for the documentation's test.
        #[cfg(test)]
        const ALL: &[Row] = &[$($name),+];
    };
}

rows! {
    BODY_INVALID = "body_invalid" BAD_REQUEST false Some(true),
        "The body is not a request for this", "Send JSON as the documentation shows.";
    TOKEN_FORGED = "token_forged" BAD_REQUEST false None,
        "The token was never issued", "Ask for a new token.";
    TOKEN_FOREIGN = "token_foreign" BAD_REQUEST false None,
        "The token belongs to somebody or something else", "Ask for a token of your own.";
    TOKEN_EXPIRED = "token_expired" CONFLICT false None,
        "The token has expired", "Ask for a new token; nothing was done with this one.";
    TOO_MANY_TOKENS = "too_many_tokens" TOO_MANY_REQUESTS true None,
        "This user asks for tokens too often", "Come again after `Retry-After`.";
    OPERATION_IN_PROGRESS = "in_progress" CONFLICT true None,
        "A payment of this order is being created", "Ask for its state at `Location`.";
    ORDER_CONFLICT = "order_conflict" CONFLICT false Some(false),
        "The order has other content",
        "`conflicts` names the fields; use another order, or send what is stored.";
    NOT_CLOSABLE = "not_closable" CONFLICT false None,
        "The payment cannot be closed", "It failed before it could be paid.";
    NOT_REFUNDABLE = "not_refundable" CONFLICT false None,
        "The payment is not paid", "Only what was paid can be given back.";
    REFUND_CONFLICT = "refund_conflict" CONFLICT false None,
        "The refund number was used for another refund", "Use a new number for another refund.";
    REFUNDS_UNDER_WAY = "refunds_under_way" CONFLICT true None,
        "It is not known yet what is left of the payment",
        "Send the same refund again after `Retry-After`.";
    REFUND_EXCEEDS = "refund_exceeds_payment" UNPROCESSABLE_ENTITY false None,
        "Less than that is left of the payment", "Ask for less.";
    CHANNEL_REFUSED = "channel_refused" UNPROCESSABLE_ENTITY false Some(false),
        "The channel will not take this payment", "Change the request and send it with a new key.";
    CHANNEL_MISSING = "channel_missing" UNPROCESSABLE_ENTITY false None,
        "The tenant has no account at this channel", "Choose another channel.";
    NOT_FOUND = "not_found" NOT_FOUND false None,
        "There is nothing of yours here", "Check the number.";
    BAD_REQUEST = "bad_request" BAD_REQUEST false None,
        "The request cannot be read", "Send the path, the query and the headers in UTF-8.";
    METHOD_NOT_ALLOWED = "method_not_allowed" METHOD_NOT_ALLOWED false None,
        "The method is not for this address", "Use one of the methods in `Allow`.";
    NOT_READY = "unavailable" SERVICE_UNAVAILABLE true Some(true),
        "The service cannot do this now", "Send the same request again after `Retry-After`.";
}

/// A body that cannot be read, with the sentence that says why.
pub(super) fn body_invalid(complaint: String) -> Problem {
    Problem::of(&BODY_INVALID).detail(complaint)
}

/// An order with other content, field by field.
pub(super) fn order_conflict(conflicts: &[Conflict]) -> Problem {
    let fields: Vec<_> = conflicts
        .iter()
        .map(|Conflict { field, stored, given }| {
            json!({"field": field, "stored": stored, "given": given})
        })
        .collect();
    Problem::of(&ORDER_CONFLICT).member("conflicts", json!(fields))
}

/// Gives a refusal of the framework the shape of every other one.
pub(super) async fn shaped(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_ours = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/"));
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let problem = match status {
        StatusCode::NOT_FOUND => Problem::of(&NOT_FOUND),
        StatusCode::METHOD_NOT_ALLOWED => Problem::of(&METHOD_NOT_ALLOWED),
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::BodyTooLarge),
        StatusCode::INTERNAL_SERVER_ERROR => Problem::new(Code::HandlerFailed),
        _ => Problem::of(&BAD_REQUEST).status(status),
    };
    let mut shaped = problem.into_response();
    for name in [ALLOW, CONNECTION] {
        if let Some(value) = response.headers().get(&name) {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped
}

/// A failure of the service itself: logged here with its causes, shown without them.
pub(super) fn failed(error: &Error) -> Problem {
    log(error);
    Problem::of(&NOT_READY).retry_after(std::time::Duration::from_secs(1))
}

/// Logs a failure with its causes, once, where it is handled.
pub(super) fn log(error: &Error) {
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        causes.push(source.to_string());
        cause = source.source();
    }
    tracing::error!(error = %error, causes = causes.join(": "), "a request failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_api_is_documented() {
        let documentation = include_str!("../../../../docs/payment-api.md");
        for row in ALL {
            assert!(documentation.contains(row.code), "{} is not documented", row.code);
        }
    }
}
