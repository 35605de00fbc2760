//! What the payment API refuses, beside what the HTTP layer refuses.

use hapax::http::{Problem, Row};
use http::StatusCode;
use serde_json::json;

use crate::{error::Error, order::Conflict};

macro_rules! rows {
    ($($name:ident = $code:literal $status:ident $retryable:literal $reuse:expr, $title:literal, $detail:literal;)+) => {
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
        "the body is not a request for this", "send JSON as the documentation shows";
    TOKEN_FORGED = "token_forged" BAD_REQUEST false None,
        "the token was never issued", "ask for a new token";
    TOKEN_FOREIGN = "token_foreign" BAD_REQUEST false None,
        "the token belongs to somebody or something else", "ask for a token of your own";
    TOKEN_EXPIRED = "token_expired" CONFLICT false None,
        "the token has expired", "ask for a new token; nothing was done with this one";
    TOO_MANY_TOKENS = "too_many_tokens" TOO_MANY_REQUESTS true None,
        "this user asks for tokens too often", "come again after `Retry-After`";
    OPERATION_IN_PROGRESS = "in_progress" CONFLICT true None,
        "a payment of this order is being created", "ask for its state at `Location`";
    ORDER_CONFLICT = "order_conflict" CONFLICT false Some(false),
        "the order has other content",
        "`conflicts` names the fields; use another order, or send what is stored";
    NOT_CLOSABLE = "not_closable" CONFLICT false None,
        "the payment cannot be closed", "it failed before it could be paid";
    NOT_REFUNDABLE = "not_refundable" CONFLICT false None,
        "the payment is not paid", "only what was paid can be given back";
    REFUND_CONFLICT = "refund_conflict" CONFLICT false None,
        "the refund number was used for another refund", "use a new number for another refund";
    REFUND_EXCEEDS = "refund_exceeds_payment" UNPROCESSABLE_ENTITY false None,
        "less than that is left of the payment", "ask for less";
    CHANNEL_REFUSED = "channel_refused" UNPROCESSABLE_ENTITY false Some(false),
        "the channel will not take this payment", "change the request and send it with a new key";
    CHANNEL_MISSING = "channel_missing" UNPROCESSABLE_ENTITY false None,
        "the tenant has no account at this channel", "choose another channel";
    NOT_FOUND = "not_found" NOT_FOUND false None,
        "there is nothing of yours here", "check the number";
    NOT_READY = "unavailable" SERVICE_UNAVAILABLE true Some(true),
        "the service cannot do this now", "send the same request again after `Retry-After`";
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
