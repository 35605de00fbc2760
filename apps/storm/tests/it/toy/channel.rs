//! The toy's channel: only the strings that the attacker pulls.

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Toy;
use super::clock::now_ms;
use super::shop::Trade;

type Answer = (StatusCode, Json<Value>);

pub(crate) fn routes() -> Router<Toy> {
    Router::new()
        .route("/_sim/faults", post(async |_body: Json<Value>| Json(json!({}))))
        .route("/_sim/notify/resend", post(async |_body: Json<Value>| Json(json!({}))))
        .route("/_sim/hook", post(hook))
        .route("/_sim/scan", post(scan))
        .route("/_sim/pay", post(pay))
        .route("/_sim/truth", get(truth))
        .route("/page/{no}", get(open))
}

async fn hook(State(toy): State<Toy>, Json(hook): Json<Value>) -> Answer {
    let at = hook["at"].as_str().unwrap().to_owned();
    let number = hook["when"]["out_trade_no"].as_str().unwrap().to_owned();
    toy.shop().hooks.push((at, number));
    (StatusCode::OK, Json(json!({})))
}

async fn scan(State(toy): State<Toy>, Json(body): Json<Value>) -> Answer {
    match toy.shop().trades.get_mut(body["out_trade_no"].as_str().unwrap()) {
        Some(trade) => {
            trade.is_scanned = true;
            (StatusCode::OK, Json(json!({})))
        }
        None => (StatusCode::NOT_FOUND, Json(json!({"error": "no such trade"}))),
    }
}

async fn pay(State(toy): State<Toy>, Json(body): Json<Value>) -> Answer {
    match toy.shop().buy(body["out_trade_no"].as_str().unwrap(), now_ms()) {
        Ok(()) => (StatusCode::OK, Json(json!({}))),
        Err(why) => (StatusCode::CONFLICT, Json(json!({"error": why}))),
    }
}

/// The buyer's browser opens the page, and with it the trade.
async fn open(State(toy): State<Toy>, Path(no): Path<String>) -> StatusCode {
    let mut shop = toy.shop();
    let Some(total) = shop.payments.get(&no).map(|payment| payment.amount) else {
        return StatusCode::NOT_FOUND;
    };
    shop.trades.entry(no).or_insert_with(|| Trade { total, ..Trade::default() });
    StatusCode::SEE_OTHER
}

#[derive(Deserialize)]
struct Wanted {
    out_trade_no: String,
}

async fn truth(State(toy): State<Toy>, Query(wanted): Query<Wanted>) -> Json<Value> {
    let shop = toy.shop();
    let trade = |trade: &Trade| {
        let refunds = trade.refunds.iter().map(|(no, (fen, times))| {
            json!({"out_request_no": no, "refunded_fen": fen, "times": times, "pending": false})
        });
        let refunded: i64 = trade.refunds.values().map(|(fen, _)| fen).sum();
        json!({
            "status": if trade.paid > 0 { "TRADE_SUCCESS" } else { "INTENT" },
            "paid_fen": trade.paid, "refunded_fen": refunded,
            "refunds": refunds.collect::<Vec<_>>(),
        })
    };
    let trades: Vec<Value> = shop.trades.get(&wanted.out_trade_no).map(trade).into_iter().collect();
    let notify_id = format!("notice-of-{}", wanted.out_trade_no);
    let delivery = json!({"notify_id": notify_id, "hostile": false, "outcome": "success"});
    Json(json!({"trades": trades, "deliveries": [delivery]}))
}
