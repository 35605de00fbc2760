//! Behaviours 23 and 24 on the whole way: exact money, exact time.

use std::{env, process::Command};

use serde_json::json;

use crate::{
    clock::soon_is,
    shop::{no, order},
    stage::{Setup, Stage},
};

// Behaviour 23: what floats get wrong arrives whole at the channel, and comes back whole.
#[tokio::test]
async fn amounts_arrive_exactly_and_go_back_exactly() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (given, shown, fen) in [
        ("0.01", "0.01", 1),
        ("0.29", "0.29", 29),
        ("2.3", "2.30", 230),
        ("4.35", "4.35", 435),
        ("8.03", "8.03", 803),
        ("145.05", "145.05", 14505),
        ("349.48", "349.48", 34948),
        ("1", "1.00", 100),
        ("100000000", "100000000.00", 10_000_000_000),
    ] {
        let mut body = order(given);
        body["amount"] = json!(given);
        let payment = shop.settle(given, &body).await.is(201);
        assert_eq!(payment["amount"], shown);
        let payment = no(&payment);
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
        assert_eq!(stage.channel.trade(&payment).await.paid_fen, fen);
        let refund_no = format!("R{fen}");
        shop.refund(&payment, &refund_no, given).await;
        let refund = shop.refund_becomes(&payment, &refund_no, "done").await;
        assert_eq!(refund["amount"], shown);
        assert_eq!(stage.channel.trade(&payment).await.refunded_fen, fen);
    }
    stage.audit().await;
}

/// Behaviour 24: whatever zone the machine is in, the channel gets its own time.
#[tokio::test]
async fn the_channel_is_told_the_expiry_in_its_own_zone() {
    const ZONES: [&str; 3] = ["UTC", "America/New_York", "Asia/Kathmandu"];
    if env::var_os("HAPAX_PAY_ZONE").is_none() {
        for zone in ZONES {
            let name = "money_and_time::the_channel_is_told_the_expiry_in_its_own_zone";
            let child = Command::new(env::current_exe().unwrap())
                .args(["--exact", name])
                .envs([("TZ", zone), ("HAPAX_PAY_ZONE", zone)])
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && printed.contains("1 passed"), "{zone}: {printed}");
        }
        return;
    }
    let stage = Stage::open().await;
    let shop = stage.shop();
    let mut body = order("1001");
    body["expires_in"] = json!(3600);
    let payment = no(&shop.create("k1", &body).await.is(201));
    let ours = stage.books.number("SELECT expires_at FROM pay_payments").await;
    let theirs = stage.channel.trade(&payment).await.expires_at_ms;
    assert_eq!(theirs, ours - ours % 1000, "the channel counts whole seconds");
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    let paid_at = stage.books.number("SELECT paid_at FROM pay_payments").await;
    let movements = stage.channel.trade(&payment).await.movements;
    let paid = movements.iter().find(|it| it.amount_fen == 8880).unwrap();
    assert_eq!(paid_at, paid.at_ms - paid.at_ms % 1000, "read back in the channel's zone");
}

/// Behaviour 24: the store's clock decides. Ten minutes ahead of the channel's, it closes nothing
/// that has more time than that, and the channel still takes what was signed by it.
#[tokio::test]
async fn a_store_clock_ten_minutes_ahead_closes_nothing_early() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let early = no(&shop.buy("1001").await);
    stage.books.run("UPDATE hapax_clock SET latest = (SELECT now + 600000 FROM hapax_now)").await;
    let late = no(&shop.buy("1002").await);
    for payment in [&early, &late] {
        assert_eq!(stage.books.status(payment).await, "waiting");
        stage.channel.pay(payment).await;
        shop.becomes(payment, "paid").await;
    }
    let moved = "kind = 'payment' AND to_state IN ('closing', 'closed')";
    assert_eq!(stage.books.count("hapax_transitions", moved).await, 0);
    assert_eq!(stage.broken().await, []);
}

/// The merchant says how long a payment can be paid, within bounds.
#[tokio::test]
async fn an_expiry_of_the_merchants_own_is_kept() {
    let stage = Setup::new().period("expiry_grace", "50ms").open().await;
    let shop = stage.shop();
    let mut body = order("1001");
    body["expires_in"] = json!(2);
    let payment = no(&shop.create("k1", &body).await.is(201));
    let span = "SELECT expires_at - created_at FROM pay_payments";
    assert!((1990..=2010).contains(&stage.books.number(span).await));
    soon_is("it is closed", "closed".to_owned(), || async { stage.books.status(&payment).await })
        .await;
    let closed_at = stage.books.moved_at(&payment, "closed").await;
    let expires_at = stage.books.number("SELECT expires_at FROM pay_payments").await;
    assert!(closed_at >= expires_at + 50, "{closed_at} {expires_at}");
}
