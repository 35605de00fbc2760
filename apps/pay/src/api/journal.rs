//! Notes every request to create a payment, for the journal of requests.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};

use super::{App, who::Me};
use crate::{db::requests, flow::Desk, merchant::PRINCIPAL};
use hapax::{
    Principal, RequestKey, Tenant,
    http::header::{IDEMPOTENCY_KEY, REPLAYED},
};

/// Answers first, notes then.
pub(super) async fn note(
    State(app): State<App>,
    axum::Extension(me): Me,
    request: Request,
    next: Next,
) -> Response {
    let key = request.headers().get(&IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
    let record = key.and_then(|key| record_of(&app.desk, &me.tenant, key)).unwrap_or_default();
    let response = next.run(request).await;
    app.desk.requests.note(requests::Request {
        tenant: me.tenant.as_str().to_owned(),
        record,
        status: response.status().as_u16(),
        is_replay: u8::from(response.headers().contains_key(&REPLAYED)),
    });
    response
}

/// The first digits of the record that a key names; a quoted key is the bare one.
fn record_of(desk: &Desk, tenant: &Tenant, key: &str) -> Option<String> {
    let bare = key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(key);
    let key = RequestKey::parse(bare).ok()?;
    let merchant = Principal::parse(PRINCIPAL).ok()?;
    Some(desk.create.request(tenant.clone(), merchant, key).id().short())
}
