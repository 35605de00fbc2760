//! `kill -9` in the middle, and the same requests again.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    clock::{soon, soon_is},
    parts::{self, Scene},
    shop::{Shop, no, order},
    stage::{Setup, Stage},
};

const PRECREATE: &str = "alipay.trade.precreate";
const REFUND: &str = "alipay.trade.refund";

/// Leases that lapse soon, so that what a dead process held is free soon.
fn setup() -> Setup {
    Setup::new().period("lease", "400ms").period("channel_timeout", "500ms")
}

/// Sends it in the background: it will break off with the process.
fn send(scene: &Scene, key: &'static str, body: Value) -> JoinSet<bool> {
    let shop = scene.shop();
    let mut sending = JoinSet::new();
    sending.spawn(async move { shop.try_create(key, &body).await.is_err() });
    sending
}

async fn is_asked(stage: &Stage, method: &str) {
    soon("the channel is asked", || async {
        (stage.channel.calls(method).await > 0).then_some(())
    })
    .await;
}

// Behaviour 3.
#[test]
fn a_kill_after_the_channel_was_asked_leaves_one_attempt() {
    if let Some(config) = parts::part() {
        return parts::serve(&config);
    }
    parts::play(async {
        // The channel has taken it and is about to answer; or it has it and has not begun.
        for (order_id, fault) in [
            ("taken", json!({"delay_answer": {"ms": 450}})),
            ("on_its_way", json!({"delay_request": {"ms": 450}})),
        ] {
            let test = "kills::a_kill_after_the_channel_was_asked_leaves_one_attempt";
            let scene = Scene::open(test, setup()).await;
            scene.stage.channel.break_calls(PRECREATE, fault, Some(1)).await;
            let mut sending = send(&scene, "k1", order(order_id));
            is_asked(&scene.stage, PRECREATE).await;
            let number = scene.stage.books.text("SELECT payment_no FROM pay_payments").await;
            let stage = scene.kill_for_good().await;
            assert!(sending.join_next().await.unwrap().unwrap(), "the client had no answer");

            let shop = stage.shop();
            let (same, other) =
                tokio::join!(async { shop.settle("k1", &order(order_id)).await }, async {
                    shop.settle("k2", &order(order_id)).await
                });
            assert_eq!((same.status, no(&same.json())), (201, number.clone()), "{order_id}");
            assert_eq!(no(&other.json()), number, "{order_id}");
            assert_eq!(stage.books.count("pay_payments", "1").await, 1);
            assert_eq!(stage.channel.totals().await.trades, 1, "never two live attempts");
            stage.channel.pay(&number).await;
            shop.becomes(&number, "paid").await;
            stage.audit().await;
        }
    });
}

/// Behaviour 3, and the client never comes back: the completer finishes the request.
#[test]
fn a_request_whose_client_and_process_died_is_finished_all_the_same() {
    if let Some(config) = parts::part() {
        return parts::serve(&config);
    }
    parts::play(async {
        let test = "kills::a_request_whose_client_and_process_died_is_finished_all_the_same";
        let scene = Scene::open(test, setup()).await;
        let slow = json!({"delay_answer": {"ms": 450}});
        scene.stage.channel.break_calls(PRECREATE, slow, Some(1)).await;
        let sending = send(&scene, "k1", order("1001"));
        is_asked(&scene.stage, PRECREATE).await;
        let stage = scene.kill_for_good().await;
        drop(sending);
        soon_is("the record is completed", 1, || async {
            stage.books.count("hapax_records", "state = 2").await
        })
        .await;
        let answer = stage.shop().create("k1", &order("1001")).await;
        assert!(answer.is_replayed());
        assert_eq!(answer.is(201)["status"], "paying");
        assert_eq!(stage.channel.totals().await.trades, 1);
    });
}

#[test]
fn a_kill_after_a_refund_was_asked_for_makes_it_once() {
    if let Some(config) = parts::part() {
        return parts::serve(&config);
    }
    parts::play(async {
        let test = "kills::a_kill_after_a_refund_was_asked_for_makes_it_once";
        let scene = Scene::open(test, setup()).await;
        let shop = scene.shop();
        let payment = no(&shop.buy("1001").await);
        scene.stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
        let slow = json!({"delay_answer": {"ms": 450}});
        scene.stage.channel.break_calls(REFUND, slow, Some(1)).await;
        let mut asking = JoinSet::new();
        let (there, number) = (shop.clone(), payment.clone());
        let body = json!({"refund_no": "R1", "amount": "88.80"}).to_string();
        asking.spawn(async move {
            let path = format!("/v1/payments/{number}/refunds");
            there.try_send(http::Method::POST, &path, &[], body).await.is_err()
        });
        is_asked(&scene.stage, REFUND).await;
        let stage = scene.kill_for_good().await;
        assert!(asking.join_next().await.unwrap().unwrap(), "the client had no answer");
        let repeat = shop.refund(&payment, "R1", "88.80").await;
        assert!(matches!(repeat.status, 200..=202), "{repeat:?}");
        shop.refund_becomes(&payment, "R1", "done").await;
        stage.audit().await;
        let trade = stage.channel.trade(&payment).await;
        assert_eq!((trade.refunds.len(), trade.refunds[0].times), (1, 1));
    });
}

/// Orders, callbacks and refunds go on while the process is killed three times.
#[test]
fn three_kills_under_load_lose_nothing_and_double_nothing() {
    if let Some(config) = parts::part() {
        return parts::serve(&config);
    }
    parts::play(async {
        let test = "kills::three_kills_under_load_lose_nothing_and_double_nothing";
        let mut scene = Scene::open(test, setup()).await;
        let faults = json!({"notices": [
            {"fault": {"duplicate": {"copies": 3}}},
            {"fault": "lost", "when": {"chance": 0.2}},
        ]});
        scene.stage.channel.faults(faults).await;
        let mut storm = JoinSet::new();
        for number in 0..40 {
            let shop = scene.shop();
            let http = scene.stage.http.clone();
            let simulator = scene.stage.channel.address;
            storm.spawn(async move { persist(&shop, &http, simulator, number).await });
        }
        let mut bought = 0;
        for limit in [8, 18, 28] {
            while bought < limit {
                storm.join_next().await.unwrap().unwrap();
                bought += 1;
            }
            scene = scene.kill().await;
        }
        let stage = scene.kill_for_good().await;
        storm.join_all().await;
        assert_eq!(stage.channel.totals().await.trades, 40);
        soon_is("all are paid", 40, || async {
            stage.books.count("pay_payments", "status = 'paid'").await
        })
        .await;
        stage.audit().await;
        assert_eq!(stage.books.count("pay_runs", "stopped_at IS NULL").await, 5, "four kills");
        // A refund that came before its grant left nothing to take away.
        let live = "SELECT sum(iif(kind = 'grant', 1, -1)) FROM pay_effects";
        assert_eq!(stage.books.number(live).await, 20);
    });
}

/// A client that buys, pays and, every second time, wants all of it back; through every outage
/// it sends the same again.
async fn persist(
    shop: &Shop,
    http: &reqwest::Client,
    simulator: std::net::SocketAddr,
    number: usize,
) {
    let order_id = format!("o{number}");
    let payment = soon("it is bought", || async {
        let answer = shop.try_create(&order_id, &order(&order_id)).await.ok()?;
        matches!(answer.status, 200 | 201).then(|| no(&answer.json()))
    })
    .await;
    let pay = http.post(format!("http://{simulator}/_sim/pay"));
    let paid = pay.json(&json!({"out_trade_no": payment})).send().await.unwrap();
    assert!(paid.status().is_success(), "{paid:?}");
    if number % 2 == 1 {
        return;
    }
    soon("it is given back", || async {
        let path = format!("/v1/payments/{payment}/refunds");
        let body = json!({"refund_no": format!("R{number}"), "amount": "88.80"}).to_string();
        let answer = shop.try_send(http::Method::POST, &path, &[], body).await.ok()?;
        (answer.status == 200 || answer.status == 201).then_some(())
    })
    .await;
}
