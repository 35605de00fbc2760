//! Money that comes late, twice, or for two attempts.

use serde_json::json;

use crate::{
    clock::soon_is,
    shop::{Shop, no, order},
    stage::{Setup, Stage},
};

const QUERY: &str = "alipay.trade.query";

/// A payment that is closed here while its code can still be paid by a buyer who is late.
async fn closed(shop: &Shop, order_id: &str) -> String {
    let payment = no(&shop.buy(order_id).await);
    shop.close(&payment).await.is(202);
    shop.becomes(&payment, "closed").await;
    payment
}

fn setup() -> Setup {
    Setup::new().period("expiry", "1300ms").period("expiry_grace", "50ms")
}

// Behaviour 18, policy `refund`: callback, its copies and the watch all find the money.
#[tokio::test]
async fn late_money_is_given_back_once() {
    let stage = setup().open().await;
    let shop = stage.shop();
    let payment = closed(&shop, "1001").await;
    let eight = json!({"notices": [{"fault": {"duplicate": {"copies": 8}}}]});
    stage.channel.faults(eight).await;
    stage.channel.pay_late(&payment).await;
    let paid = shop.becomes(&payment, "paid").await;
    assert_eq!(paid["surplus"], true);
    let refund_no = format!("auto_{payment}");
    shop.goes_back(&payment).await;
    let refund = shop.refund_becomes(&payment, &refund_no, "done").await;
    assert_eq!((&refund["origin"], &refund["amount"]), (&json!("auto"), &json!("88.80")));
    assert_eq!(shop.order("1001").await["status"], "closed", "nobody gets what was cancelled");
    stage.audit().await;
    let trade = stage.channel.trade(&payment).await;
    assert_eq!((trade.refunds.len(), trade.refunds[0].times), (1, 1));
    assert_eq!(trade.refunds[0].out_request_no, refund_no);
    assert_eq!(stage.books.effects(&payment).await, (0, 0));
    let told = stage.north.told("1001");
    assert_eq!(told, ["payment.closed", "payment.surplus", "refund.done"]);
}

/// Behaviour 18 without any callback: the watch over closed payments finds the money.
#[tokio::test]
async fn late_money_is_found_without_any_callback() {
    let stage = setup().open().await;
    let shop = stage.shop();
    stage.channel.lose_notices().await;
    let payment = closed(&shop, "1001").await;
    soon_is("it is watched", true, || async {
        let checks = format!("SELECT checks FROM pay_payments WHERE payment_no = '{payment}'");
        stage.books.number(checks).await > 1
    })
    .await;
    stage.channel.pay_late(&payment).await;
    shop.goes_back(&payment).await;
    stage.audit().await;
}

/// Behaviour 18: an outage of the channel that outlasts the watch hides no money.
#[tokio::test]
async fn the_watch_over_a_closed_payment_does_not_end_without_an_answer() {
    let stage = setup().period("watch", "2s").open().await;
    let shop = stage.shop();
    let payment = closed(&shop, "1001").await;
    stage.channel.break_silently(QUERY, json!("drop_request"), None).await;
    stage.channel.pay_late(&payment).await;
    soon_is("the watch is over", true, || async {
        let left = "SELECT expires_at + 2000 - (SELECT now FROM hapax_now) FROM pay_payments";
        stage.books.number(left).await < 0
    })
    .await;
    let asked = stage.channel.calls(QUERY).await;
    soon_is("it is asked on", true, || async { stage.channel.calls(QUERY).await > asked + 3 })
        .await;
    stage.channel.lose_notices().await;
    shop.goes_back(&payment).await;
    stage.audit().await;
}

/// The other end: an answer ends the watch, so that nothing is asked about for ever.
#[tokio::test]
async fn the_watch_over_a_closed_payment_ends_with_an_answer() {
    let stage = setup().period("watch", "1500ms").open().await;
    closed(&stage.shop(), "1001").await;
    soon_is("nothing is due", 1, || async {
        stage.books.count("pay_payments", "status = 'closed' AND next_check_at IS NULL").await
    })
    .await;
    let after = "SELECT (SELECT now FROM hapax_now) - expires_at FROM pay_payments";
    assert!(stage.books.number(after).await >= 1500, "not before its time");
}

// Behaviour 18, policy `reopen`.
#[tokio::test]
async fn late_money_reopens_the_order_if_the_policy_says_so() {
    let stage = setup().late_money("reopen").open().await;
    let shop = stage.shop();
    let payment = closed(&shop, "1001").await;
    stage.channel.pay_late(&payment).await;
    let paid = shop.becomes(&payment, "paid").await;
    assert_eq!(paid["surplus"], false);
    assert_eq!(shop.order("1001").await["status"], "paid");
    shop.benefits_become(&payment, "granted").await;
    stage.audit().await;
    assert_eq!(stage.books.count("pay_refunds", "1").await, 0);
}

/// Behaviour 18, `reopen`, and the order was bought by another attempt meanwhile.
#[tokio::test]
async fn late_money_for_an_order_that_is_paid_goes_back_whatever_the_policy_says() {
    let stage = setup().late_money("reopen").open().await;
    let shop = stage.shop();
    let first = closed(&shop, "1001").await;
    let second = no(&shop.create("k2", &order("1001")).await.is(201));
    stage.channel.pay(&second).await;
    shop.becomes(&second, "paid").await;
    stage.channel.pay_late(&first).await;
    let paid = shop.becomes(&first, "paid").await;
    assert_eq!(paid["surplus"], true);
    shop.goes_back(&first).await;
    stage.audit().await;
    assert_eq!(stage.books.effects(&second).await, (1, 0), "the order has its benefit once");
}

#[tokio::test]
async fn two_attempts_paid_at_once_pay_for_the_order_once() {
    let stage = setup().open().await;
    let shop = stage.shop();
    let first = closed(&shop, "1001").await;
    let second = no(&shop.create("k2", &order("1001")).await.is(201));
    tokio::join!(stage.channel.pay_late(&first), stage.channel.pay(&second));
    for payment in [&first, &second] {
        shop.becomes(payment, "paid").await;
    }
    soon_is("one of them is surplus and went back", 1, || async {
        stage.books.count("pay_refunds", "origin = 'auto' AND status = 'done'").await
    })
    .await;
    stage.audit().await;
    assert_eq!(stage.books.count("pay_payments", "surplus = 1").await, 1);
    assert_eq!(stage.books.effects(&first).await, (1, 0));
    let order = shop.order("1001").await;
    assert_eq!(order["payments"].as_array().unwrap().len(), 2);
}

/// The older attempt pays; the newer one is closed at the channel, and nobody is charged twice.
#[tokio::test]
async fn when_an_older_attempt_pays_the_newer_one_is_closed() {
    let stage = setup().open().await;
    let shop = stage.shop();
    let first = closed(&shop, "1001").await;
    // It would not expire by itself for long.
    let mut body = order("1001");
    body["expires_in"] = json!(3600);
    let second = no(&shop.create("k2", &body).await.is(201));
    stage.channel.scan(&second).await;
    stage.channel.pay_late(&first).await;
    assert_eq!(shop.becomes(&first, "paid").await["surplus"], false);
    shop.becomes(&second, "closed").await;
    let closed_by = stage.channel.trade(&second).await.closed_by;
    assert!(closed_by.is_some(), "{closed_by:?}");
    assert_eq!(shop.order("1001").await["status"], "paid", "the order stays paid");
    stage.audit().await;
}

/// A buyer at the password step when the time runs out, before we have closed anything.
#[tokio::test]
async fn money_at_the_last_moment_is_believed() {
    let stage =
        Setup::new().period("expiry", "1300ms").period("expiry_grace", "400ms").open().await;
    let shop = stage.shop();
    let race = json!({"races": [{"at": "at_expiry", "do": "pay", "delay_ms": 50, "late": true}]});
    stage.channel.faults(race).await;
    let payment = no(&shop.buy("1001").await);
    shop.becomes(&payment, "paid").await;
    stage.audit().await;
}

#[tokio::test]
async fn a_merchant_cannot_take_a_number_of_the_service_itself() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let answer = shop.refund(&payment, &format!("auto_{payment}"), "1.00").await;
    answer.refused(400, "body_invalid");
}
