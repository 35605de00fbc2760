//! The toy's API.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::clock::now_ms;
use super::desk::Reply;
use super::{Flaw, Shop, Toy, money};

pub(crate) fn routes() -> Router<Toy> {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/v1/tokens", post(issue))
        .route("/v1/payments", post(create))
        .route("/v1/payments/{no}", get(payment))
        .route("/v1/payments/{no}/close", post(close))
        .route("/v1/payments/{no}/refunds", post(refund))
        .route("/v1/payments/{no}/refunds/{refund_no}", get(refund_of))
        .route("/v1/orders/{order_id}", get(order))
        .route("/v1/operations/payment.create/{key}", get(operation))
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap();
        let mut response = (status, self.body).into_response();
        let headers = response.headers_mut();
        if self.is_replay {
            headers.insert("idempotency-replayed", "true".parse().unwrap());
        }
        if let Some(location) = self.location {
            headers.insert(LOCATION, location.parse().unwrap());
            headers.insert(RETRY_AFTER, "0".parse().unwrap());
        }
        response
    }
}

async fn issue(State(toy): State<Toy>, headers: HeaderMap) -> Reply {
    let mut shop = toy.shop();
    let Some(tenant) = tenant(&headers) else { return stranger() };
    let token = shop.number("token-");
    shop.tokens.insert(token.clone(), tenant);
    Reply::new(201, &json!({"token": token}))
}

async fn create(State(toy): State<Toy>, headers: HeaderMap, body: Bytes) -> Reply {
    let mut shop = toy.shop();
    let Some(tenant) = tenant(&headers) else { return stranger() };
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let key = match (header("idempotency-key"), header("idempotent-token")) {
        (None, None) => return Reply::refuse(400, "key_missing"),
        (Some(_), Some(_)) => return Reply::refuse(400, "key_invalid"),
        (None, Some(token)) if shop.tokens.get(&token) != Some(&tenant) => {
            return Reply::refuse(400, "token_forged");
        }
        (None, Some(token)) => token,
        (Some(key), None) => key.trim_matches('"').to_owned(),
    };
    if key.len() > 255 {
        return Reply::refuse(400, "key_invalid");
    }
    shop.create(&tenant, &key, &body, now_ms())
}

async fn payment(State(toy): State<Toy>, headers: HeaderMap, Path(no): Path<String>) -> Reply {
    let shop = toy.shop();
    match found(&shop, &headers, &no) {
        Some(payment) => Reply::new(200, &payment),
        None => Reply::refuse(404, "not_found"),
    }
}

async fn order(State(toy): State<Toy>, headers: HeaderMap, Path(id): Path<String>) -> Reply {
    let shop = toy.shop();
    let Some(tenant) = tenant(&headers) else { return stranger() };
    match shop
        .orders
        .get(&(tenant, id.clone()))
        .and_then(|rounds| Some((rounds.len(), rounds.last()?)))
    {
        Some((round, newest)) => {
            let payments: Vec<Value> =
                newest.payments.iter().map(|no| json!({"payment_no": no})).collect();
            Reply::new(200, &json!({"order_id": id, "round": round, "payments": payments}))
        }
        None => Reply::refuse(404, "not_found"),
    }
}

async fn operation(State(toy): State<Toy>, headers: HeaderMap, Path(key): Path<String>) -> Reply {
    let mut shop = toy.shop();
    let Some(tenant) = tenant(&headers) else { return stranger() };
    let id = (tenant.clone(), key);
    shop.finish(&tenant, &id, now_ms());
    let is_running = shop.running.contains_key(&id) || shop.flaw == Flaw::LiesAboutKeys;
    match shop.keys.get(&id) {
        _ if is_running && shop.flaw == Flaw::LeadsNowhere => Reply::refuse(404, "key_unknown"),
        _ if is_running => Reply::new(200, &json!({"status": "running"})),
        Some(done) => {
            let result = json!({"status": done.status});
            Reply::new(200, &json!({"status": "completed", "result": result}))
        }
        None => Reply::refuse(404, "not_found"),
    }
}

async fn close(State(toy): State<Toy>, headers: HeaderMap, Path(no): Path<String>) -> Reply {
    let mut shop = toy.shop();
    if found(&shop, &headers, &no).is_none() {
        return Reply::refuse(404, "not_found");
    }
    let strike = |shop: &mut Shop, moment: &str| {
        let hook = (moment.to_owned(), no.clone());
        if let Some(at) = shop.hooks.iter().position(|known| *known == hook) {
            shop.hooks.remove(at);
            // Refused if the buyer paid before.
            shop.buy(&no, now_ms()).unwrap_or_default();
        }
    };
    strike(&mut shop, "before_close");
    let is_scanned = shop.trades.get(&no).is_some_and(|trade| trade.is_scanned);
    let is_open = shop.payments[&no].is_open();
    if is_open && is_scanned {
        shop.shut(&no);
    } else if is_open {
        shop.payments.get_mut(&no).unwrap().status = "closing";
        let closing = shop.payments[&no].json(shop.channel);
        strike(&mut shop, "after_close_not_exist");
        return Reply::new(202, &closing);
    }
    Reply::new(200, &shop.payments[&no].json(shop.channel))
}

async fn refund(
    State(toy): State<Toy>,
    headers: HeaderMap,
    Path(no): Path<String>,
    body: Bytes,
) -> Reply {
    let mut shop = toy.shop();
    if found(&shop, &headers, &no).is_none() {
        return Reply::refuse(404, "not_found");
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let refund_no = body["refund_no"].as_str().unwrap().to_owned();
    let amount = money::parse(body["amount"].as_str().unwrap()).unwrap();
    let payment = &shop.payments[&no];
    match payment.refunds.get(&refund_no) {
        Some(known) if *known != amount => return Reply::refuse(409, "refund_conflict"),
        Some(_) if shop.flaw != Flaw::RefundsAgain => {
            return Reply::new(200, &refund_json(&no, &refund_no, amount));
        }
        _ => {}
    }
    let fits = payment.refunded + amount <= payment.amount || shop.flaw == Flaw::RefundsTooMuch;
    if !fits {
        return Reply::refuse(422, "refund_exceeds_payment");
    }
    shop.give_back(&no, &refund_no, amount);
    Reply::new(201, &refund_json(&no, &refund_no, amount))
}

async fn refund_of(
    State(toy): State<Toy>,
    headers: HeaderMap,
    Path((no, refund_no)): Path<(String, String)>,
) -> Reply {
    let shop = toy.shop();
    let known =
        found(&shop, &headers, &no).and_then(|_| shop.payments[&no].refunds.get(&refund_no));
    match known {
        Some(amount) => Reply::new(200, &refund_json(&no, &refund_no, *amount)),
        None => Reply::refuse(404, "not_found"),
    }
}

fn refund_json(no: &str, refund_no: &str, amount: i64) -> Value {
    let amount = money::text(amount);
    json!({"refund_no": refund_no, "payment_no": no, "amount": amount, "status": "done"})
}

/// The payment, if the caller may see it.
fn found(shop: &Shop, headers: &HeaderMap, no: &str) -> Option<Value> {
    let tenant = tenant(headers)?;
    let payment = shop.payments.get(no)?;
    let is_theirs = payment.tenant == tenant || shop.flaw == Flaw::ReadableByAll;
    is_theirs.then(|| payment.json(shop.channel))
}

fn tenant(headers: &HeaderMap) -> Option<String> {
    let key = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let name = key.strip_prefix("Bearer key-of-")?;
    super::TENANTS.contains(&name).then(|| name.to_owned())
}

fn stranger() -> Reply {
    Reply::refuse(401, "unauthenticated")
}
