//! Behaviour 6: a channel that gives no clear answer to "take this payment".

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    clock::soon,
    shop::{Answer, Shop, no, order},
    stage::{Setup, Stage},
};

const PRECREATE: &str = "alipay.trade.precreate";

#[tokio::test]
async fn an_unclear_answer_is_asked_for_again_under_the_same_number() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (order_id, fault) in [
        ("drop_request", json!("drop_request")),
        ("drop_answer", json!("drop_answer")),
        ("unavailable", json!({"unavailable": {"done": false}})),
        ("unavailable_done", json!({"unavailable": {"done": true}})),
        ("system_error", json!({"system_error": {"done": false}})),
        ("system_error_done", json!({"system_error": {"done": true}})),
        ("wrong_sign", json!("wrong_sign")),
        ("no_sign", json!("no_sign")),
        ("node_twice", json!("node_twice")),
        ("cut_body", json!("cut_body")),
        ("broken_body", json!("broken_body")),
        ("bad_gateway", json!({"bad_gateway": {"done": true}})),
        ("timeout", json!({"delay_answer": {"ms": 1300}})),
    ] {
        let times = if order_id == "timeout" { 1 } else { 2 };
        stage.channel.break_calls(PRECREATE, fault, Some(times)).await;
        let payment = shop.settle(order_id, &order(order_id)).await;
        let payment = payment.is(201);
        assert_eq!(payment["status"], "paying", "{order_id}");
        assert_eq!(stage.channel.trade(&no(&payment)).await.status, "INTENT", "{order_id}");
    }
    assert_eq!(stage.books.count("pay_payments", "status = 'waiting'").await, 13);
    assert_eq!(stage.books.count("pay_payments", "attempt > 1 OR failure IS NOT NULL").await, 0);
    assert_eq!(stage.channel.totals().await.trades, 13, "no number was used beside another");
}

#[tokio::test]
async fn a_channel_that_is_away_is_asked_on_until_it_is_back() {
    let stage = Setup::new().period("wait", "50ms").open().await;
    let shop = stage.shop();
    stage.channel.break_calls(PRECREATE, json!("drop_request"), None).await;
    let answer = shop.create("k", &order("1001")).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({"status": "processing"}));
    let number = stage.books.text("SELECT payment_no FROM pay_payments").await;
    soon("it is tried more often than one request does", || async {
        (stage.channel.calls(PRECREATE).await > 8).then_some(())
    })
    .await;
    assert_eq!(stage.books.status(&number).await, "created", "never failed, never closed");
    assert_eq!(stage.channel.totals().await.trades, 0);
    stage.channel.faults(json!({})).await;
    shop.becomes(&number, "paying").await;
    let payment = shop.settle("k", &order("1001")).await.is(201);
    assert_eq!(no(&payment), number);
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
}

/// The bytes that are sent again hold the time at which they were signed.
#[tokio::test]
async fn a_request_that_became_too_old_is_signed_anew_under_the_same_number() {
    let stage = Setup::new().period("wait", "50ms").tolerance(Duration::from_secs(1)).open().await;
    let shop = stage.shop();
    stage.channel.break_calls(PRECREATE, json!("drop_request"), None).await;
    let begun_at = stage.channel.truth().await.now_ms;
    assert_eq!(shop.create("k", &order("1001")).await.status, 202);
    let number = stage.books.text("SELECT payment_no FROM pay_payments").await;
    soon("the signed time is too old", || async {
        (stage.channel.truth().await.now_ms > begun_at + 2100).then_some(())
    })
    .await;
    stage.channel.faults(json!({})).await;
    shop.becomes(&number, "paying").await;
    assert_eq!(no(&shop.settle("k", &order("1001")).await.is(201)), number);
}

/// The answer comes from the request, from its repeat or from the completer: it is one answer.
#[tokio::test]
async fn whoever_finishes_a_request_gives_the_answer_of_its_own_attempt() {
    for complete in ["20ms", "1h"] {
        let stage = Setup::new().period("wait", "50ms").period("complete", complete).open().await;
        let shop = stage.shop();
        stage.channel.break_calls(PRECREATE, json!("drop_request"), Some(9)).await;
        assert_eq!(shop.create("k", &order("1001")).await.status, 202);
        let answer = shop.settle("k", &order("1001")).await;
        assert_eq!(answer.status, 201, "complete = {complete}: {answer:?}");
    }
}

/// The completer takes an undecided request up again and again. That must not use the key up,
/// whoever was away for how long.
#[tokio::test]
async fn a_long_outage_of_the_channel_strands_no_key() {
    let stage = Setup::new().period("wait", "20ms").period("complete", "5ms").open().await;
    let shop = stage.shop();
    stage.channel.break_calls(PRECREATE, json!("drop_request"), None).await;
    assert_eq!(shop.create("k", &order("1001")).await.status, 202);
    // An outage of a day, at the default of one sweep in five seconds.
    stage.books.run("UPDATE hapax_records SET attempts = 17280").await;
    soon("the request is taken up all the same", || async {
        let attempts = stage.books.number("SELECT max(attempts) FROM hapax_records").await;
        (attempts > 17_282).then_some(())
    })
    .await;
    stage.channel.faults(json!({})).await;
    let answer = shop.settle("k", &order("1001")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Looks where a 202 points until the key is decided, and gives the answer.
async fn follow(shop: &Shop, accepted: &Answer) -> Answer {
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let place = accepted.header("location").unwrap();
    let replay = soon("the key is decided", || async {
        let told = shop.get(place).await.is(200);
        let status = told["status"].as_str().unwrap();
        assert!(matches!(status, "running" | "processing" | "completed"), "{told}");
        told["answer"]["replay"].as_str().map(str::to_owned)
    })
    .await;
    shop.get(&replay).await
}

/// One key holds the order while the channel is slow, another one is told to wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_an_attempt_has_its_answer_and_opens_none() {
    for (is_again, complete) in [(false, "20ms"), (true, "20ms"), (false, "1h"), (true, "1h")] {
        let setup = Setup::new().callbacks_only().period("wait", "100ms");
        let setup = setup.period("complete", complete);
        let stage = setup.period("channel_timeout", "5s").open().await;
        let shop = stage.shop();
        let mut body = order("1001");
        if is_again {
            let before = no(&shop.buy("1001").await);
            stage.channel.pay(&before).await;
            shop.becomes(&before, "paid").await;
            body["repurchase"] = json!(true);
        }
        let asked = stage.channel.calls(PRECREATE).await;
        let slow = json!({"delay_answer": {"ms": 1500}});
        stage.channel.break_calls(PRECREATE, slow, Some(1)).await;
        let mut first = JoinSet::new();
        let (there, same) = (shop.clone(), body.clone());
        first.spawn(async move { there.create("k1", &same).await });
        soon("the channel is asked", || async {
            (stage.channel.calls(PRECREATE).await > asked).then_some(())
        })
        .await;
        let waiting = shop.create("k2", &body).await;
        assert_eq!(waiting.status, 202, "{waiting:?}");
        let second = match complete {
            "1h" => None,
            _ => Some(follow(&shop, &waiting).await),
        };
        let payment = no(&first.join_next().await.unwrap().unwrap().is(201));
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;

        let repeat = shop.settle("k2", &body).await;
        assert_eq!((repeat.status, no(&repeat.json())), (200, payment), "{is_again}, {complete}");
        if let Some(second) = second {
            assert!(repeat.is_replayed());
            assert_eq!((second.status, second.body), (200, repeat.body));
        }
        let attempts = stage.books.count("pay_payments", "1").await;
        assert_eq!(attempts, 1 + i64::from(is_again), "it was told to wait, not to buy again");
        stage.audit().await;
    }
}

/// The attempt that is waited for may also be one that nobody is at work on.
#[tokio::test]
async fn whoever_waits_for_a_channel_that_is_away_has_the_attempt_of_the_first() {
    let stage = Setup::new().period("wait", "20ms").period("complete", "20ms").open().await;
    let shop = stage.shop();
    stage.channel.break_calls(PRECREATE, json!("drop_request"), None).await;
    assert_eq!(shop.create("k1", &order("1001")).await.status, 202);
    let number = stage.books.text("SELECT payment_no FROM pay_payments").await;
    let waiting = shop.create("k2", &order("1001")).await;
    assert_eq!(waiting.status, 202, "{waiting:?}");
    soon("the completer took both up", || async {
        let taken = stage.books.count("hapax_records", "attempts > 2").await;
        (taken == 2).then_some(())
    })
    .await;
    stage.channel.faults(json!({})).await;
    let answer = follow(&shop, &waiting).await;
    assert_eq!((answer.status, no(&answer.json())), (200, number));
}

/// Somebody works on the order and has written nothing down yet: as the lock says.
async fn hold_the_order(stage: &Stage, lasts_ms: u32) {
    let now = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    let sql =
        format!("UPDATE hapax_locks SET owner = randomblob(16), held_until = {now} + {lasts_ms}");
    stage.books.run(sql).await;
}

/// Order 1001 with one attempt, which is closed.
async fn buy_and_close(stage: &Stage, shop: &Shop) -> String {
    let payment = no(&shop.buy("1001").await);
    stage.channel.scan(&payment).await;
    shop.close(&payment).await;
    shop.becomes(&payment, "closed").await;
    payment
}

/// There is nothing to wait for yet, and perhaps there never will be.
#[tokio::test]
async fn whoever_was_told_to_wait_for_nothing_is_served_when_its_turn_comes() {
    let stage = Setup::new().period("wait", "20ms").period("complete", "20ms").open().await;
    let shop = stage.shop();
    let before = buy_and_close(&stage, &shop).await;

    hold_the_order(&stage, 1000).await;
    let waiting = shop.create("k2", &order("1001")).await;
    let answer = follow(&shop, &waiting).await;
    let payment = answer.is(201);
    assert_ne!(no(&payment), before);
    let repeat = shop.create("k2", &order("1001")).await;
    assert!(repeat.is_replayed());
    assert_eq!((repeat.status, no(&repeat.json())), (201, no(&payment)));
    assert_eq!(stage.books.count("pay_payments", "1").await, 2);
    stage.audit().await;
}

/// Two keys ask at the same time to buy a paid order again: that is one purchase, also if one of
/// them has its turn only after the other one's payment.
#[tokio::test]
async fn a_purchase_that_was_made_since_it_was_asked_for_is_not_made_again() {
    for complete in ["20ms", "1h"] {
        let setup = Setup::new().callbacks_only().period("wait", "20ms");
        let stage = setup.period("complete", complete).open().await;
        let shop = stage.shop();
        let before = no(&shop.buy("1001").await);
        stage.channel.pay(&before).await;
        shop.becomes(&before, "paid").await;
        let mut again = order("1001");
        again["repurchase"] = json!(true);

        hold_the_order(&stage, 1000).await;
        let waiting = shop.create("k2", &again).await;
        assert_eq!(waiting.status, 202, "{waiting:?}");
        let payment = no(&shop.settle("k3", &again).await.json());
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
        // Clocks say nothing about it: they go back, and a round may have been begun long ago.
        stage.books.run("UPDATE pay_orders SET created_at = 1").await;

        if complete == "20ms" {
            let answer = follow(&shop, &waiting).await;
            assert_eq!(no(&answer.json()), payment);
        }
        let repeat = shop.settle("k2", &again).await;
        assert_eq!(no(&repeat.json()), payment, "{complete}");
        assert_eq!(stage.books.count("pay_payments", "1").await, 2, "{complete}");
        stage.audit().await;
        // Asked for anew, it is bought anew.
        assert_ne!(no(&shop.settle("k4", &again).await.is(201)), payment);
    }
}

/// The turn comes, and the books take nothing just then: the request is still owed its answer.
#[tokio::test]
async fn whoever_was_told_to_wait_is_not_forgotten_when_its_attempt_cannot_be_written() {
    let stage = Setup::new().period("wait", "20ms").period("complete", "20ms").open().await;
    let shop = stage.shop();
    let before = buy_and_close(&stage, &shop).await;

    hold_the_order(&stage, 300).await;
    stage.books.break_on("INSERT ON pay_payments").await;
    let waiting = shop.create("k2", &order("1001")).await;
    assert_eq!(waiting.status, 202, "{waiting:?}");
    soon("its turn came more than once", || async {
        let begun = "checkpoint LIKE 'P%?%' AND attempts > 20";
        (stage.books.count("hapax_records", begun).await == 1).then_some(())
    })
    .await;
    stage.books.mend().await;
    assert_ne!(no(&follow(&shop, &waiting).await.is(201)), before);
    assert_eq!(stage.books.count("pay_payments", "1").await, 2);
    stage.audit().await;
}

/// Who asked, and in which session, is nothing that the record needs.
#[tokio::test]
async fn a_request_that_is_kept_holds_nothing_of_who_asked() {
    let stage = Setup::new().period("wait", "20ms").period("complete", "1h").open().await;
    let shop = stage.shop();
    shop.buy("1001").await;
    hold_the_order(&stage, 1000).await;
    let mut body = order("1001");
    body["user"] = json!("ann");
    body["session"] = json!("a session");
    body["repurchase"] = json!(true);
    stage.books.run("UPDATE pay_payments SET status = 'closed', next_check_at = NULL").await;
    assert_eq!(shop.create("k2", &body).await.status, 202);
    let kept = stage
        .books
        .text(
            "SELECT CAST(checkpoint AS TEXT) FROM hapax_records \
        WHERE key_text = 'k2'",
        )
        .await;
    assert!(kept.contains("order_id") && !kept.contains("session"), "{kept}");
}
