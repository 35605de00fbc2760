//! Bad input: a clear sentence each, and nothing is done.

use http::Method;
use serde_json::{Value, json};

use crate::{
    channel::{KEYS, Letter, form},
    shop::{Answer, no, order},
    stage::{Setup, Stage},
};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Sends a body as it is to the route that creates payments.
async fn post(stage: &Stage, body: impl Into<reqwest::Body>) -> Answer {
    let headers = [("idempotency-key", "k1"), JSON];
    stage.shop().send(Method::POST, "/v1/payments", &headers, body).await
}

/// The body is refused with a sentence that has `word` in it, and nothing was done.
async fn is_refused(stage: &Stage, body: impl Into<reqwest::Body>, word: &str) {
    let problem = post(stage, body).await.refused(400, "body_invalid");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(word), "{word}: {problem}");
    assert_eq!(stage.books.count("pay_orders", "1").await, 0);
    assert_eq!(stage.channel.totals().await.calls.len(), 0);
}

async fn amount_is_refused(amount: Value) {
    let stage = Stage::open().await;
    let mut body = order("1001");
    body["amount"] = amount;
    is_refused(&stage, body.to_string(), "amount").await;
    let payment = no(&post(&stage, order("1001").to_string()).await.is(201));
    stage.channel.pay(&payment).await;
    stage.shop().becomes(&payment, "paid").await;
    let refund = stage.shop().refund(&payment, "R1", body["amount"].as_str().unwrap()).await;
    refund.refused(400, "body_invalid");
    assert_eq!(stage.books.count("pay_refunds", "1").await, 0);
}

#[tokio::test]
async fn an_amount_with_an_exponent_is_refused() {
    amount_is_refused(json!("1e2")).await;
}

#[tokio::test]
async fn a_negative_amount_is_refused() {
    amount_is_refused(json!("-1")).await;
}

#[tokio::test]
async fn an_amount_with_three_decimals_is_refused() {
    amount_is_refused(json!("1.001")).await;
}

#[tokio::test]
async fn an_amount_in_full_width_digits_is_refused() {
    amount_is_refused(json!("１.００")).await;
}

#[tokio::test]
async fn every_other_bad_amount_is_refused() {
    let stage = Stage::open().await;
    for amount in [
        "0",
        "0.00",
        "",
        " 1.00",
        "1.00 ",
        "+1",
        "1.",
        ".5",
        "1,00",
        "NaN",
        "inf",
        "0x10",
        "1_0",
        "100000000.01",
        "99999999999999999999999999",
        "١",
        "1.0\u{0}",
        "--1",
        "1.0.0",
    ] {
        let mut body = order("1001");
        body["amount"] = json!(amount);
        is_refused(&stage, body.to_string(), "amount").await;
    }
    for amount in ["88.80", "1e2", "-1", "null", "[]", "{}", "true", "1e999"] {
        let body = order("1001").to_string().replace("\"88.80\"", amount);
        is_refused(&stage, body, "not understood").await;
    }
}

#[tokio::test]
async fn every_other_bad_member_is_refused_by_name() {
    let stage = Stage::open().await;
    for (member, value, word) in [
        ("order_id", json!(""), "order_id"),
        ("order_id", json!("a b"), "order_id"),
        ("order_id", json!("订单"), "order_id"),
        ("order_id", json!("x".repeat(65)), "order_id"),
        ("currency", json!("USD"), "currency"),
        ("currency", json!("cny"), "currency"),
        ("subject", json!(""), "subject"),
        ("subject", json!("a\nb"), "subject"),
        ("subject", json!("x".repeat(257)), "subject"),
        ("subject", json!("a&sign=b"), "subject"),
        ("channel", json!("cash"), "channel"),
        ("way", json!("fax"), "way"),
        ("benefits", json!(["a", "a"]), "benefits"),
        ("benefits", json!(["A"]), "benefits"),
        ("benefits", json!(vec!["a"; 17]), "benefits"),
        ("benefits", json!("vip"), "not understood"),
        ("expires_in", json!(0), "expires_in"),
        ("expires_in", json!(u32::MAX), "expires_in"),
        ("expires_in", json!(-1), "not understood"),
        ("expires_in", json!(1.5), "not understood"),
        ("repurchase", json!("yes"), "not understood"),
        ("amuont", json!("1"), "amuont"),
    ] {
        let mut body = order("1001");
        body[member] = value;
        is_refused(&stage, body.to_string(), word).await;
    }
    for member in ["order_id", "amount", "currency", "subject"] {
        let mut body = order("1001");
        body.as_object_mut().unwrap().remove(member);
        is_refused(&stage, body.to_string(), member).await;
    }
}

#[tokio::test]
async fn malformed_json_is_refused() {
    let stage = Stage::open().await;
    let whole = order("1001").to_string();
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "\"x\"",
        "{\"order_id\":\"1001\"",
        "{'order_id':'1001'}",
        &whole[..whole.len() - 1],
        &format!("{whole}{whole}"),
        &format!("{whole},"),
        &format!("\u{feff}{whole}"),
        &"[".repeat(100_000),
    ];
    for body in bodies {
        is_refused(&stage, body.to_owned(), "not understood").await;
    }
    for path in ["/v1/tokens", "/v1/payments/P1/refunds"] {
        let answer = stage.shop().send(Method::POST, path, &[JSON], "{").await;
        assert!(matches!(answer.status, 400 | 404), "{answer:?}");
        let code = if answer.status == 400 { "body_invalid" } else { "not_found" };
        let status = answer.status;
        answer.refused(status, code);
    }
}

#[tokio::test]
async fn a_member_that_comes_twice_is_refused() {
    let stage = Stage::open().await;
    let body = order("1001").to_string();
    let twice = body.replacen('{', "{\"amount\":\"0.01\",", 1);
    is_refused(&stage, twice, "amount").await;
}

#[tokio::test]
async fn what_is_not_utf8_is_refused() {
    let stage = Stage::open().await;
    let mut body = order("1001").to_string().into_bytes();
    let at = body.iter().position(|byte| *byte == b'O').unwrap();
    body[at] = 0xFF;
    is_refused(&stage, body, "not understood").await;
    let gbk: &[u8] = b"{\"order_id\":\"1\",\"amount\":\"1\",\
        \"currency\":\"CNY\",\"subject\":\"\xbb\xe1\xd4\xb1\"}";
    is_refused(&stage, gbk, "not understood").await;
    let overlong: &[u8] = b"{\"order_id\":\"\xc0\xaf\"}";
    is_refused(&stage, overlong, "not understood").await;
}

/// Whatever is refused, it is a problem that programs can read.
#[tokio::test]
async fn what_leads_nowhere_is_a_problem_too() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    shop.get("/").await.refused(404, "not_found");
    shop.get("/v1/nothing").await.refused(404, "not_found");
    shop.get("/v1/orders/").await.refused(404, "not_found");
    shop.get("/v1/payments/..%2F..%2Fetc").await.refused(404, "not_found");
    shop.get(&format!("/v1/payments/{}", "P".repeat(5000))).await.refused(404, "not_found");
    shop.get("/v1/payments/%FF").await.refused(400, "bad_request");
    shop.get("/v1/orders/%FF%FE").await.refused(400, "bad_request");
    shop.send(Method::DELETE, "/v1/payments", &[], "").await.refused(405, "method_not_allowed");
    shop.send(Method::PUT, "/v1/payments/P1/close", &[], "")
        .await
        .refused(405, "method_not_allowed");
    shop.get("/v1/notify/alipay").await.refused(405, "method_not_allowed");
}

/// A tab, a line break or a byte that is no text must not pass into a log or a header.
#[tokio::test]
async fn a_path_is_never_taken_for_more_than_text() {
    let stage = Stage::open().await;
    for path in ["/v1/orders/a%0D%0Ab", "/v1/orders/a%00b", "/v1/payments/%27%20OR%201%3D1"] {
        stage.shop().get(path).await.refused(404, "not_found");
    }
}

// ---- Callbacks -------------------------------------------------------------------------------

#[tokio::test]
async fn a_forged_callback_is_refused() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    let notice = Letter::paid(&payment);
    for forger in [&KEYS.north, &KEYS.south] {
        assert!(!stage.is_taken(notice.signed_by(forger)).await, "an app is not the channel");
    }
    // Signed for a smaller amount, sent with a larger one, and the other way round.
    let cheap = notice.clone().with("total_amount", "0.01").signed();
    let forged = cheap.replace("total_amount=0.01", "total_amount=88.80");
    assert_ne!(forged, cheap);
    assert!(!stage.is_taken(forged).await);
    assert_eq!(stage.books.status(&payment).await, "waiting");
    assert_eq!(stage.books.count("pay_notices", "1").await, 0, "anybody could have sent it");
}

#[tokio::test]
async fn a_truncated_signature_is_refused() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    let body = Letter::paid(&payment).signed();
    let (head, sign) = body.split_once("&sign=").unwrap();
    for sign in ["", "A", "AAAA", "====", "%00", "%FF%FE", &sign[..4], &sign[..sign.len() - 4]] {
        assert!(!stage.is_taken(format!("{head}&sign={sign}")).await, "{sign}");
    }
    assert!(!stage.is_taken(head.to_owned()).await, "without any");
    for end in [1, body.len() / 2, body.len() - 1] {
        assert!(!stage.is_taken(body[..end].to_owned()).await, "cut at {end}");
    }
    assert_eq!(stage.books.status(&payment).await, "waiting");
}

#[tokio::test]
async fn a_callback_in_gbk_is_verified_byte_by_byte() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    stage.channel.faults(json!({"notices": [{"fault": "gbk"}]})).await;
    let mut body = order("1001");
    body["subject"] = json!("会员一个月");
    let payment = no(&shop.create("k1", &body).await.is(201));
    stage.channel.pay(&payment).await;
    stage.channel.acknowledged(&payment).await;
    shop.becomes(&payment, "paid").await;
    let kept = stage.books.bytes("SELECT body FROM pay_notices").await.unwrap();
    let kept = String::from_utf8(kept).unwrap();
    assert!(kept.contains("%BB%E1%D4%B1"), "the evidence is what was received: {kept}");
}

#[tokio::test]
async fn a_parameter_that_comes_twice_is_refused() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    let body = Letter::paid(&payment).signed();
    let all: Vec<_> = body.split('&').collect();
    for twice in &all {
        assert!(!stage.is_taken(format!("{body}&{twice}")).await, "{twice}");
        assert!(!stage.is_taken(format!("{twice}&{body}")).await, "{twice}");
    }
    assert_eq!(stage.books.status(&payment).await, "waiting");
}

#[tokio::test]
async fn a_callback_that_is_no_form_is_refused() {
    let stage = Setup::new().callbacks_only().open().await;
    let bodies: [&[u8]; 8] = [
        b"",
        b"&",
        b"=",
        b"&&&===",
        b"%",
        b"\xff\xfe\x00",
        b"{\"app_id\":\"2026000000000001\"}",
        b"app_id=2026000000000001&sign_type=RSA2&sign=%%%",
    ];
    for body in bodies {
        assert!(!stage.is_taken(body).await, "{:?}", String::from_utf8_lossy(body));
    }
    assert!(!stage.is_taken(form(&[("app_id", "2026000000000001"), ("sign", "x")])).await);
    assert_eq!(stage.books.count("pay_notices", "1").await, 0);
}

/// The parser itself is proved on far more bodies; here it is the whole way to the database.
#[tokio::test]
async fn five_hundred_mutated_callbacks_are_refused_and_leave_the_service_well() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    let body = Letter::paid(&payment).signed().into_bytes();
    let mut state: usize = 7;
    let mut roll = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..500 {
        let mut mutant = body.clone();
        let at = roll(mutant.len());
        match roll(4) {
            0 => mutant[at] ^= 1 << roll(7),
            1 => mutant.truncate(at),
            2 => drop(mutant.remove(at)),
            _ => mutant.insert(at, u8::try_from(roll(256)).unwrap()),
        }
        // A change that the form does not see, such as the case of an escape, is no change.
        let read = |body: &[u8]| form_urlencoded::parse(body).into_owned().collect::<Vec<_>>();
        if read(&mutant) != read(&body) {
            let text = String::from_utf8_lossy(&mutant).into_owned();
            assert!(!stage.is_taken(mutant).await, "{text}");
        }
    }
    assert_eq!(stage.books.status(&payment).await, "waiting");
    assert!(stage.is_taken(body).await, "the service is well");
    assert_eq!(stage.books.status(&payment).await, "paid");
}
