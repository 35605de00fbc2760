//! The HTTP API. Handlers read, call the desk, and show; they decide nothing.
//!
//! Invariant: every route under `/v1` except the channel's callback needs an API key, and what
//! belongs to another tenant does not exist (`a_tenant_sees_nothing_of_another`).

mod arrival;
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

use std::sync::Arc;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use self::{
    create::{again as create_again, answer as create_answer},
    health::Health,
};
use crate::{flow::Desk, merchant::NOTIFY_PATH, order::ChannelKind};
use hapax::http::{IdempotencyLayer, InFlight, STATUS_PATH, StatusRoutes};

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
        .body_time_max(desk.config.periods.body_timeout.0)
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
        .layer(middleware::from_fn_with_state(app.clone(), arrival::whole));
    let tenants =
        create.merge(rest).layer(middleware::from_fn_with_state(app.clone(), who::authenticate));
    tenants
        .merge(everybody(&app))
        .layer(CatchPanicLayer::new())
        .layer(middleware::map_response(problem::shaped))
        .with_state(app)
}

/// The routes that need no API key. A channel that nobody has an account at has none.
fn everybody(app: &App) -> Router<App> {
    let mut routes = Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document));
    if app.desk.merchants.use_channel(ChannelKind::Alipay) {
        routes = routes.route(NOTIFY_PATH, post(notify::alipay));
    }
    routes.layer(middleware::from_fn_with_state(app.clone(), arrival::whole))
}
