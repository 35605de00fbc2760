//! Sweeps: the last net under lost callbacks.

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    clock::{soon, soon_is},
    shop::{no, order},
    stage::{Setup, Stage},
};

const QUERY: &str = "alipay.trade.query";

async fn buy_many(stage: &Stage, orders: usize) -> Vec<String> {
    let mut buying = JoinSet::new();
    for number in 0..orders {
        let shop = stage.shop();
        buying.spawn(async move { no(&shop.buy(&format!("o{number}")).await) });
    }
    buying.join_all().await
}

// Behaviour 19: no callback at all, and three instances that sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_callback_every_payment_is_found_and_issued() {
    let stage = Stage::open().await;
    let others = [stage.another().await, stage.another().await];
    stage.channel.lose_notices().await;
    let payments = buy_many(&stage, 60).await;
    for payment in &payments {
        stage.channel.pay(payment).await;
    }
    soon_is("all are paid", 60, || async {
        stage.books.count("pay_payments", "status = 'paid'").await
    })
    .await;
    stage.audit().await;
    let totals = stage.channel.totals().await;
    assert_eq!((totals.deliveries, totals.notices_lost), (0, 60));
    assert_eq!(stage.books.count("pay_effects", "kind = 'grant'").await, 60);
    for other in others {
        other.stop().await;
    }
}

/// Behaviour 19: slow answers, quick sweeps, three instances, and each row is asked about once a
/// step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_asks_about_each_payment_once() {
    let stage = Setup::new()
        .period("checks", "300ms,1h")
        .period("sweep", "5ms")
        .period("channel_timeout", "3s")
        .open()
        .await;
    let others = [stage.another().await, stage.another().await];
    let slow = json!({"delay_answer": {"ms": 500}});
    stage.channel.break_calls(QUERY, slow, None).await;
    let payments = buy_many(&stage, 30).await;
    soon_is("each was asked about", 30, || async {
        stage.books.count("pay_payments", "checks = 1 AND check_token IS NULL").await
    })
    .await;
    assert_eq!(stage.channel.calls(QUERY).await, u64::try_from(payments.len()).unwrap());
    for other in others {
        other.stop().await;
    }
    assert_eq!(stage.channel.calls(QUERY).await, 30);
}

/// A lease of a sweeper that died lapses, and another one goes on.
#[tokio::test]
async fn what_a_dead_sweeper_left_is_taken_over() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    stage.channel.lose_notices().await;
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    // As a sweeper leaves a row: leased for a while, with a token that nobody holds any more.
    stage
        .books
        .run(
            "UPDATE pay_payments SET check_token = zeroblob(16), next_check_at = \
              (SELECT now + 300 FROM hapax_now)",
        )
        .await;
    shop.becomes(&payment, "paid").await;
    stage.audit().await;
}

/// What cannot be believed is as good as no answer.
#[tokio::test]
async fn no_answer_to_a_question_moves_nothing_and_ends_nothing() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (order_id, fault) in [
        ("drop_request", json!("drop_request")),
        ("drop_answer", json!("drop_answer")),
        ("unavailable", json!({"unavailable": {"done": true}})),
        ("system_error", json!({"system_error": {"done": true}})),
        ("wrong_sign", json!("wrong_sign")),
        ("no_sign", json!("no_sign")),
        ("node_twice", json!("node_twice")),
        ("cut_body", json!("cut_body")),
        ("broken_body", json!("broken_body")),
        ("bad_gateway", json!({"bad_gateway": {"done": true}})),
        ("refused", json!({"refused": {"sub_code": "ACQ.NEVER_HEARD_OF"}})),
    ] {
        let payment = no(&shop.buy(order_id).await);
        let rules = json!({
            "calls": [{"fault": fault, "method": QUERY}],
            "notices": [{"fault": "lost"}],
        });
        stage.channel.faults(rules).await;
        stage.channel.pay(&payment).await;
        let asked = stage.channel.calls(QUERY).await;
        soon("it is asked again and again", || async {
            (stage.channel.calls(QUERY).await > asked + 3).then_some(())
        })
        .await;
        assert_eq!(stage.books.status(&payment).await, "waiting", "{order_id}");
        stage.channel.faults(json!({})).await;
        shop.becomes(&payment, "paid").await;
    }
    stage.audit().await;
}

/// The pauses grow by the steps of the configuration, for each payment by itself.
#[tokio::test]
async fn a_payment_that_nobody_pays_is_asked_about_ever_more_seldom() {
    let stage = Setup::new().period("checks", "20ms,40ms,1h").open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    soon_is("it was asked by two steps", 2, || async {
        stage.books.number("SELECT checks FROM pay_payments").await
    })
    .await;
    let wait = stage
        .books
        .number("SELECT next_check_at - (SELECT now FROM hapax_now) FROM pay_payments")
        .await;
    // Never later than the expiry, which comes before the hour.
    assert!((800_000..=900_000).contains(&wait), "{wait} ms");
    assert_eq!(stage.channel.calls(QUERY).await, 2);
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
}

/// A sweep leases as many rows as it can ask about, so that more of them do not wait for one.
#[tokio::test]
async fn one_slow_answer_does_not_hold_up_the_others() {
    let stage = Setup::new().period("channel_timeout", "3s").open().await;
    let shop = stage.shop();
    stage.channel.lose_notices().await;
    let slow = no(&shop.buy("slow").await);
    let rules = json!({
        "calls": [{"fault": {"delay_answer": {"ms": 2000}}, "method": QUERY,
            "when": {"out_trade_no": slow}}],
        "notices": [{"fault": "lost"}],
    });
    stage.channel.faults(rules).await;
    for number in 0..20 {
        let order_id = format!("quick-{number}");
        let payment = no(&shop.settle(&order_id, &order(&order_id)).await.is(201));
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
    }
    assert_eq!(stage.books.status(&slow).await, "waiting");
}
