//! Whether the process lives, whether it can work, and what it counts.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header::CONTENT_TYPE};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use super::App;
use crate::{
    db,
    error::Error,
    flow::{Desk, on},
};
use hapax::sql::Kind;

/// What the probes need.
pub(crate) struct Health {
    is_draining: AtomicBool,
    metrics: Option<PrometheusHandle>,
}

impl Health {
    /// A healthy service that shows the metrics of this recorder.
    pub(crate) fn new(metrics: Option<PrometheusHandle>) -> Self {
        Self { is_draining: AtomicBool::new(false), metrics }
    }

    /// Tells load balancers to send nothing more.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }
}

/// The process lives.
#[utoipa::path(get, path = "/livez", tag = "health", responses((status = 200)))]
pub(super) async fn live() -> &'static str {
    "ok"
}

/// The service can work: it is not draining, its database answers and has this build's schema.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200), (status = 503, description = "Names what is not ready"))
)]
pub(super) async fn ready(State(app): State<App>) -> Response {
    let mut failing = Vec::new();
    if app.health.is_draining.load(Ordering::Acquire) {
        failing.push("draining");
    }
    match is_current(&app.desk).await {
        Ok(true) => {}
        Ok(false) => failing.push("schema"),
        Err(_) => failing.push("database"),
    }
    if failing.is_empty() {
        return Json(json!({"status": "ready"})).into_response();
    }
    let body = Json(json!({"status": "not_ready", "failing": failing}));
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

/// Whether the schema of the store that answers is this build's: another one may have changed it.
async fn is_current(desk: &Desk) -> Result<bool, Error> {
    desk.now().await?;
    match desk.sql.check_schema().await {
        Ok(()) => {}
        Err(error) if error.kind() == Kind::Schema => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    db::is_current(on(&mut desk.reader().await?)).await
}

/// Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String)))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    if let Ok(depth) = hapax::message::Outbox::depth(&app.desk.sql).await {
        metrics::gauge!("hapax_outbox_waiting").set(count(depth.waiting));
        metrics::gauge!("hapax_outbox_buried").set(count(depth.buried));
        metrics::gauge!("hapax_outbox_oldest_seconds").set(depth.oldest.as_secs_f64());
    }
    match &app.health.metrics {
        Some(handle) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render()).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A gauge is a float: counts beyond 2^53 do not occur in an outbox.
fn count(value: u64) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}
