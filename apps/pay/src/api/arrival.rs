//! Bodies of requests that no layer guards: here before anybody handles them, within bounds.
//!
//! Invariant: a client holds no more than the bound and no longer than the time, whatever it
//! sends and however slowly (`a_body_that_drips_is_refused_on_every_route`).

use std::pin::pin;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::future::{Either, select};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::App;
use crate::flow::Desk;
use hapax::http::{Code, Problem};

/// Largest body, in bytes: JSON of a payment and callbacks are far below it. The guarded route
/// counts by itself, to the same bound.
const BYTES_MAX: usize = 1024 * 1024;

/// Goes on with the whole body, or refuses.
pub(super) async fn whole(State(app): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match read(&app.desk, body).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(problem) => problem.into_response(),
    }
}

/// Reads a body to its end.
///
/// # Errors
/// `body_too_large` (before the first read if the length is known), `body_too_slow` and
/// `body_broken`.
pub(super) async fn read(desk: &Desk, body: Body) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(Code::BodyTooLarge);
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > u64::try_from(BYTES_MAX).unwrap_or(u64::MAX) {
        return Err(too_large());
    }
    let reading = pin!(Limited::new(body, BYTES_MAX).collect());
    let clock = desk.hapax.clock();
    // Both may be dropped: nothing has begun.
    match select(reading, clock.sleep(desk.config.periods.body_timeout.0)).await {
        Either::Left((Ok(body), _)) => Ok(body.to_bytes()),
        Either::Left((Err(cause), _)) if cause.is::<LengthLimitError>() => Err(too_large()),
        Either::Left((Err(cause), _)) => {
            tracing::debug!(error = %cause, "a request body broke off");
            Err(Problem::new(Code::BodyBroken))
        }
        Either::Right(_) => Err(Problem::new(Code::BodyTooSlow)),
    }
}
