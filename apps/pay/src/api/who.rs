//! Who calls: an API key in, a merchant out.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};

use super::App;
use crate::merchant::{Merchant, PRINCIPAL};
use hapax::{
    Actor, Principal,
    http::{Caller, Code, Problem, Refusal},
};

/// Lets callers with a valid API key pass and names them for everybody behind.
pub(super) async fn authenticate(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    let merchant = bearer(request.headers()).and_then(|key| app.desk.merchants.authenticate(key));
    let Some(merchant) = merchant.map(Arc::clone) else {
        return Problem::new(Code::Unauthenticated).into_response();
    };
    let actor = Actor::parse(merchant.tenant.as_str());
    let (Ok(principal), Ok(actor)) = (Principal::parse(PRINCIPAL), actor) else {
        return Problem::new(Code::Unauthenticated).into_response();
    };
    let caller = Caller { tenant: merchant.tenant.clone(), principal, actor };
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(merchant);
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (values.next()?, values.next());
    if second.is_some() {
        return None;
    }
    let (scheme, key) = first.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

/// The caller, as the guard around the routes needs it.
pub(super) fn caller(request: &Parts) -> Result<Caller, Refusal> {
    request.extensions.get::<Caller>().cloned().ok_or(Refusal::Unauthenticated)
}

/// The merchant that [`authenticate`] let pass.
pub(super) type Me = axum::Extension<Arc<Merchant>>;
