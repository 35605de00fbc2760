//! The HTTP API. Handlers read, call the desk, and show; they decide nothing.
//!
//! Invariant: every route under `/v1` except the channel's callback needs an API key, and what
//! belongs to another tenant does not exist (`a_tenant_sees_nothing_of_another`).

mod body;
mod create;
mod health;
mod journal;
mod notify;
mod openapi;
mod payments;
mod problem;
mod refunds;
mod token;
mod view;
mod who;

use std::{sync::Arc, time::Duration};

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tower_http::{catch_panic::CatchPanicLayer, limit::RequestBodyLimitLayer};

pub(crate) use self::{
    create::{again as create_again, answer as create_answer},
    health::Health,
};
use crate::{flow::Desk, merchant::NOTIFY_PATH};
use hapax::http::{IdempotencyLayer, InFlight, STATUS_PATH, StatusRoutes};

/// Largest body of any request, in bytes; the guarded route counts by itself, to the same bound.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) desk: Arc<Desk>,
    pub(crate) health: Arc<Health>,
}

/// The layer that guards the creation of payments; the completer stores answers through it too.
pub(crate) fn create_layer(desk: &Desk) -> IdempotencyLayer {
    IdempotencyLayer::new(desk.create.clone(), who::caller)
        .in_flight(InFlight::accept())
        .status_at(STATUS_PATH)
        .wait_max(Duration::from_secs(10))
}

/// Where it is asked what became of a key; our completer goes on with what is not decided.
fn statuses(desk: &Desk) -> StatusRoutes {
    StatusRoutes::new(desk.hapax.clone(), who::caller).completed(&desk.create)
}

/// All routes.
pub(crate) fn router(app: App) -> Router {
    let create = Router::new()
        .route("/v1/payments", post(create::create))
        .layer(create_layer(&app.desk))
        .layer(middleware::from_fn_with_state(app.clone(), journal::note))
        .layer(middleware::from_fn_with_state(app.clone(), token::into_key));
    let rest = Router::new()
        .route("/v1/payments/{payment_no}", get(payments::payment))
        .route("/v1/payments/{payment_no}/close", post(payments::close))
        .route("/v1/payments/{payment_no}/refunds", post(refunds::create))
        .route("/v1/payments/{payment_no}/refunds/{refund_no}", get(refunds::refund))
        .route("/v1/orders/{order_id}", get(payments::order))
        .route("/v1/tokens", post(token::issue))
        .merge(statuses(&app.desk).router())
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX));
    let tenants =
        create.merge(rest).layer(middleware::from_fn_with_state(app.clone(), who::authenticate));
    let everybody = Router::new()
        .route(NOTIFY_PATH, post(notify::alipay))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX));
    tenants
        .merge(everybody)
        .layer(CatchPanicLayer::new())
        .layer(middleware::map_response(problem::shaped))
        .with_state(app)
}
