//! Closing: asked for, confirmed by the channel, and only then done.

use serde_json::json;

use crate::{
    clock::soon,
    shop::no,
    stage::{Setup, Stage},
};

const CLOSE: &str = "alipay.trade.close";

// Behaviour 16.
#[tokio::test]
async fn a_code_that_nobody_scanned_is_not_closed_before_its_time() {
    let stage =
        Setup::new().period("expiry", "1500ms").period("expiry_grace", "300ms").open().await;
    let shop = stage.shop();
    let (asked, left) = (no(&shop.buy("asked").await), no(&shop.buy("left").await));
    let closing = shop.close(&asked).await.is(202);
    assert_eq!(closing["status"], "closing");
    let again = shop.close(&asked).await.is(202);
    assert_eq!(again["status"], "closing", "closing is idempotent by its nature");
    assert_eq!(shop.order("asked").await["status"], "paying", "the order is not cancelled yet");
    for payment in [&asked, &left] {
        shop.becomes(payment, "closed").await;
        let expiry = format!("SELECT expires_at FROM pay_payments WHERE payment_no = '{payment}'");
        let expires_at = stage.books.number(expiry).await;
        let closed_at = stage.books.moved_at(payment, "closed").await;
        assert!(closed_at >= expires_at + 300, "{payment}: {closed_at} {expires_at}");
        let trade = stage.channel.trade(payment).await;
        assert_eq!((trade.status.as_str(), trade.close_missed), ("INTENT", true));
    }
    let asked_at = stage.books.moved_at(&left, "closing").await;
    let expiry = format!("SELECT expires_at FROM pay_payments WHERE payment_no = '{left}'");
    assert!(asked_at >= stage.books.number(expiry).await, "it waited for the buyer to the end");
    assert_eq!(shop.order("asked").await["status"], "closed");
    stage.audit().await;
}

#[tokio::test]
async fn a_code_that_is_to_be_closed_can_still_be_paid() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    shop.close(&payment).await.is(202);
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    let closed = shop.close(&payment).await.is(200);
    assert_eq!(closed["status"], "paid", "the buyer was faster");
    stage.audit().await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"]);
}

#[tokio::test]
async fn a_scanned_payment_is_closed_when_the_channel_confirms() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    stage.channel.scan(&payment).await;
    for _ in 0..2 {
        assert_eq!(shop.close(&payment).await.is(200)["status"], "closed");
    }
    assert_eq!(stage.channel.trade(&payment).await.closed_by.as_deref(), Some("close"));
    assert_eq!(shop.order("1001").await["status"], "closed");
    stage.audit().await;
    assert_eq!(stage.north.told("1001"), ["payment.closed"]);
    assert!(!stage.channel.totals().await.calls.contains_key("alipay.trade.cancel"));
}

// Behaviour 17.
#[tokio::test]
async fn a_buyer_who_pays_between_question_and_close_wins() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for code in [
        "ACQ.TRADE_STATUS_ERROR",
        "ACQ.REASON_TRADE_STATUS_INVALID",
        "ACQ.REASON_ILLEGAL_STATUS",
        "ACQ.TRADE_HAS_SUCCESS",
    ] {
        let payment = no(&shop.buy(code).await);
        stage.channel.scan(&payment).await;
        let faults = json!({
            "races": [{"at": "before_close", "do": "pay"}],
            "notices": [{"fault": "lost"}],
            "close_refusal": code,
        });
        stage.channel.faults(faults).await;
        let closed = shop.close(&payment).await.is(200);
        assert_eq!(closed["status"], "paid", "{code}");
        assert_eq!(shop.order(code).await["status"], "paid", "{code}");
        shop.benefits_become(&payment, "granted").await;
        assert_eq!(stage.books.effects(&payment).await, (1, 0), "{code}");
    }
    assert!(stage.channel.totals().await.closes_refused_as_paid >= 4);
    stage.audit().await;
}

/// Behaviour 17: no clear answer is no close, and the order is not cancelled before there is one.
#[tokio::test]
async fn an_unclear_answer_to_a_close_closes_nothing() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (order_id, fault) in [
        ("drop_request", json!("drop_request")),
        ("drop_answer", json!("drop_answer")),
        ("system_error", json!({"system_error": {"done": false}})),
        ("system_error_done", json!({"system_error": {"done": true}})),
        ("unavailable", json!({"unavailable": {"done": false}})),
        ("wrong_sign", json!("wrong_sign")),
        ("no_sign", json!("no_sign")),
        ("cut_body", json!("cut_body")),
    ] {
        let payment = no(&shop.buy(order_id).await);
        stage.channel.scan(&payment).await;
        // Neither a close nor a question gets a clear answer.
        let query = json!({"unavailable": {"done": false}});
        let rules = json!({"calls": [
            {"fault": fault, "method": CLOSE},
            {"fault": query, "method": "alipay.trade.query"},
        ], "notices": [{"fault": "lost"}]});
        stage.channel.faults(rules).await;
        let answer = shop.close(&payment).await.is(202);
        assert_eq!(answer["status"], "closing", "{order_id}");
        let asked = stage.channel.calls(CLOSE).await;
        soon("it is tried again", || async {
            (stage.channel.calls(CLOSE).await > asked + 2).then_some(())
        })
        .await;
        assert_eq!(stage.books.status(&payment).await, "closing", "{order_id}");
        assert_eq!(shop.order(order_id).await["status"], "paying", "{order_id}");
        stage.channel.faults(json!({"notices": [{"fault": "lost"}]})).await;
        shop.becomes(&payment, "closed").await;
        assert_eq!(shop.order(order_id).await["status"], "closed", "{order_id}");
    }
    stage.audit().await;
}

/// An answer to "take this payment" that comes after the close was asked for changes nothing.
#[tokio::test]
async fn a_late_answer_to_prepare_does_not_revive_a_payment_that_is_to_be_closed() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let slow = json!({"delay_answer": {"ms": 500}});
    stage.channel.break_calls("alipay.trade.precreate", slow, Some(1)).await;
    let body = crate::shop::order("1001");
    let (created, closing) = tokio::join!(shop.create("k1", &body), async {
        let number = soon("the payment is written down", || async {
            let number = stage.books.text("SELECT payment_no FROM pay_payments").await;
            (!number.is_empty()).then_some(number)
        })
        .await;
        shop.close(&number).await.is(202)
    });
    let created = created.is(201);
    assert_eq!((&created["status"], &closing["status"]), (&json!("closing"), &json!("closing")));
    assert_eq!(created["pay"], json!(null), "there is no code to pay with any more");
}

#[tokio::test]
async fn an_expired_payment_is_closed_at_the_channel_and_then_here() {
    let stage = Setup::new().period("expiry", "1500ms").open().await;
    let shop = stage.shop();
    stage.channel.lose_notices().await;
    let payment = no(&shop.buy("1001").await);
    stage.channel.scan(&payment).await;
    shop.becomes(&payment, "closed").await;
    assert_eq!(stage.channel.trade(&payment).await.status, "TRADE_CLOSED");
    assert_eq!(shop.order("1001").await["status"], "closed");
    stage.told("1001", "payment.closed").await;
}
