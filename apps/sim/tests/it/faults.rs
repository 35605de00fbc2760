//! Faults of the merchant's calls, each at least once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Call, is_from_alipay, signed_slice, verified};
use crate::stage::{Stage, counted, node, pause};

const QUERY: &str = "alipay.trade.query";
const REFUND: &str = "alipay.trade.refund";

/// A stage on which the fault strikes the method once, with the paid trade T1.
async fn struck(fault: &Value, method: &str) -> Stage {
    let stage = Stage::open().await;
    stage.paid("T1", None).await;
    let rule = json!({"fault": fault, "method": method, "when": {"times": 1}});
    stage.control("faults", &json!({"calls": [rule]})).await;
    stage
}

fn query() -> Call {
    Call::new(QUERY, &json!({"out_trade_no": "T1"})).signed()
}

fn refund() -> Call {
    let biz = json!({"out_trade_no": "T1", "out_request_no": "r1", "refund_amount": "8.03"});
    Call::new(REFUND, &biz).signed()
}

/// The next call of the same kind works.
async fn is_over(stage: &Stage, fault: &str, method: &str) {
    assert_eq!(stage.query("T1").await["code"], "10000");
    let name = format!("{fault}@{method}");
    assert_eq!(counted(&stage.totals().await, &name), 1, "{name}");
}

#[tokio::test]
async fn a_dropped_request_does_nothing() {
    let stage = struck(&json!("drop_request"), REFUND).await;
    assert!(stage.send(&refund()).await.is_err(), "the connection closes");
    assert_eq!(stage.trade("T1").await.refunded_fen, 0);
    is_over(&stage, "drop_request", REFUND).await;
}

#[tokio::test]
async fn a_dropped_answer_hides_what_was_done() {
    let stage = struck(&json!("drop_answer"), REFUND).await;
    assert!(stage.send(&refund()).await.is_err(), "the connection closes");
    assert_eq!(stage.trade("T1").await.refunded_fen, 803, "but the money is gone");
    let again = stage.refund("T1", "r1", "8.03").await;
    assert_eq!((&again["code"], &again["fund_change"]), (&json!("10000"), &json!("N")));
    assert_eq!(stage.trade("T1").await.refunds[0].times, 1);
    is_over(&stage, "drop_answer", REFUND).await;
}

#[tokio::test]
async fn a_delayed_request_is_done_late_and_a_delayed_answer_at_once() {
    for (fault, refunded_meanwhile) in [("delay_request", 0), ("delay_answer", 803)] {
        let stage = struck(&json!({fault: {"ms": 400}}), REFUND).await;
        let call = refund();
        let sending = stage.send(&call);
        let watching = async {
            pause(Duration::from_millis(200)).await;
            stage.trade("T1").await.refunded_fen
        };
        let (sent, seen) = tokio::join!(sending, watching);
        assert_eq!(seen, refunded_meanwhile, "{fault}");
        let answer = verified(&node(REFUND), &sent.unwrap().1);
        assert_eq!(answer["fund_change"], "Y", "{fault}");
        is_over(&stage, fault, REFUND).await;
    }
}

#[tokio::test]
async fn a_call_is_done_although_its_caller_went_away() {
    let stage = struck(&json!({"delay_request": {"ms": 400}}), REFUND).await;
    let request = stage.http.post(stage.url("/gateway.do")).body(refund().wire());
    let gone = request.timeout(Duration::from_millis(100)).send().await.unwrap_err();
    assert!(gone.is_timeout());
    assert_eq!(stage.trade("T1").await.refunded_fen, 0, "not yet");
    stage.totals_reach("the late refund", |totals| totals.money_out_fen == 803).await;
}

#[tokio::test]
async fn an_unknown_outcome_may_or_may_not_have_been_done() {
    for (fault, code, sub_code) in [
        ("unavailable", "20000", "isp.unknow-error"),
        ("system_error", "40004", "ACQ.SYSTEM_ERROR"),
    ] {
        for (done, refunded) in [(false, 0), (true, 803)] {
            let stage = struck(&json!({fault: {"done": done}}), REFUND).await;
            let (_, body) = stage.send(&refund()).await.unwrap();
            let answer = verified(&node(REFUND), &body);
            assert_eq!((&answer["code"], &answer["sub_code"]), (&json!(code), &json!(sub_code)));
            assert_eq!(stage.trade("T1").await.refunded_fen, refunded, "{fault} {done}");
            is_over(&stage, fault, REFUND).await;
        }
    }
}

#[tokio::test]
async fn a_refusal_of_any_kind_can_be_staged() {
    let fault = json!({"refused": {"sub_code": "ACQ.SELLER_BALANCE_NOT_ENOUGH"}});
    let stage = struck(&fault, REFUND).await;
    let answer = stage.refund("T1", "r1", "8.03").await;
    assert_eq!(answer["sub_code"], "ACQ.SELLER_BALANCE_NOT_ENOUGH");
    assert_eq!(stage.trade("T1").await.refunded_fen, 0);
    is_over(&stage, "refused", REFUND).await;
}

#[tokio::test]
async fn signatures_can_be_wrong_or_missing() {
    let stage = struck(&json!("wrong_sign"), QUERY).await;
    let (_, body) = stage.send(&query()).await.unwrap();
    let text = String::from_utf8(body.clone()).unwrap();
    let sign = text.rsplit("\"sign\":\"").next().unwrap().trim_end_matches("\"}");
    assert_eq!(sign.len(), 344, "it looks like a signature");
    assert!(!is_from_alipay(signed_slice(&node(QUERY), &body).unwrap(), sign));
    is_over(&stage, "wrong_sign", QUERY).await;

    let stage = struck(&json!("no_sign"), QUERY).await;
    let (_, body) = stage.send(&query()).await.unwrap();
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("TRADE_SUCCESS") && !text.contains("\"sign\""), "{text}");
    is_over(&stage, "no_sign", QUERY).await;
}

#[tokio::test]
async fn a_second_node_follows_the_signature() {
    let stage = struck(&json!("node_twice"), QUERY).await;
    let (_, body) = stage.send(&query()).await.unwrap();
    let text = String::from_utf8(body.clone()).unwrap();
    assert_eq!(text.matches("\"alipay_trade_query_response\":").count(), 2);
    let last: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(last[node(QUERY)]["total_amount"], "0.01", "a careless reader sees the lie");
    let first: Value = serde_json::from_slice(signed_slice(&node(QUERY), &body).unwrap()).unwrap();
    assert_eq!(first["total_amount"], "88.80");
    is_over(&stage, "node_twice", QUERY).await;
}

#[tokio::test]
async fn a_member_called_sign_inside_the_node_is_signed_too() {
    let stage = struck(&json!("inner_sign"), QUERY).await;
    let (_, body) = stage.send(&query()).await.unwrap();
    let answer = verified(&node(QUERY), &body);
    assert!(answer["sign"].is_string(), "{answer}");
    is_over(&stage, "inner_sign", QUERY).await;
}

#[tokio::test]
async fn answers_can_be_cut_short_or_broken_off() {
    let stage = struck(&json!("cut_body"), QUERY).await;
    let (status, body) = stage.send(&query()).await.unwrap();
    assert_eq!(status, 200, "the message is complete");
    assert!(serde_json::from_slice::<Value>(&body).is_err(), "the JSON is not");
    assert!(body.starts_with(b"{\"alipay_trade_query_response\""));
    is_over(&stage, "cut_body", QUERY).await;

    let stage = struck(&json!("broken_body"), QUERY).await;
    let error = stage.send(&query()).await.unwrap_err();
    assert!(error.is_body() || error.is_decode(), "after the head: {error:?}");
    is_over(&stage, "broken_body", QUERY).await;
}

#[tokio::test]
async fn a_proxy_answers_in_place_of_the_channel() {
    for (done, refunded) in [(false, 0), (true, 803)] {
        let stage = struck(&json!({"bad_gateway": {"done": done}}), REFUND).await;
        let (status, body) = stage.send(&refund()).await.unwrap();
        assert!(status == 502 && body.starts_with(b"<html>"));
        assert_eq!(stage.trade("T1").await.refunded_fen, refunded);
        is_over(&stage, "bad_gateway", REFUND).await;
    }
}

#[tokio::test]
async fn an_answer_can_come_by_drips() {
    let stage = struck(&json!({"slow_drip": {"pause_ms": 10}}), QUERY).await;
    let before = jiff::Timestamp::now();
    let (_, body) = stage.send(&query()).await.unwrap();
    let took = jiff::Timestamp::now().duration_since(before).as_millis();
    assert_eq!(verified(&node(QUERY), &body)["trade_status"], "TRADE_SUCCESS");
    assert!(took >= 200, "about twenty-five pieces: {took} ms");
    is_over(&stage, "slow_drip", QUERY).await;
}

#[tokio::test]
async fn a_refund_can_be_done_later() {
    let stage = struck(&json!({"refund_later": {"ms": 300}}), REFUND).await;
    let ask = json!({"out_trade_no": "T1", "out_request_no": "r1"});
    let accepted = stage.refund("T1", "r1", "8.03").await;
    assert_eq!((&accepted["code"], &accepted["fund_change"]), (&json!("10000"), &json!("N")));
    assert_eq!(accepted["refund_fee"], "0.00");
    let asked = stage.call("alipay.trade.fastpay.refund.query", &ask).await;
    assert!(asked.get("refund_status").is_none(), "not done yet: {asked}");
    assert!(stage.trade("T1").await.refunds[0].pending);
    stage.totals_reach("the refund", |totals| totals.refunds == 1).await;
    let asked = stage.call("alipay.trade.fastpay.refund.query", &ask).await;
    assert_eq!(asked["refund_status"], "REFUND_SUCCESS");
    is_over(&stage, "refund_later", REFUND).await;
}

#[tokio::test]
async fn chances_strike_about_as_often_as_they_say_and_the_same_way_each_time() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let rule = json!({"fault": "no_sign", "method": QUERY, "when": {"chance": 0.3}});
        let stage = Stage::with_faults(json!({"calls": [rule]})).await;
        let mut struck = Vec::new();
        for n in 0..60 {
            let call = Call::new(QUERY, &json!({"out_trade_no": format!("T{n}")})).signed();
            let (_, body) = stage.send(&call).await.unwrap();
            struck.push(!String::from_utf8(body).unwrap().contains("\"sign\""));
        }
        let hits = struck.iter().filter(|hit| **hit).count();
        assert!((5..35).contains(&hits), "{hits} of 60");
        let name = format!("no_sign@{QUERY}");
        assert_eq!(counted(&stage.totals().await, &name), hits as u64);
        runs.push(struck);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn a_browser_can_meet_a_dead_gateway() {
    let stage = Stage::with_faults(json!({"calls": [
        {"fault": "drop_request", "method": "alipay.trade.page.pay", "when": {"times": 1}},
        {"fault": {"bad_gateway": {"done": false}}, "method": "alipay.trade.page.pay"},
    ]}))
    .await;
    let biz = json!({
        "out_trade_no": "T1", "total_amount": "1.00", "subject": "tea",
        "product_code": "FAST_INSTANT_TRADE_PAY",
    });
    let call = Call::new("alipay.trade.page.pay", &biz).signed();
    assert!(stage.send(&call).await.is_err());
    assert_eq!(stage.send(&call).await.unwrap().0, 502);
    assert_eq!(stage.totals().await.trades, 0);
}
