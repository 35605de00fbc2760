//! Keys: replays, mismatches, waiting, and the status by key.

use http::Method;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};

use crate::{
    clock::soon,
    shop::{Shop, no, order},
    stage::{Running, Setup, Stage},
};

const PRECREATE: &str = "alipay.trade.precreate";

#[tokio::test]
async fn a_repeat_gets_the_first_answer_byte_for_byte() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let first = shop.create("k1", &order("1001")).await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replayed());
    stage.channel.pay(&no(&first.json())).await;
    shop.becomes(&no(&first.json()), "paid").await;
    for key in ["k1", "\"k1\""] {
        let again = shop.create(key, &order("1001")).await;
        assert!(again.is_replayed(), "{again:?}");
        assert_eq!((again.status, &again.body), (201, &first.body), "{key}");
        assert_eq!(again.header("content-type"), first.header("content-type"));
        assert_eq!(again.header("idempotency-key"), Some(key));
    }
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused_and_does_nothing() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    shop.create("k1", &order("1001")).await.is(201);
    let before = stage.books.snapshot().await;
    let mut other = order("1001");
    other["amount"] = json!("99.00");
    for body in [other, order("1002")] {
        let problem = shop.create("k1", &body).await.refused(422, "key_reused");
        assert_eq!((&problem["retryable"], &problem["reuse_key"]), (&json!(false), &json!(false)));
    }
    assert_eq!(stage.books.snapshot().await, before);
}

#[tokio::test]
async fn a_key_is_needed_and_must_be_readable() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let json = ("content-type", "application/json");
    let body = order("1001").to_string();
    let post = async |headers: &[(&str, &str)]| {
        shop.send(Method::POST, "/v1/payments", headers, body.clone()).await
    };
    post(&[json]).await.refused(400, "key_missing");
    for key in ["", "a b", "a,b", "\"open", "\"a\";p=1", &"x".repeat(256)] {
        post(&[json, ("idempotency-key", key)]).await.refused(400, "key_invalid");
    }
    let twice = [json, ("idempotency-key", "a"), ("idempotency-key", "b")];
    post(&twice).await.refused(400, "key_invalid");
    assert_eq!(stage.books.count("pay_orders", "1").await, 0);
}

#[tokio::test]
async fn a_refused_body_leaves_its_key_free_for_the_corrected_one() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let mut body = order("1001");
    body["amount"] = json!("1.001");
    let problem = shop.create("k1", &body).await.refused(400, "body_invalid");
    assert_eq!(problem["reuse_key"], true);
    let answer = shop.create("k1", &order("1001")).await;
    assert!(!answer.is_replayed());
    answer.is(201);
}

#[tokio::test]
async fn whoever_comes_meanwhile_is_told_where_to_ask() {
    let stage = Setup::new().period("wait", "60ms").open().await;
    let shop = stage.shop();
    let slow = json!({"delay_answer": {"ms": 700}});
    stage.channel.break_calls(PRECREATE, slow, None).await;
    let body = order("1001");
    let (first, (same, other, running)) = tokio::join!(shop.create("k1/a", &body), async {
        soon("the channel is being asked", || async {
            (stage.channel.calls(PRECREATE).await > 0).then_some(())
        })
        .await;
        let same = shop.create("k1/a", &order("1001")).await;
        let running = shop.get("/v1/operations/payment.create/k1%2Fa").await;
        let other = shop.create("k2", &order("1001")).await;
        // A mismatch wins over a request that still runs.
        shop.create("k1/a", &order("1002")).await.refused(422, "key_reused");
        (same, other, running)
    });
    first.is(201);
    assert_eq!(running.is(200)["status"], "running");
    for (answer, key) in [(same, "k1%2Fa"), (other, "k2")] {
        assert_eq!(answer.json(), json!({"status": "processing"}));
        assert_eq!(answer.status, 202);
        let place = format!("/v1/operations/payment.create/{key}");
        assert_eq!(answer.header("location"), Some(&*place), "{answer:?}");
        let retry: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=2).contains(&retry), "{retry}");
        shop.get(&place).await.is(200);
    }
    let later = shop.settle("k2", &order("1001")).await.is(200);
    assert_eq!(later["status"], "paying");
}

#[tokio::test]
async fn the_status_of_a_key_tells_of_its_first_answer() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let place = "/v1/operations/payment.create/k1";
    shop.get(place).await.refused(404, "key_unknown");
    shop.get("/v1/operations/payment.destroy/k1").await.refused(404, "operation_unknown");
    let first = shop.create("k1", &order("1001")).await;
    let status = shop.get(place).await.is(200);
    assert_eq!(
        (&status["operation"], &status["status"]),
        (&json!("payment.create"), &json!("completed"))
    );
    assert_eq!((&status["attempts"], &status["answer"]["status"]), (&json!(1), &json!(201)));
    assert!(status["created_at"].is_string() && status["completed_at"].is_string(), "{status}");
    let answer = shop.get(&format!("{place}/answer")).await;
    assert_eq!((answer.status, &answer.body), (201, &first.body));
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_its_request() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let slow = json!({"delay_answer": {"ms": 400}});
    stage.channel.break_calls(PRECREATE, slow, Some(1)).await;
    let body = order("1001");
    {
        let leaving = std::pin::pin!(shop.create("k1", &body));
        let asked = std::pin::pin!(soon("the channel is being asked", || async {
            (stage.channel.calls(PRECREATE).await > 0).then_some(())
        }));
        // The request is dropped with this block, and its connection with it.
        let first = futures_util::future::select(leaving, asked).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)));
    }
    let status = soon("the request is completed all the same", || async {
        let status: Value = shop.get("/v1/operations/payment.create/k1").await.json();
        (status["status"] == "completed").then_some(status)
    })
    .await;
    assert_eq!(status["attempts"], 1);
    assert!(shop.create("k1", &body).await.is_replayed());
    assert_eq!(stage.channel.calls(PRECREATE).await, 1);
}

#[tokio::test]
async fn a_store_that_is_away_refuses_and_nothing_was_done() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    stage.books.break_on("INSERT ON hapax_records").await;
    let answer = shop.create("k1", &order("1001")).await;
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    let problem = answer.refused(503, "store_unavailable");
    assert_eq!((&problem["retryable"], &problem["reuse_key"]), (&json!(true), &json!(true)));
    assert_eq!(stage.channel.totals().await.trades, 0);
    stage.books.mend().await;
    shop.create("k1", &order("1001")).await.is(201);
}

#[tokio::test]
async fn books_that_cannot_be_written_are_no_answer() {
    let stage = Setup::new().period("complete", "1h").open().await;
    let shop = stage.shop();
    stage.books.break_on("INSERT ON pay_payments").await;
    let problem = shop.create("k1", &order("1001")).await.refused(503, "unavailable");
    assert_eq!((&problem["retryable"], &problem["reuse_key"]), (&json!(true), &json!(true)));
    assert_eq!(stage.books.count("pay_orders", "1").await, 0, "all or nothing");
    assert_eq!(stage.channel.totals().await.trades, 0);
    stage.books.mend().await;
    shop.settle("k1", &order("1001")).await.is(201);
}

#[tokio::test]
async fn health_and_description_need_no_key() {
    let stage = Stage::open().await;
    let get = async |path: &str| {
        let url = format!("http://{}{path}", stage.service.address);
        let response = stage.http.get(url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(get("/livez").await, (200, "ok".to_owned()));
    let (status, ready) = get("/readyz").await;
    assert_eq!((status, ready.contains("ready")), (200, true), "{ready}");
    let (status, described) = get("/openapi.json").await;
    let described: Value = serde_json::from_str(&described).unwrap();
    assert_eq!((status, described["paths"]["/v1/payments"]["post"].is_object()), (200, true));
}

#[tokio::test]
async fn metrics_count_what_happened() {
    let stage = Stage::open().await;
    let recorder = PrometheusBuilder::new().install_recorder().unwrap();
    let file = stage.config_at("127.0.0.1:0".parse().unwrap());
    let counted = Running::open_with(file, Some(recorder)).await;
    let shop = stage.shop_at(counted.address);
    let payment = no(&shop.create("k1", &order("1001")).await.is(201));
    shop.create("k1", &order("1001")).await.is(201);
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    let get = async |address| {
        let url = format!("http://{address}/metrics");
        stage.http.get(url).send().await.unwrap().text().await.unwrap()
    };
    soon("everything is counted", || async {
        let text = get(counted.address).await;
        let has = |line: &str| text.lines().any(|shown| shown.starts_with(line));
        let all = [
            "hapax_pay_callbacks_total{outcome=\"settled\"} ",
            "hapax_requests_total{operation=\"payment.create\",outcome=\"replayed\"} ",
            "hapax_locks_total{event=\"gained\"} ",
            "hapax_outbox_waiting 0",
            "hapax_outbox_buried 0",
        ];
        all.iter().all(|line| has(line)).then_some(())
    })
    .await;
    counted.stop().await;
    let without = Shop::new(&stage.http, stage.service.address, "nobody").get("/metrics").await;
    without.refused(404, "not_found");
}
