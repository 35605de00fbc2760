//! Creating payments: one order, one attempt, whoever asks how often.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    clock::soon,
    shop::{Answer, no, order},
    stage::{Setup, Stage},
};

/// All at once, each until it is decided.
async fn crowd(stage: &Stage, keys: impl Iterator<Item = String>, body: &Value) -> Vec<Answer> {
    let mut crowd = JoinSet::new();
    for key in keys {
        let (shop, body) = (stage.shop(), body.clone());
        crowd.spawn(async move { shop.settle(&key, &body).await });
    }
    crowd.join_all().await
}

// Behaviour 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_creates_of_one_order_make_one_attempt() {
    let stage = Stage::open().await;
    let keys = (0..200).map(|n| if n % 2 == 0 { "same".to_owned() } else { format!("k{n}") });
    let answers = crowd(&stage, keys, &order("1001")).await;
    let statuses: HashSet<_> = answers.iter().map(|answer| answer.status).collect();
    assert!(statuses.is_subset(&HashSet::from([200, 201])), "{statuses:?}");
    let payments: HashSet<_> = answers.iter().map(|answer| no(&answer.json())).collect();
    assert_eq!(payments.len(), 1, "{payments:?}");
    let pay: HashSet<_> = answers.iter().map(|answer| answer.json()["pay"].to_string()).collect();
    assert_eq!(pay.len(), 1, "everybody is shown the same code: {pay:?}");
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
    assert_eq!(stage.channel.totals().await.trades, 1);
    stage.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_copies_of_one_request_have_one_answer_byte_for_byte() {
    let stage = Stage::open().await;
    let keys = std::iter::repeat_n("same".to_owned(), 100);
    let answers = crowd(&stage, keys, &order("1001")).await;
    let bodies: HashSet<_> = answers.iter().map(|answer| (answer.status, &answer.body)).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(answers[0].status, 201);
    let fresh = answers.iter().filter(|answer| !answer.is_replayed()).count();
    assert!(fresh <= 1, "{fresh} answers say that they are the first");
}

// Behaviour 2.
#[tokio::test]
async fn an_order_with_other_content_is_refused_field_by_field() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    shop.buy("1001").await;
    let before = stage.books.snapshot().await;
    for (field, given, stored, shown) in [
        ("amount", json!("88.81"), "88.80", "88.81"),
        ("subject", json!("Two months"), "One month", "Two months"),
        ("benefits", json!(["vip_month", "badge"]), "vip_month", "badge, vip_month"),
        ("way", json!("page"), "code", "page"),
    ] {
        let mut body = order("1001");
        body[field] = given;
        let key = format!("other-{field}");
        let problem = shop.create(&key, &body).await.refused(409, "order_conflict");
        let conflict = json!([{"field": field, "stored": stored, "given": shown}]);
        assert_eq!(problem["conflicts"], conflict, "{problem}");
        assert_eq!(problem["reuse_key"], false);
        let again = shop.create(&key, &body).await;
        assert!(again.is_replayed(), "a conflict is an answer like any other");
        again.refused(409, "order_conflict");
    }
    assert_eq!(stage.books.snapshot().await, before, "nothing changed");
}

#[tokio::test]
async fn every_field_that_differs_is_named_also_for_a_paid_order() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let paid = no(&shop.buy("1001").await);
    stage.channel.pay(&paid).await;
    shop.becomes(&paid, "paid").await;
    let body = json!({"order_id": "1001", "amount": "1", "currency": "CNY", "subject": "x"});
    let problem = shop.create("k", &body).await.refused(409, "order_conflict");
    let fields: Vec<_> =
        problem["conflicts"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(fields, ["amount", "subject", "benefits"]);
}

#[tokio::test]
async fn another_key_with_equal_content_finds_the_open_attempt() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let first = shop.buy("1001").await;
    let mut body = order("1001");
    body["amount"] = json!("88.8");
    let second = shop.create("other", &body).await.is(200);
    assert_eq!(second["payment_no"], first["payment_no"]);
    assert_eq!(second["pay"], first["pay"]);
    assert_eq!(first["status"], "paying");
    assert_eq!(first["benefits"], json!([{"benefit": "vip_month", "status": "none"}]));
}

// Behaviour 4.
#[tokio::test]
async fn a_paid_order_is_bought_again_only_on_request() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let first = no(&shop.buy("1001").await);
    stage.channel.pay(&first).await;
    shop.becomes(&first, "paid").await;
    let repeat = shop.create("k2", &order("1001")).await.is(200);
    assert_eq!((no(&repeat), &repeat["status"]), (first.clone(), &json!("paid")));

    let mut again = order("1001");
    again["repurchase"] = json!(true);
    let bought = shop.create("k3", &again).await.is(201);
    assert_ne!(no(&bought), first);
    assert_eq!((&bought["round"], &bought["attempt"]), (&json!(2), &json!(1)));
    let same = shop.create("k4", &again).await.is(200);
    assert_eq!(no(&same), no(&bought), "the open round is found, not a third one made");
    stage.channel.pay(&no(&bought)).await;
    shop.becomes(&no(&bought), "paid").await;
    assert_eq!(shop.order("1001").await["round"], 2);
    stage.audit().await;
    assert_eq!(stage.books.count("pay_effects", "kind = 'grant'").await, 2, "one a round");
}

#[tokio::test]
async fn a_closed_order_takes_another_attempt_and_keeps_its_history() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for attempt in 1..=3 {
        let payment = shop.create(&format!("k{attempt}"), &order("1001")).await.is(201);
        assert_eq!((&payment["round"], &payment["attempt"]), (&json!(1), &json!(attempt)));
        stage.channel.scan(&no(&payment)).await;
        let closed = shop.close(&no(&payment)).await.is(200);
        assert_eq!(closed["status"], "closed");
        assert_eq!(shop.order("1001").await["status"], "closed");
    }
    assert_eq!(stage.books.count("pay_payments", "status = 'closed'").await, 3);
}

/// The slot of an order is one for all its rounds.
#[tokio::test]
async fn a_repurchase_waits_for_the_older_attempt_and_is_no_failure() {
    let stage = Setup::new().period("expiry", "1500ms").period("wait", "50ms").open().await;
    let shop = stage.shop();
    let first = no(&shop.buy("1001").await);
    shop.close(&first).await;
    shop.becomes(&first, "closed").await;
    let second = no(&shop.create("second", &order("1001")).await.is(201));
    // The older code is paid late and pays the order: the second attempt must be closed, but the
    // channel does not confirm that.
    stage
        .channel
        .break_calls("alipay.trade.close", json!({"unavailable": {"done": false}}), None)
        .await;
    stage.channel.pay_late(&first).await;
    shop.becomes(&first, "paid").await;
    shop.becomes(&second, "closing").await;
    let mut again = order("1001");
    again["repurchase"] = json!(true);
    let waiting = shop.create("again", &again).await;
    assert_eq!(waiting.status, 202, "{waiting:?}");
    stage.channel.faults(json!({})).await;
    let bought = shop.settle("again", &again).await.is(201);
    assert_eq!((&bought["round"], &bought["attempt"]), (&json!(2), &json!(1)));
    stage.audit().await;
}

#[tokio::test]
async fn a_page_payment_is_made_when_the_buyer_opens_the_page() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let mut body = order("1001");
    body["way"] = json!("page");
    let payment = shop.create("k", &body).await.is(201);
    let page = payment["pay"]["page"].as_str().unwrap();
    assert_eq!(stage.channel.totals().await.trades, 0, "nobody has opened it");
    let shown = stage.http.get(page).send().await.unwrap();
    assert!(shown.status().is_redirection() || shown.status().is_success(), "{shown:?}");
    stage.channel.pay(&no(&payment)).await;
    shop.becomes(&no(&payment), "paid").await;
    stage.audit().await;
}

#[tokio::test]
async fn a_channel_that_refuses_for_good_fails_the_attempt_and_frees_the_slot() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let refused = json!({"refused": {"sub_code": "ACQ.ACCESS_FORBIDDEN"}});
    stage.channel.break_calls("alipay.trade.precreate", refused, Some(1)).await;
    let answer = shop.create("k1", &order("1001")).await;
    let problem = answer.clone().refused(422, "channel_refused");
    assert!(problem["detail"].as_str().unwrap().contains("ACQ.ACCESS_FORBIDDEN"), "{problem}");
    let again = shop.create("k1", &order("1001")).await;
    assert!(again.is_replayed() && again.body == answer.body, "{again:?}");
    let failed = stage.books.text("SELECT payment_no FROM pay_payments").await;
    assert_eq!(shop.payment(&failed).await["status"], "failed");
    shop.close(&failed).await.refused(409, "not_closable");
    let second = shop.create("k2", &order("1001")).await.is(201);
    assert_eq!(second["attempt"], 2);
}

#[tokio::test]
async fn an_order_shows_its_newest_round_with_every_attempt() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = shop.buy("2026-10/01#7").await;
    let shown = shop.get("/v1/orders/2026-10%2F01%237").await.is(200);
    assert_eq!(shown["status"], "paying");
    assert_eq!(shown["payments"], json!([payment]));
    assert_eq!((&shown["round"], &shown["paid_by"]), (&json!(1), &Value::Null));
    stage.channel.pay(&no(&payment)).await;
    let paid = soon("the order is paid", || async {
        let shown = shop.get("/v1/orders/2026-10%2F01%237").await.is(200);
        (shown["status"] == "paid").then_some(shown)
    })
    .await;
    assert_eq!(paid["paid_by"], payment["payment_no"]);
}
