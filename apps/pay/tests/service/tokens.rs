//! Tokens: issued for a page, redeemed for one payment.

use std::collections::HashSet;

use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    clock::soon,
    shop::{no, order},
    stage::{Setup, Stage},
};

fn body(order_id: &str, user: &str, session: &str) -> Value {
    let mut body = order(order_id);
    body["user"] = json!(user);
    body["session"] = json!(session);
    body
}

async fn token(stage: &Stage, order_id: &str) -> String {
    let issued = stage.shop().token(order_id, "u1", "s1").await.is(201);
    assert!(issued["expires_at"].is_string(), "{issued}");
    issued["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_redeemed_a_hundred_times_makes_one_payment() {
    let stage = Stage::open().await;
    let token = token(&stage, "1001").await;
    let mut crowd = JoinSet::new();
    for _ in 0..100 {
        let (shop, token) = (stage.shop(), token.clone());
        crowd.spawn(async move {
            soon("it is decided", || async {
                let answer = shop.redeem(&token, &body("1001", "u1", "s1")).await;
                (answer.status != 202).then_some(answer)
            })
            .await
        });
    }
    let answers = crowd.join_all().await;
    let bodies: HashSet<_> = answers.iter().map(|answer| (answer.status, &answer.body)).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(answers[0].status, 201);
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
    assert_eq!(stage.channel.totals().await.trades, 1);
}

#[tokio::test]
async fn a_token_and_a_key_together_are_refused() {
    let stage = Stage::open().await;
    let token = token(&stage, "1001").await;
    let shop = stage.shop();
    let (key, token) = (("idempotency-key", "k1"), ("idempotent-token", &*token));
    let body = body("1001", "u1", "s1").to_string();
    for headers in [[key, token], [token, token]] {
        let answer = shop.send(Method::POST, "/v1/payments", &headers, body.clone()).await;
        let problem = answer.refused(400, "key_invalid");
        assert!(problem["detail"].as_str().unwrap().contains("either"), "{problem}");
    }
    assert_eq!(stage.books.count("pay_orders", "1").await, 0);
    assert_eq!(stage.books.count("hapax_records", "1").await, 0, "no key was used up");
}

#[tokio::test]
async fn a_token_of_somebody_else_starts_nothing() {
    let stage = Stage::open().await;
    let token = token(&stage, "1001").await;
    let shop = stage.shop();
    for foreign in [body("1001", "u2", "s1"), body("1001", "u1", "s2"), body("1002", "u1", "s1")] {
        shop.redeem(&token, &foreign).await.refused(400, "token_foreign");
    }
    let other = stage.other_shop().redeem(&token, &body("1001", "u1", "s1")).await;
    other.refused(400, "token_foreign");
    for member in ["user", "session"] {
        let mut nameless = body("1001", "u1", "s1");
        nameless.as_object_mut().unwrap().remove(member);
        let problem = shop.redeem(&token, &nameless).await.refused(400, "body_invalid");
        assert!(problem["detail"].as_str().unwrap().contains(member), "{problem}");
    }
    assert_eq!(stage.books.count("pay_orders", "1").await, 0);
    shop.redeem(&token, &body("1001", "u1", "s1")).await.is(201);
}

#[tokio::test]
async fn a_forged_token_starts_nothing() {
    let stage = Stage::open().await;
    let token = token(&stage, "1001").await;
    let last = if token.ends_with('A') { 'B' } else { 'A' };
    for forged in [
        "x".to_owned(),
        token[..token.len() - 1].to_owned(),
        format!("{token}A"),
        format!("{}{last}", &token[..token.len() - 1]),
        token.replace("hx1", "hx2"),
    ] {
        let answer = stage.shop().redeem(&forged, &body("1001", "u1", "s1")).await;
        answer.refused(400, "token_forged");
    }
    assert_eq!(stage.books.count("pay_orders", "1").await, 0);
}

#[tokio::test]
async fn a_token_that_was_not_used_in_time_starts_nothing() {
    let stage = Setup::new().period("token_life", "400ms").open().await;
    let shop = stage.shop();
    let (used, unused) = (token(&stage, "1001").await, token(&stage, "1002").await);
    let first = shop.redeem(&used, &body("1001", "u1", "s1")).await;
    assert_eq!(first.status, 201, "{first:?}");
    let begun = stage.books.number("SELECT min(created_at) FROM pay_orders").await;
    soon("the other token has expired", || async {
        (stage.books.number("SELECT now FROM hapax_now").await > begun + 450).then_some(())
    })
    .await;
    let late = shop.redeem(&unused, &body("1002", "u1", "s1")).await;
    late.refused(409, "token_expired");
    assert_eq!(stage.books.count("pay_orders", "order_id <> '1001'").await, 0);
    let again = shop.redeem(&used, &body("1001", "u1", "s1")).await;
    assert!(again.is_replayed(), "it still finds what it started: {again:?}");
    assert_eq!(again.body, first.body);
}

/// The interval between two submissions does not matter: after the buffer the token is refused
/// for good, although its record is still there.
#[tokio::test]
async fn a_token_whose_time_is_over_is_refused_for_good() {
    let stage =
        Setup::new().period("token_life", "250ms").period("token_buffer", "1ms").open().await;
    let shop = stage.shop();
    let token = token(&stage, "1001").await;
    let first = no(&shop.redeem(&token, &body("1001", "u1", "s1")).await.is(201));
    let refused = soon("the token is over", || async {
        let answer = shop.redeem(&token, &body("1001", "u1", "s1")).await;
        (answer.status != 201).then_some(answer)
    })
    .await;
    refused.refused(409, "token_expired");
    assert_eq!(shop.payment(&first).await["status"], "paying");
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
}

#[tokio::test]
async fn no_token_is_handed_out_over_a_request_that_still_runs() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let slow = json!({"delay_answer": {"ms": 500}});
    stage.channel.break_calls("alipay.trade.precreate", slow, Some(1)).await;
    let body = order("a/b#1");
    let (created, problem) = tokio::join!(shop.create("k1", &body), async {
        soon("the payment is being created", || async {
            (stage.books.count("pay_payments", "status = 'created'").await == 1).then_some(())
        })
        .await;
        let answer = shop.token("a/b#1", "u1", "s1").await;
        assert!(answer.header("retry-after").is_some());
        let place = answer.header("location").unwrap().to_owned();
        let order = shop.get(&place).await.is(200);
        assert_eq!(order["order_id"], "a/b#1", "the place is the order's: {place}");
        answer.refused(409, "in_progress")
    });
    created.is(201);
    assert_eq!(problem["retryable"], true);
    shop.token("a/b#1", "u1", "s1").await.is(201);
}

#[tokio::test]
async fn a_user_who_asks_too_often_is_told_when_to_come_again() {
    let stage = Setup::new().tokens_per_minute(3).open().await;
    let shop = stage.shop();
    for _ in 0..3 {
        shop.token("1001", "u1", "s1").await.is(201);
    }
    let answer = shop.token("1001", "u1", "s1").await;
    let retry: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&retry), "{retry}");
    answer.refused(429, "too_many_tokens");
    shop.token("1001", "u2", "s1").await.is(201);
    let other = stage.other_shop().token("1001", "u1", "s1").await;
    other.is(201);
}

#[tokio::test]
async fn a_token_is_for_one_operation_that_exists() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (member, value) in [
        ("operation", json!("payment.destroy")),
        ("order_id", json!("")),
        ("user", json!("")),
        ("session", json!("x".repeat(129))),
        ("extra", json!(1)),
    ] {
        let mut body = json!({"operation": "payment.create", "order_id": "1001", "user": "u1",
            "session": "s1"});
        body[member] = value;
        let problem = shop.post("/v1/tokens", &body).await.refused(400, "body_invalid");
        assert!(problem["detail"].as_str().unwrap().contains(member), "{problem}");
    }
}
