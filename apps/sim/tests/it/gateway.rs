//! What merchants call, and the answers that are to be copied exactly.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Call, case, key, verified};
use crate::stage::{Stage, config, node, pause};
use hapax_sim::Account;
use hapax_sim::wire::MovementKind;

fn sub(answer: &Value) -> (&str, &str) {
    (answer["code"].as_str().unwrap(), answer["sub_code"].as_str().unwrap_or_default())
}

const NOT_EXIST: (&str, &str) = ("40004", "ACQ.TRADE_NOT_EXIST");
const STATUS_ERROR: (&str, &str) = ("40004", "ACQ.TRADE_STATUS_ERROR");
const DONE: (&str, &str) = ("10000", "");

#[tokio::test]
async fn a_trade_goes_from_the_code_to_the_full_refund() {
    use MovementKind::{Closed, Opened, Paid, Refunded, Scanned};

    let stage = Stage::open().await;
    let created = stage.precreate("T1", None).await;
    assert_eq!(created["out_trade_no"], "T1");
    let code = created["qr_code"].as_str().unwrap();
    assert!(code.starts_with(&stage.url("/qr/")), "{code}");

    let unscanned = stage.query("T1").await;
    assert_eq!(sub(&unscanned), NOT_EXIST);
    assert_eq!(unscanned["buyer_pay_amount"], "0.00");
    assert!(unscanned.get("total_amount").is_none() && unscanned.get("trade_status").is_none());

    let scanned = stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    let trade_no = scanned["trade_no"].as_str().unwrap().to_owned();
    assert_eq!(stage.query("T1").await["trade_status"], "WAIT_BUYER_PAY");

    stage.control("pay", &json!({"out_trade_no": "T1"})).await;
    let by_trade_no = json!({"trade_no": trade_no, "out_trade_no": "no"});
    let paid = stage.call("alipay.trade.query", &by_trade_no).await;
    assert_eq!(paid["trade_status"], "TRADE_SUCCESS");
    assert_eq!(paid["total_amount"], "88.80");
    assert_eq!(paid["out_trade_no"], "T1");
    assert_eq!(paid["trade_no"], trade_no);
    assert!(paid["send_pay_date"].is_string());

    let refund = stage.refund("T1", "r1", "8.03").await;
    assert_eq!((sub(&refund), &refund["fund_change"]), (DONE, &json!("Y")));
    assert_eq!(refund["refund_fee"], "8.03");
    assert_eq!(stage.query("T1").await["trade_status"], "TRADE_SUCCESS");
    let rest = stage.refund("T1", "r2", "80.77").await;
    assert_eq!(rest["refund_fee"], "88.80", "the fee is cumulative");
    assert_eq!(stage.query("T1").await["trade_status"], "TRADE_CLOSED");

    let truth = stage.trade("T1").await;
    assert_eq!((truth.paid_fen, truth.refunded_fen, truth.payments), (8880, 8880, 1));
    let kinds: Vec<_> = truth.movements.iter().map(|movement| movement.kind).collect();
    assert_eq!(kinds, [Opened, Scanned, Paid, Refunded, Refunded, Closed]);
    stage.close().await;
}

#[tokio::test]
async fn a_close_answers_by_the_state_of_the_trade() {
    let stage = Stage::open().await;
    assert_eq!(sub(&stage.close_trade("unknown").await), NOT_EXIST);
    stage.precreate("T1", None).await;
    assert_eq!(sub(&stage.close_trade("T1").await), NOT_EXIST);
    assert!(stage.trade("T1").await.close_missed);
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    let closed = stage.close_trade("T1").await;
    assert_eq!(sub(&closed), DONE);
    assert!(closed["trade_no"].is_string());
    assert_eq!(sub(&stage.close_trade("T1").await), STATUS_ERROR);
    assert_eq!(stage.query("T1").await["trade_status"], "TRADE_CLOSED");

    stage.paid("T2", None).await;
    for code in [
        "ACQ.TRADE_STATUS_ERROR",
        "ACQ.REASON_TRADE_STATUS_INVALID",
        "ACQ.REASON_ILLEGAL_STATUS",
        "ACQ.TRADE_HAS_SUCCESS",
    ] {
        stage.control("faults", &json!({"close_refusal": code})).await;
        assert_eq!(sub(&stage.close_trade("T2").await), ("40004", code));
        assert_eq!(sub(&stage.close_trade("T1").await), STATUS_ERROR, "closed stays closed");
    }
    assert_eq!(stage.totals().await.closes_refused_as_paid, 4);
}

#[tokio::test]
async fn a_number_that_is_presented_again_answers_by_its_state() {
    let stage = Stage::open().await;
    let create = |number: &'static str, amount: &'static str| {
        let biz = json!({"out_trade_no": number, "total_amount": amount, "subject": "tea"});
        let stage = &stage;
        async move { stage.call("alipay.trade.precreate", &biz).await }
    };
    let first = create("T1", "1.00").await;
    assert_eq!(create("T1", "1.00").await["qr_code"], first["qr_code"], "the same code again");

    // Nobody scanned it: the channel forgets the first content.
    assert_eq!(sub(&create("T1", "2.00").await), DONE);
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    assert_eq!(stage.query("T1").await["total_amount"], "2.00");
    assert_eq!(sub(&create("T1", "2.00").await), DONE);
    assert_eq!(sub(&create("T1", "1.00").await), ("40004", "ACQ.CONTEXT_INCONSISTENT"));
    stage.control("faults", &json!({"drift": "accept"})).await;
    assert_eq!(sub(&create("T1", "1.00").await), DONE, "as was observed");
    assert_eq!(stage.query("T1").await["total_amount"], "2.00", "but the content stays");

    stage.control("pay", &json!({"out_trade_no": "T1"})).await;
    assert_eq!(sub(&create("T1", "2.00").await), ("40004", "ACQ.TRADE_HAS_SUCCESS"));
    stage.precreate("T2", None).await;
    stage.control("scan", &json!({"out_trade_no": "T2"})).await;
    stage.close_trade("T2").await;
    assert_eq!(sub(&stage.precreate("T2", None).await), ("40004", "ACQ.TRADE_HAS_CLOSE"));
    assert_eq!(stage.totals().await.repriced, 1);
}

#[tokio::test]
async fn refunds_answer_exactly() {
    let stage = Stage::open().await;
    assert_eq!(sub(&stage.refund("T1", "r1", "1.00").await), NOT_EXIST);
    stage.precreate("T1", None).await;
    assert_eq!(sub(&stage.refund("T1", "r1", "1.00").await), NOT_EXIST);
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    assert_eq!(sub(&stage.refund("T1", "r1", "1.00").await), STATUS_ERROR);
    stage.control("pay", &json!({"out_trade_no": "T1"})).await;

    let first = stage.refund("T1", "r1", "30.00").await;
    stage.refund("T1", "r2", "8.03").await;
    let again = stage.refund("T1", "r1", "30.00").await;
    assert_eq!((sub(&again), &again["fund_change"]), (DONE, &json!("N")));
    assert_eq!(again["refund_fee"], "38.03", "cumulative, not of this number");
    assert_eq!(again["gmt_refund_pay"], first["gmt_refund_pay"]);
    let other = stage.refund("T1", "r1", "30.01").await;
    assert_eq!(sub(&other), ("40004", "ACQ.DISCORDANT_REPEAT_REQUEST"));
    let over = stage.refund("T1", "r3", "50.78").await;
    assert_eq!(sub(&over), ("40004", "ACQ.REASON_TRADE_REFUND_FEE_ERR"));
    let part = json!({"out_trade_no": "T1", "refund_amount": "1.00"});
    let part = stage.call("alipay.trade.refund", &part).await;
    assert_eq!(sub(&part), ("40004", "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL"));

    stage.control("finish", &json!({"out_trade_no": "T1"})).await;
    let finished = stage.refund("T1", "r4", "1.00").await;
    assert_eq!(sub(&finished), ("40004", "ACQ.TRADE_HAS_FINISHED"));

    stage.paid("T2", None).await;
    let whole = json!({"out_trade_no": "T2", "refund_amount": "88.80"});
    let whole = stage.call("alipay.trade.refund", &whole).await;
    assert_eq!((sub(&whole), &whole["fund_change"]), (DONE, &json!("Y")));
    assert_eq!(sub(&stage.refund("T2", "r9", "1.00").await), STATUS_ERROR);

    let totals = stage.totals().await;
    assert_eq!((totals.refunds, totals.refund_repeats), (3, 1));
    assert_eq!(totals.money_out_fen, 3000 + 803 + 8880);
}

#[tokio::test]
async fn a_refund_query_answers_10000_even_for_what_it_does_not_know() {
    let stage = Stage::open().await;
    let ask = |request: &'static str| {
        let stage = &stage;
        let biz = json!({"out_trade_no": "T1", "out_request_no": request});
        async move { stage.call("alipay.trade.fastpay.refund.query", &biz).await }
    };
    assert_eq!(sub(&ask("r1").await), NOT_EXIST);
    stage.paid("T1", None).await;
    assert_eq!(ask("r1").await, json!({"code": "10000", "msg": "Success"}));
    stage.refund("T1", "r1", "8.03").await;
    let known = ask("r1").await;
    assert_eq!(known["refund_amount"], "8.03");
    assert_eq!(known["total_amount"], "88.80");
    assert_eq!(known["refund_status"], "REFUND_SUCCESS");
    assert_eq!(known["out_request_no"], "r1");
    assert!(known["trade_no"].is_string());
}

#[tokio::test]
async fn a_cancel_closes_what_is_unpaid_and_refunds_what_is_paid() {
    let stage = Stage::open().await;
    let cancel = |number: &'static str| {
        let stage = &stage;
        async move { stage.call("alipay.trade.cancel", &json!({"out_trade_no": number})).await }
    };
    assert_eq!(cancel("unknown").await["retry_flag"], "N");
    stage.precreate("T1", None).await;
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    assert_eq!(cancel("T1").await["action"], "close");
    assert!(cancel("T1").await.get("action").is_none(), "nothing is left to do");
    stage.paid("T2", None).await;
    stage.refund("T2", "r1", "8.80").await;
    assert_eq!(cancel("T2").await["action"], "refund");
    let truth = stage.trade("T2").await;
    assert_eq!((truth.refunded_fen, truth.closed_by.as_deref()), (8880, Some("refund")));
    stage.paid("T3", None).await;
    stage.control("finish", &json!({"out_trade_no": "T3"})).await;
    assert_eq!(sub(&cancel("T3").await), ("40004", "ACQ.REASON_TRADE_STATUS_INVALID"));
}

#[tokio::test]
async fn a_changed_byte_is_refused_with_the_text_that_was_verified() {
    let stage = Stage::open().await;
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T&1"})).signed();
    let forged = call.with("biz_content", r#"{"out_trade_no":"T&2"}"#);
    let (_, body) = stage.send(&forged).await.unwrap();
    let answer = verified(&node("alipay.trade.query"), &body);
    assert_eq!(sub(&answer), ("40002", "isv.invalid-signature"));
    let shown = answer["sub_msg"].as_str().unwrap();
    let text = String::from_utf8(forged.text_to_sign()).unwrap();
    assert!(shown.ends_with(&text), "{shown}");
    assert!(stage.totals().await.calls.is_empty(), "nothing was done");
}

#[tokio::test]
async fn calls_of_nobody_get_an_error_without_a_signature() {
    let stage = Stage::open().await;
    let stranger = Call::of_app("2026999999999999", "alipay.trade.query", &json!({})).signed();
    let (status, body) = stage.send(&stranger).await.unwrap();
    let text = String::from_utf8(body).unwrap();
    assert_eq!(status, 200);
    assert_eq!(text, case("response_error_without_sign")["raw"]);
}

#[tokio::test]
async fn each_common_parameter_is_checked() {
    let stage = Stage::open().await;
    let good = || Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"}));
    let cases = [
        (good().without("app_id"), "isv.missing-app-id"),
        (good().without("method"), "isv.missing-method"),
        (good().with("method", "alipay.trade.fly"), "isv.invalid-method"),
        (good().with("charset", "latin1"), "isv.invalid-charset"),
        (good().without("sign_type"), "isv.missing-signature-type"),
        (good().with("sign_type", "RSA"), "isv.invalid-signature-type"),
        (good().with("sign_type", "none"), "isv.invalid-signature-type"),
        (good().without("version"), "isv.missing-version"),
        (good().with("version", "2.0"), "isv.invalid-parameter"),
        (good().with("format", "XML"), "isv.invalid-format"),
        (good().without("timestamp"), "isv.missing-timestamp"),
        (good().with("timestamp", "2026-10-01T08:00:00Z"), "isv.invalid-timestamp"),
        (good().with("timestamp", "2020-01-01 00:00:00"), "isv.invalid-timestamp"),
        (good().without("biz_content"), "isv.invalid-parameter"),
        (good().with("biz_content", "{"), "isv.invalid-parameter"),
        (good().with("biz_content", r#"{"out_trade_no":1}"#), "isv.invalid-parameter"),
        (good().with_bytes("biz_content", b"{\"a\":\"\xff\"}"), "isv.invalid-parameter"),
        (good().with("notify_url", "ftp://shop/x"), "isv.invalid-parameter"),
        (
            good().with("notify_url", &format!("http://{}", "x".repeat(256))),
            "isv.invalid-parameter",
        ),
    ];
    for (call, expected) in cases {
        let call = call.signed();
        let (_, body) = stage.send(&call).await.unwrap();
        let text = String::from_utf8(body).unwrap();
        assert!(text.contains(&format!("\"sub_code\":\"{expected}\"")), "{expected}: {text}");
    }
    let (_, body) = stage.send(&good()).await.unwrap();
    assert!(String::from_utf8(body).unwrap().contains("isv.missing-signature"));
}

#[tokio::test]
async fn an_utc_clock_taken_for_beijing_time_is_noticed() {
    let stage = Stage::open().await;
    let utc = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"}));
    let answer = stage.ask("alipay.trade.query", call.with("timestamp", &utc)).await;
    assert_eq!(sub(&answer), ("40002", "isv.invalid-timestamp"));

    let mut config = config();
    config.timestamp_tolerance = None;
    let lenient = Stage::with(config).await;
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"}));
    let answer = lenient.ask("alipay.trade.query", call.with("timestamp", &utc)).await;
    assert_eq!(sub(&answer), NOT_EXIST);
}

#[tokio::test]
async fn bad_content_is_refused_with_a_reason() {
    let stage = Stage::open().await;
    let good = json!({"out_trade_no": "T1", "total_amount": "1.00", "subject": "tea"});
    let long = "茶".repeat(257);
    for (member, value) in [
        ("out_trade_no", json!("")),
        ("out_trade_no", json!("a b")),
        ("out_trade_no", json!("a-b")),
        ("out_trade_no", json!("x".repeat(65))),
        ("total_amount", json!("1e2")),
        ("total_amount", json!("-1")),
        ("total_amount", json!("1.001")),
        ("total_amount", json!("１.00")),
        ("total_amount", json!("0.00")),
        ("total_amount", json!("100000000.01")),
        ("total_amount", json!(null)),
        ("total_amount", json!([])),
        ("subject", json!("")),
        ("subject", json!(long)),
        ("body", json!(long)),
        ("seller_id", json!("2088999999999999")),
        ("product_code", json!("FAST_INSTANT_TRADE_PAY")),
        ("time_expire", json!("2026-10-01 08:00")),
        ("time_expire", json!("2020-01-01 00:00:00")),
        ("time_expire", json!("2999-01-01 00:00:00")),
        ("timeout_express", json!("0m")),
        ("timeout_express", json!("16d")),
        ("timeout_express", json!("90")),
        ("timeout_express", json!("+5m")),
        ("qr_code_timeout_express", json!("soon")),
    ] {
        let mut biz = good.clone();
        biz[member] = value.clone();
        let answer = stage.call("alipay.trade.precreate", &biz).await;
        assert_eq!(sub(&answer), ("40004", "ACQ.INVALID_PARAMETER"), "{member}: {value}");
    }
    let number = json!({"out_trade_no": "T1", "total_amount": 88.8, "subject": "tea"});
    assert_eq!(sub(&stage.call("alipay.trade.precreate", &number).await), DONE);
    let nothing = stage.call("alipay.trade.query", &json!({})).await;
    assert_eq!(sub(&nothing), ("40004", "ACQ.INVALID_PARAMETER"));
    assert_eq!(stage.totals().await.trades, 1);
}

#[tokio::test]
async fn times_of_a_call_are_beijing_times() {
    let stage = Stage::open().await;
    let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 3_600).unwrap();
    let text = jiff::tz::offset(8).to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let biz = |number: &str, member: &str, value: &str| {
        let mut biz = json!({"out_trade_no": number, "total_amount": "1", "subject": "tea"});
        biz[member] = json!(value);
        biz
    };
    stage.call("alipay.trade.precreate", &biz("T1", "time_expire", &text)).await;
    assert_eq!(stage.trade("T1").await.expires_at_ms, at.as_millisecond());
    stage.call("alipay.trade.precreate", &biz("T2", "timeout_express", "90m")).await;
    let left = stage.trade("T2").await.expires_at_ms - jiff::Timestamp::now().as_millisecond();
    assert!((5_390_000..=5_400_000).contains(&left), "{left}");
    stage.call("alipay.trade.precreate", &biz("T3", "timeout_express", "1c")).await;
    assert_eq!((stage.trade("T3").await.expires_at_ms + 8 * 3_600_000) % 86_400_000, 0);
}

#[tokio::test]
async fn a_gbk_call_gets_a_gbk_answer() {
    let stage = Stage::open().await;
    let biz = r#"{"out_trade_no":"T1","total_amount":"1.00","subject":"会员"}"#;
    let (gbk, _, _) = encoding_rs::GBK.encode(biz);
    let call = |method: &str, biz: &[u8]| {
        Call::new(method, &json!({})).with("charset", "GBK").with_bytes("biz_content", biz)
    };
    let (_, body) = stage.send(&call("alipay.trade.precreate", &gbk).signed()).await.unwrap();
    assert_eq!(verified(&node("alipay.trade.precreate"), &body)["code"], "10000");
    let page = stage.trade("T1").await.page;
    let html = stage.http.get(page).send().await.unwrap().text().await.unwrap();
    assert!(html.contains("会员"), "the subject was read as GBK");

    let query = call("alipay.trade.query", br#"{"out_trade_no":"T1"}"#).signed();
    let (_, body) = stage.send(&query).await.unwrap();
    assert!(std::str::from_utf8(&body).is_err(), "the answer is GBK too");
    let (text, _, broken) = encoding_rs::GBK.decode(&body);
    assert!(!broken && text.contains("交易不存在"), "{text}");
}

#[tokio::test]
async fn a_call_that_names_no_charset_is_read_as_gbk() {
    let stage = Stage::open().await;
    let biz = json!({"out_trade_no": "T1", "total_amount": "1.00", "subject": "会员"});
    let call = Call::new("alipay.trade.precreate", &biz).without("charset");
    assert_eq!(stage.ask("alipay.trade.precreate", call).await["code"], "10000");
    let page = stage.trade("T1").await.page;
    let html = stage.http.get(page).send().await.unwrap().text().await.unwrap();
    assert!(html.contains("浼氬憳") && !html.contains("会员"), "{html}");
}

#[tokio::test]
async fn parameters_may_stand_in_the_url_in_the_body_or_in_both() {
    let stage = Stage::open().await;
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"})).signed();
    let query = call.clone().without("biz_content").wire();
    let body = Call(call.0.iter().filter(|(name, _)| name == "biz_content").cloned().collect());
    let gateway = stage.url("/gateway.do");
    let urls = [
        (format!("{gateway}?{query}"), body.wire()),
        (format!("{gateway}?charset=utf-8"), call.wire()),
        (format!("{gateway}?{}", call.wire()), String::new()),
    ];
    for (url, body) in urls {
        let response = stage.http.post(url).body(body).send().await.unwrap();
        let bytes = response.bytes().await.unwrap();
        assert_eq!(sub(&verified(&node("alipay.trade.query"), &bytes)), NOT_EXIST);
    }
    let response = stage.http.get(format!("{gateway}?{}", call.wire())).send().await.unwrap();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(sub(&verified(&node("alipay.trade.query"), &bytes)), NOT_EXIST);

    let url = format!("{gateway}?charset=GBK");
    let response = stage.http.post(url).body(call.wire()).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert!(text.contains("the parameter charset is given twice"), "{text}");
}

#[tokio::test]
async fn no_body_breaks_the_gateway() {
    let stage = Stage::open().await;
    let good = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"})).signed().wire();
    let mut bodies: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"&&&==&%".to_vec(),
        b"a=1&a=2".to_vec(),
        vec![0xff; 100],
        b"app_id=2026000000000001&method=alipay.trade.query&sign_type=RSA2&sign=%00".to_vec(),
        br#"{"app_id": 1}"#.to_vec(),
    ];
    for (index, step) in (0..good.len()).step_by(7).enumerate() {
        let mut mutant = good.clone().into_bytes();
        mutant[step] ^= 1 << (index % 8);
        bodies.push(mutant);
    }
    let sent = bodies.len();
    for body in bodies {
        let url = stage.url("/gateway.do");
        let response = stage.http.post(url).body(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let huge = vec![b'a'; 65 * 1024];
    let response = stage.http.post(stage.url("/gateway.do")).body(huge).send().await.unwrap();
    assert_eq!(response.status(), 413);
    let log: hapax_sim::wire::Log =
        stage.http.get(stage.url("/_sim/log")).send().await.unwrap().json().await.unwrap();
    assert_eq!(log.requests.len(), sent + 1);
}

#[tokio::test]
async fn two_apps_do_not_see_each_others_trades() {
    let mut config = config();
    config.accounts.push(Account::with_key(
        "2026000000000009",
        "2088000000000009",
        key("app_public"),
    ));
    let stage = Stage::with(config).await;
    stage.paid("T1", None).await;
    let method = "alipay.trade.query";
    let biz = json!({"out_trade_no": "T1"});
    let other = stage.ask(method, Call::of_app("2026000000000009", method, &biz)).await;
    assert_eq!(sub(&other), NOT_EXIST);
    let trade_no = stage.trade("T1").await.trade_no.unwrap();
    let biz = json!({"trade_no": trade_no});
    let other = stage.ask(method, Call::of_app("2026000000000009", method, &biz)).await;
    assert_eq!(sub(&other), NOT_EXIST, "not even by the channel's own number");
}

#[tokio::test]
async fn a_simulator_that_is_dropped_is_gone_even_in_the_middle_of_an_answer() {
    let rule = json!({"fault": {"delay_answer": {"ms": 600_000}}});
    let stage = Stage::with_faults(json!({"calls": [rule]})).await;
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"})).signed();
    let http = stage.http.clone();
    let asking = http.post(stage.url("/gateway.do")).body(call.wire()).send();
    let dropping = async {
        pause(Duration::from_millis(100)).await;
        drop(stage);
    };
    let (asked, ()) = tokio::join!(asking, dropping);
    assert!(asked.is_err(), "the connection is cut: {asked:?}");
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_keep_the_simulator_up() {
    let rule = json!({"fault": {"delay_answer": {"ms": 600_000}}});
    let stage = Stage::with_faults(json!({"calls": [rule]})).await;
    let call = Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"})).signed();
    let http = stage.http.clone();
    let asking = http.post(stage.url("/gateway.do")).body(call.wire()).send();
    let before = jiff::Timestamp::now();
    let closing = async {
        pause(Duration::from_millis(100)).await;
        stage.close().await;
    };
    let (asked, ()) = tokio::join!(asking, closing);
    assert!(asked.is_err(), "the connection is cut: {asked:?}");
    let took = jiff::Timestamp::now().duration_since(before).as_secs();
    assert!((5..9).contains(&took), "five seconds are given, no more: {took}");
}

#[tokio::test]
async fn a_simulator_stops_when_it_is_told_and_frees_its_port() {
    let stage = Stage::open().await;
    let addr = stage.addr;
    stage.precreate("T1", None).await;
    stage.close().await;
    let again = tokio::net::TcpListener::bind(addr).await;
    assert!(again.is_ok(), "the port is free: {again:?}");
}
