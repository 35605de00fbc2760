//! Tokens: issued for a page, taken in exchange for a key.
//!
//! Invariant: a token names the same key in every request that carries it, and only for the user,
//! session and order that it was issued for (`a_token_of_somebody_else_starts_nothing`).

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{
    App, arrival,
    body::IssueToken,
    problem::{
        self, OPERATION_IN_PROGRESS, TOKEN_EXPIRED, TOKEN_FOREIGN, TOKEN_FORGED, TOO_MANY_TOKENS,
    },
    who::Me,
};
use crate::{
    error::Error,
    flow::{self, Desk},
    merchant::PRINCIPAL,
    order::OrderId,
    utc::rfc3339,
};
use hapax::{
    Principal, Tenant,
    http::{
        Code, Problem,
        header::{IDEMPOTENCY_KEY, IDEMPOTENT_TOKEN},
    },
    token::{Binding, Issue, Refused},
};

/// Issues a token for a page that will create a payment.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = IssueToken,
    responses(
        (status = 201, description = "A token"),
        (status = 409, description = "in_progress: a payment of this order is being created"),
        (status = 429, description = "too_many_tokens"),
    ),
    security(("api_key" = []))
)]
pub(super) async fn issue(
    State(app): State<App>,
    axum::Extension(me): Me,
    body: Bytes,
) -> Response {
    let sent = serde_json::from_slice::<IssueToken>(&body)
        .map_err(|why| format!("the body is not understood: {why}"))
        .and_then(|sent| sent.read().map(|order_id| (sent, order_id)));
    let (sent, order_id) = match sent {
        Ok(read) => read,
        Err(complaint) => return problem::body_invalid(complaint).into_response(),
    };
    if sent.operation != app.desk.create.name().as_str() {
        let complaint = format!("`operation` must be \"{}\"", app.desk.create.name());
        return problem::body_invalid(complaint).into_response();
    }
    let bound = flow::token::binding(&me.tenant, &order_id, &sent.user, &sent.session);
    let binding = match bound {
        Ok(binding) => binding,
        Err(complaint) => return problem::body_invalid(complaint.to_string()).into_response(),
    };
    match hand_out(&app.desk, &order_id, &binding).await {
        Ok(response) => response,
        Err(error) => problem::failed(&error).into_response(),
    }
}

async fn hand_out(desk: &Desk, order_id: &OrderId, binding: &Binding) -> Result<Response, Error> {
    let wait = desk.config.periods.wait.0;
    Ok(match flow::token::issue(&desk.sql, &desk.tokens, binding, order_id, wait).await? {
        Issue::Token { token, expires_at } => {
            let told = json!({"token": token.as_str(), "expires_at": rfc3339(expires_at)});
            (StatusCode::CREATED, Json(told)).into_response()
        }
        Issue::Unfinished { retry_after } => {
            let problem = Problem::of(&OPERATION_IN_PROGRESS).retry_after(retry_after);
            match HeaderValue::try_from(place(order_id)) {
                Ok(place) => problem.location(place).into_response(),
                Err(_) => problem.into_response(),
            }
        }
        Issue::TooMany { retry_after } => {
            Problem::of(&TOO_MANY_TOKENS).retry_after(retry_after).into_response()
        }
    })
}

/// Where an order is. Its number may hold characters that mean something in a path.
fn place(order_id: &OrderId) -> String {
    let segment: String = form_urlencoded::byte_serialize(order_id.as_str().as_bytes()).collect();
    format!("/v1/orders/{segment}")
}

/// The members of a request that a token is bound to.
#[derive(Deserialize)]
struct Bearer {
    order_id: String,
    user: String,
    session: String,
}

/// Takes a token in exchange for its key, before the guard looks for one.
pub(super) async fn into_key(
    State(app): State<App>,
    axum::Extension(me): Me,
    request: Request,
    next: Next,
) -> Response {
    let mut tokens = request.headers().get_all(&IDEMPOTENT_TOKEN).iter();
    let Some(token) = tokens.next().cloned() else { return next.run(request).await };
    if tokens.next().is_some() || request.headers().contains_key(&IDEMPOTENCY_KEY) {
        let detail = "Send either one `Idempotency-Key` or one `Idempotent-Token`.";
        return Problem::new(Code::KeyInvalid).detail(detail).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let body = match arrival::read(&app.desk, body).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    match key_of(&app.desk, &me.tenant, &token, &body).await {
        Ok(key) => {
            parts.headers.remove(&IDEMPOTENT_TOKEN);
            parts.headers.insert(IDEMPOTENCY_KEY, key);
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn key_of(
    desk: &Desk,
    tenant: &Tenant,
    token: &HeaderValue,
    body: &Bytes,
) -> Result<HeaderValue, Problem> {
    let bearer: Bearer = serde_json::from_slice(body).map_err(|_| {
        let rule = "with a token the body must name `order_id`, `user` and `session`";
        problem::body_invalid(rule.to_owned())
    })?;
    let order_id = OrderId::parse(&bearer.order_id).ok_or_else(|| {
        problem::body_invalid("`order_id` must be 1 to 64 visible ASCII characters".to_owned())
    })?;
    let binding = flow::token::binding(tenant, &order_id, &bearer.user, &bearer.session)
        .map_err(|complaint| problem::body_invalid(complaint.to_string()))?;
    let text = token.to_str().map_err(|_| Problem::of(&TOKEN_FORGED))?;
    let now = desk.now().await.map_err(|error| problem::failed(&error))?;
    let checked = desk.tokens.check(text, &binding, now).map_err(refused)?;
    let merchant = Principal::parse(PRINCIPAL).map_err(|_| Problem::of(&TOKEN_FORGED))?;
    let call = desk.create.request(tenant.clone(), merchant, checked.key().clone());
    let found = call.look().await.map_err(|error| problem::failed(&Error::from(error)))?;
    let key = checked.admit(&found).map_err(refused)?;
    HeaderValue::try_from(key.as_str()).map_err(|_| Problem::of(&TOKEN_FORGED))
}

fn refused(why: Refused) -> Problem {
    metrics::counter!("hapax_tokens_refused_total", "reason" => why.as_str()).increment(1);
    match why {
        Refused::Expired => Problem::of(&TOKEN_EXPIRED),
        Refused::Foreign => Problem::of(&TOKEN_FOREIGN),
        Refused::Forged | Refused::Revoked | _ => Problem::of(&TOKEN_FORGED),
    }
}
