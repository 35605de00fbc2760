//! The channel's callbacks.

use axum::{
    body::Bytes,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::App;
use crate::flow::notify::Heard;

/// Exactly what the channel takes as an acknowledgement: seven bytes and nothing else.
const SUCCESS: &str = "success";
/// Anything else makes the channel send again.
const FAILURE: &str = "failure";

/// Hears a callback of Alipay; `success` only once it is in the books.
#[utoipa::path(
    post, path = "/v1/notify/alipay", tag = "channel",
    request_body(content = String, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "`success` or `failure`", body = String))
)]
pub(super) async fn alipay(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let heard = app.desk.hear_alipay(query.as_deref(), &body).await;
    let (answer, outcome) = match &heard {
        Ok(Heard::Settled) => (SUCCESS, "settled"),
        Ok(Heard::Kept(verdict)) => (FAILURE, verdict.as_str()),
        Ok(Heard::Untrusted(why)) => {
            tracing::warn!(error = %why, "a callback was refused");
            (FAILURE, "untrusted")
        }
        Ok(Heard::Stranger) => (FAILURE, "stranger"),
        Err(error) => {
            super::problem::log(error);
            (FAILURE, "failed")
        }
    };
    metrics::counter!("hapax_pay_callbacks_total", "outcome" => outcome).increment(1);
    (StatusCode::OK, answer).into_response()
}
