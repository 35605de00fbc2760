//! Two instances of the service on one database file.

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    channel::Letter,
    clock::soon_is,
    shop::{no, order},
    stage::{Setup, Stage},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_on_one_file_do_nothing_twice() {
    let stage = Setup::new().period("sweep", "10ms").open().await;
    let second = stage.another().await;
    let shops = [stage.shop(), stage.shop_at(second.address)];
    let faults = json!({"notices": [
        {"fault": {"duplicate": {"copies": 4}}},
        {"fault": "lost", "when": {"chance": 0.3}},
    ]});
    stage.channel.faults(faults).await;
    let mut storm = JoinSet::new();
    for number in 0..25 {
        for (side, shop) in shops.iter().enumerate() {
            for key in ["same".to_owned(), format!("own-{side}")] {
                let (shop, order_id) = (shop.clone(), format!("o{number}"));
                storm.spawn(async move {
                    let answer = shop.settle(&format!("{key}-{order_id}"), &order(&order_id)).await;
                    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
                    (order_id, no(&answer.json()))
                });
            }
        }
    }
    let mut payments = std::collections::BTreeMap::new();
    for (order_id, payment) in storm.join_all().await {
        let known = payments.entry(order_id).or_insert_with(|| payment.clone());
        assert_eq!(*known, payment, "one payment an order");
    }
    assert_eq!(stage.channel.totals().await.trades, 25);
    for payment in payments.values() {
        stage.channel.pay(payment).await;
    }
    soon_is("all are paid", 25, || async {
        stage.books.count("pay_payments", "status = 'paid'").await
    })
    .await;
    let mut refunds = JoinSet::new();
    for (number, payment) in payments.values().enumerate() {
        for shop in &shops {
            let (shop, payment) = (shop.clone(), payment.clone());
            let amount = if number % 2 == 0 { "88.80" } else { "8.03" };
            refunds.spawn(async move {
                let answer = shop.refund(&payment, &format!("R{number}"), amount).await;
                assert!(matches!(answer.status, 200..=202), "{answer:?}");
            });
        }
    }
    refunds.join_all().await;
    stage.audit().await;
    let ids: Vec<_> =
        stage.north.deliveries().iter().map(|it| it.header("hapax-event-id").to_owned()).collect();
    let told: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(told.len(), ids.len(), "no notice was sent by both");
    // A refund that came before its grant left nothing to take away.
    let live = "SELECT sum(iif(kind = 'grant', 1, -1)) FROM pay_effects";
    assert_eq!(stage.books.number(live).await, 12);
    second.stop().await;
}

/// One callback to both at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_callback_at_two_instances_has_one_effect() {
    let stage = Setup::new().callbacks_only().open().await;
    let second = stage.another().await;
    let shop = stage.shop();
    for number in 0..10 {
        let order_id = format!("o{number}");
        let payment = no(&shop.buy(&order_id).await);
        let notice = Letter::paid(&payment).signed();
        let mut copies = JoinSet::new();
        for address in [stage.service.address, second.address].repeat(4) {
            let url = format!("http://{address}/v1/notify/alipay");
            let request = stage.http.post(url).body(notice.clone());
            copies.spawn(async move { request.send().await.unwrap().text().await.unwrap() });
        }
        for answer in copies.join_all().await {
            assert_eq!(answer, "success");
        }
        shop.benefits_become(&payment, "granted").await;
        assert_eq!(stage.books.effects(&payment).await, (1, 0));
    }
    stage.is_quiet().await;
    assert_eq!(stage.broken().await, []);
    second.stop().await;
}

/// The same token, the same key and another key, at both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_at_another_instance_gets_the_first_answer() {
    let stage: Stage = Stage::open().await;
    let second = stage.another().await;
    let first = stage.shop().create("k1", &order("1001")).await;
    let again = stage.shop_at(second.address).create("k1", &order("1001")).await;
    assert!(again.is_replayed());
    assert_eq!((again.status, again.body), (first.status, first.body));
    let token = stage.shop().token("1002", "u1", "s1").await.is(201);
    let token = token["token"].as_str().unwrap();
    let mut body = order("1002");
    body["user"] = json!("u1");
    body["session"] = json!("s1");
    let there = stage.shop_at(second.address).redeem(token, &body).await;
    let here = stage.shop().redeem(token, &body).await;
    assert!(here.is_replayed());
    assert_eq!(here.body, there.body);
    second.stop().await;
}
