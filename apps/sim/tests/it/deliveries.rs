//! Notices: the schedule, what ends it, and everything that can go wrong on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::shop::{Notice, Says, Shop};
use crate::stage::{Stage, config, counted, pause};
use hapax_sim::wire::{MovementKind, Outcome};

async fn open(notices: Value) -> Stage {
    Stage::with_faults(json!({"notices": notices})).await
}

fn texts(notices: &[Notice], name: &str) -> BTreeSet<String> {
    notices.iter().map(|notice| notice.text(name)).collect()
}

#[tokio::test]
async fn a_notice_is_sent_again_until_it_is_acknowledged() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    shop.say(vec![
        Says::Body(200, "failure"),
        Says::Body(200, "SUCCESS"),
        Says::Body(200, "success\n"),
        Says::Body(201, "success"),
        Says::Redirect(shop.elsewhere()),
        Says::Body(500, "success"),
        Says::Success,
    ]);
    stage.paid("T1", Some(&shop)).await;
    let got = shop.received(7).await;
    assert!(got.iter().all(Notice::is_genuine));
    assert_eq!(texts(&got, "notify_id").len(), 1, "one event, one id");
    let totals = stage.totals_reach("the end", |totals| totals.notices_acked == 1).await;
    assert_eq!((totals.notices, totals.deliveries, totals.duplicate_deliveries), (1, 7, 6));
    pause(Duration::from_millis(700)).await;
    assert_eq!(shop.got().len(), 7, "success ends it; the eighth would have come by now");
    assert_eq!(shop.redirected(), 0, "redirects are not followed");
    let truth = stage.truth().await;
    let attempts: Vec<_> = truth.deliveries.iter().map(|delivery| delivery.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(truth.deliveries[1].answer, "SUCCESS");
    assert_eq!(truth.deliveries[6].outcome, Outcome::Success);
}

#[tokio::test]
async fn a_notice_says_what_the_channel_says() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    let notice = shop.received(1).await.remove(0);
    let trade = stage.trade("T1").await;
    for (name, value) in [
        ("notify_type", "trade_status_sync"),
        ("trade_status", "TRADE_SUCCESS"),
        ("out_trade_no", "T1"),
        ("trade_no", trade.trade_no.as_deref().unwrap()),
        ("app_id", "2026000000000001"),
        ("auth_app_id", "2026000000000001"),
        ("seller_id", "2088000000000002"),
        ("total_amount", "88.80"),
        ("receipt_amount", "88.80"),
        ("buyer_pay_amount", "88.80"),
        ("subject", "会员 1"),
        ("charset", "utf-8"),
        ("version", "1.0"),
        ("sign_type", "RSA2"),
    ] {
        assert_eq!(notice.text(name), value, "{name}");
    }
    for name in ["gmt_create", "gmt_payment", "notify_time"] {
        let text = notice.text(name);
        let civil = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", &text).unwrap();
        let at = jiff::tz::offset(8).to_timestamp(civil).unwrap();
        let age = jiff::Timestamp::now().as_second() - at.as_second();
        assert!((-1..20).contains(&age), "{name} is Beijing time: {text}");
    }
    for name in ["refund_fee", "gmt_refund", "gmt_close", "out_biz_no"] {
        assert!(!notice.names().contains(&name.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn every_delivery_is_signed_anew_with_its_own_time() {
    let mut config = config();
    config.notify_schedule = vec![Duration::ZERO, Duration::from_millis(1_100)];
    config.time_scale = 1.0;
    let stage = Stage::with(config).await;
    let shop = Shop::open(vec![Says::Body(200, "fail"), Says::Body(200, "fail")]).await;
    stage.paid("T1", Some(&shop)).await;
    let got = shop.received(2).await;
    assert_eq!(texts(&got, "notify_id").len(), 1);
    assert_eq!(texts(&got, "notify_time").len(), 2);
    assert_eq!(texts(&got, "sign").len(), 2);
    stage.totals_reach("giving up", |totals| totals.notices_given_up == 1).await;
}

#[tokio::test]
async fn each_transition_is_a_notice_of_its_own() {
    let push = json!(["scanned", "paid", "refunded", "closed", "finished"]);
    let stage = Stage::with_faults(json!({"push": {"precreate": push}})).await;
    let shop = Shop::open(vec![]).await;
    stage.precreate("T1", Some(&shop)).await;
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    shop.received(1).await;
    stage.control("pay", &json!({"out_trade_no": "T1"})).await;
    shop.received(2).await;
    stage.refund("T1", "r1", "8.03").await;
    shop.received(3).await;
    stage.refund("T1", "r2", "80.77").await;
    let got = shop.received(4).await;
    assert_eq!(texts(&got, "notify_id").len(), 4);
    let statuses: Vec<_> = got.iter().map(|notice| notice.text("trade_status")).collect();
    assert_eq!(statuses, ["WAIT_BUYER_PAY", "TRADE_SUCCESS", "TRADE_SUCCESS", "TRADE_CLOSED"]);
    assert_eq!(
        (got[2].text("refund_fee"), got[2].text("out_biz_no")),
        ("8.03".to_owned(), "r1".to_owned())
    );
    assert_eq!(got[3].text("refund_fee"), "88.80");
    assert!(got.iter().all(Notice::is_genuine));

    stage.paid("T2", Some(&shop)).await;
    stage.control("finish", &json!({"out_trade_no": "T2"})).await;
    stage.precreate("T3", Some(&shop)).await;
    stage.control("scan", &json!({"out_trade_no": "T3"})).await;
    stage.control("expire", &json!({"out_trade_no": "T3"})).await;
    let got = shop.received(9).await;
    let of = |number: &str| -> BTreeSet<String> {
        let mine = got.iter().filter(|notice| notice.text("out_trade_no") == number);
        mine.map(|notice| notice.text("trade_status")).collect()
    };
    assert!(of("T2").contains("TRADE_FINISHED"));
    assert!(of("T3").contains("TRADE_CLOSED"));
}

#[tokio::test]
async fn by_default_a_page_trade_tells_no_close() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    let biz = json!({
        "out_trade_no": "T1", "total_amount": "1.00", "subject": "tea",
        "product_code": "FAST_INSTANT_TRADE_PAY",
    });
    let call = crate::client::Call::new("alipay.trade.page.pay", &biz);
    stage.send(&call.with("notify_url", &shop.url()).signed()).await.unwrap();
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    stage.close_trade("T1").await;
    assert_eq!(stage.totals().await.notices, 0);
}

#[tokio::test]
async fn an_unpaid_trade_expires_by_itself_and_tells_it() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 2).unwrap();
    let text = jiff::tz::offset(8).to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let biz = json!({
        "out_trade_no": "T1", "total_amount": "1.00", "subject": "tea", "time_expire": text,
    });
    let call = crate::client::Call::new("alipay.trade.precreate", &biz);
    stage.ask("alipay.trade.precreate", call.with("notify_url", &shop.url())).await;
    stage.control("scan", &json!({"out_trade_no": "T1"})).await;
    let notice = shop.received(1).await.remove(0);
    assert_eq!(notice.text("trade_status"), "TRADE_CLOSED");
    assert!(notice.names().contains(&"gmt_close".to_owned()));
    assert!(jiff::Timestamp::now() >= at, "not before its time");
    let (status, refused) = stage.try_control("pay", &json!({"out_trade_no": "T1"})).await;
    assert_eq!((status, &refused["error"]), (409, &json!("the trade is closed")));
}

#[tokio::test]
async fn silence_and_a_dead_merchant_are_failures() {
    let mut config = config();
    config.notify_timeout = Duration::from_millis(300);
    let stage = Stage::with(config).await;
    let shop = Shop::open(vec![Says::Silence(Duration::from_secs(2)), Says::Success]).await;
    stage.paid("T1", Some(&shop)).await;
    shop.received(2).await;
    stage.totals_reach("success at last", |totals| totals.notices_acked == 1).await;
    assert_eq!(stage.truth().await.deliveries[0].outcome, Outcome::Timeout);

    let url = shop.url();
    drop(shop);
    let biz = json!({"out_trade_no": "T2", "total_amount": "1.00", "subject": "tea"});
    let call = crate::client::Call::new("alipay.trade.precreate", &biz);
    stage.ask("alipay.trade.precreate", call.with("notify_url", &url)).await;
    stage.control("pay", &json!({"out_trade_no": "T2"})).await;
    stage.totals_reach("giving up", |totals| totals.notices_given_up == 1).await;
    let truth = stage.truth().await;
    let dead: Vec<_> = truth.deliveries.iter().filter(|d| d.out_trade_no == "T2").collect();
    assert_eq!(dead.len(), 8, "the whole schedule");
    assert!(dead.iter().all(|delivery| delivery.outcome == Outcome::Unreachable));
}

#[tokio::test]
async fn notify_verify_is_true_until_success() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![Says::Silence(Duration::from_millis(250))]).await;
    stage.paid("T1", Some(&shop)).await;
    let id = shop.received(1).await[0].text("notify_id");
    let verify = async |partner: &str, id: &str| {
        let query = format!("/gateway.do?service=notify_verify&partner={partner}&notify_id={id}");
        let response = stage.http.get(stage.url(&query)).send().await.unwrap();
        response.text().await.unwrap()
    };
    assert_eq!(verify("2088000000000002", &id).await, "true");
    assert_eq!(verify("2088999999999999", &id).await, "false", "not of that seller");
    assert_eq!(verify("2088000000000002", "1").await, "false", "not ours");
    stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    assert_eq!(verify("2088000000000002", &id).await, "false", "answered");
}

#[tokio::test]
async fn a_notice_can_be_sent_once_more_by_hand() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    let first = shop.received(1).await.remove(0);
    stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    let body = json!({"notify_id": first.text("notify_id")});
    assert_eq!(stage.control("notify/resend", &body).await["acknowledged"], true);
    let again = shop.received(2).await.remove(1);
    assert!(again.is_genuine());
    assert_eq!(again.text("notify_id"), first.text("notify_id"));
    assert_eq!(stage.totals().await.notices_acked, 1, "one event, acknowledged once");
}

#[tokio::test]
async fn a_success_by_hand_ends_the_schedule_too() {
    let mut config = config();
    config.notify_schedule = vec![Duration::ZERO, Duration::from_millis(600)];
    config.time_scale = 1.0;
    let stage = Stage::with(config).await;
    let shop = Shop::open(vec![Says::Body(200, "failure")]).await;
    stage.paid("T1", Some(&shop)).await;
    let first = shop.received(1).await.remove(0);
    let body = json!({"notify_id": first.text("notify_id")});
    assert_eq!(stage.control("notify/resend", &body).await["acknowledged"], true);
    pause(Duration::from_millis(1_000)).await;
    assert_eq!(shop.got().len(), 2, "the second of the schedule never comes");
}

#[tokio::test]
async fn a_lost_notice_is_never_sent() {
    let stage = open(json!([{"fault": "lost", "when": {"out_trade_no": "T1"}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    stage.paid("T2", Some(&shop)).await;
    stage.totals_reach("the other one", |totals| totals.notices_acked == 1).await;
    pause(Duration::from_millis(300)).await;
    let got = shop.got();
    assert_eq!((got.len(), got[0].text("out_trade_no").as_str()), (1, "T2"));
    let totals = stage.totals().await;
    assert_eq!((totals.notices_lost, counted(&totals, "lost")), (1, 1));
    assert_eq!(stage.query("T1").await["trade_status"], "TRADE_SUCCESS", "asking finds it");
}

#[tokio::test]
async fn a_dropped_delivery_is_followed_by_the_next() {
    let stage = open(json!([{"fault": "dropped", "when": {"times": 3}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    shop.received(1).await;
    let totals = stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    assert_eq!((totals.deliveries_dropped, totals.deliveries), (3, 1));
    assert_eq!(counted(&totals, "dropped"), 3);
    assert_eq!(stage.truth().await.deliveries[3].attempt, 4);
}

#[tokio::test]
async fn only_the_first_deliveries_are_sent() {
    let stage = open(json!([{"fault": {"first_only": {"deliveries": 2}}}])).await;
    let shop = Shop::open(vec![Says::Body(200, "no"), Says::Body(200, "no")]).await;
    stage.paid("T1", Some(&shop)).await;
    let totals = stage.totals_reach("giving up", |totals| totals.notices_given_up == 1).await;
    assert_eq!((totals.deliveries, counted(&totals, "first_only")), (2, 1));
}

#[tokio::test]
async fn copies_of_a_delivery_arrive_together() {
    let stage = open(json!([{"fault": {"duplicate": {"copies": 8}}, "when": {"times": 1}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    let got = shop.received(8).await;
    assert_eq!(texts(&got, "notify_id").len(), 1);
    assert!(shop.most_at_once() >= 2, "at the same moment: {}", shop.most_at_once());
    let totals = stage.totals_reach("the booking", |totals| totals.deliveries == 8).await;
    assert_eq!((totals.parallel_sends, totals.duplicate_deliveries), (1, 7));
    assert_eq!((totals.notices_acked, counted(&totals, "duplicate")), (1, 1));
}

#[tokio::test]
async fn a_late_notice_is_overtaken_by_the_next_one() {
    let rules = json!([{"fault": {"reorder": {"wait_ms": 10_000}}, "when": {"times": 1}}]);
    let stage = open(rules).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    stage.refund("T1", "r1", "1.00").await;
    let got = shop.received(2).await;
    assert_eq!(got[0].text("out_biz_no"), "r1", "the refund is told first");
    assert_eq!(got[1].text("out_biz_no"), "");
    let totals = stage.totals_reach("both", |totals| totals.notices_acked == 2).await;
    assert_eq!(counted(&totals, "reorder"), 1);
}

#[tokio::test]
async fn a_reorder_that_nothing_overtakes_does_not_count() {
    let stage = open(json!([{"fault": {"reorder": {"wait_ms": 50}}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    let totals = stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    assert_eq!(counted(&totals, "reorder"), 0);
}

#[tokio::test]
async fn a_notice_can_wait_until_the_merchants_close_was_answered() {
    let stage = open(json!([{"fault": {"past_close": {"wait_ms": 10_000}}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    pause(Duration::from_millis(100)).await;
    assert_eq!(shop.got().len(), 0);
    assert_eq!(stage.close_trade("T1").await["sub_code"], "ACQ.TRADE_STATUS_ERROR");
    shop.received(1).await;
    assert_eq!(counted(&stage.totals().await, "past_close"), 1);
}

#[tokio::test]
async fn a_notice_can_be_late() {
    let stage = open(json!([{"fault": {"delay": {"ms": 200}}}])).await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    shop.received(1).await;
    let trade = stage.trade("T1").await;
    let paid_at = trade.movements.iter().find(|m| m.kind == MovementKind::Paid).unwrap().at_ms;
    stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    let sent_at = stage.truth().await.deliveries[0].at_ms;
    assert!(sent_at - paid_at >= 200, "{}", sent_at - paid_at);
}

#[tokio::test]
async fn a_notice_keeps_its_meaning_in_every_form() {
    for (form, left_out, present) in [
        ("gbk", &["sign_type"][..], "subject"),
        ("sign_type_signed", &[][..], "sign_type"),
        ("empty_signed", &["sign_type"][..], "discount_amount"),
        ("empty_unsigned", &["sign_type", "mdiscount_amount"][..], "mdiscount_amount"),
        ("extra_fields", &["sign_type"][..], "z_ext_info"),
        ("zero_refund", &["sign_type"][..], "gmt_close"),
    ] {
        let stage = open(json!([{"fault": form}])).await;
        let shop = Shop::open(vec![]).await;
        stage.paid("T1", Some(&shop)).await;
        let notice = shop.received(1).await.remove(0);
        assert!(notice.is_signed(left_out), "{form}");
        assert!(notice.names().contains(&present.to_owned()), "{form}");
        let wanted = ("T1".to_owned(), "TRADE_SUCCESS".to_owned());
        assert_eq!((notice.text("out_trade_no"), notice.text("trade_status")), wanted, "{form}");
        match form {
            "gbk" => {
                assert_eq!(notice.bytes("subject"), b"\xbb\xe1\xd4\xb1 1");
                assert_eq!(notice.text("charset"), "GBK");
            }
            "zero_refund" => assert_eq!(notice.text("refund_fee"), "0.00"),
            "empty_unsigned" | "sign_type_signed" => assert!(!notice.is_genuine()),
            _ => {}
        }
        let totals = stage.totals_reach(form, |totals| totals.notices_acked == 1).await;
        assert_eq!((counted(&totals, form), totals.hostile), (1, 0));
    }
}

#[tokio::test]
async fn a_raw_plus_reaches_the_reader_as_a_space_in_the_signature_only() {
    let stage = open(json!([{"fault": "plus_raw"}])).await;
    let shop = Shop::open(vec![]).await;
    // Nearly every signature of 344 letters has a plus; one of these surely does.
    for number in ["T1", "T2", "T3"] {
        stage.paid(number, Some(&shop)).await;
    }
    let got = shop.received(3).await;
    let spaced: Vec<_> = got.iter().filter(|notice| notice.text("sign").contains(' ')).collect();
    assert!(!spaced.is_empty());
    for notice in spaced {
        assert!(!notice.is_genuine());
        let repaired = notice.text("sign").replace(' ', "+");
        let raw = String::from_utf8(notice.raw.clone()).unwrap();
        let (head, _) = raw.rsplit_once("&sign=").unwrap();
        let body = format!("{head}&sign={}", crate::client::percent(repaired.as_bytes()));
        assert!(Notice { raw: body.into_bytes() }.is_genuine());
    }
}

#[tokio::test]
async fn forgeries_come_before_the_genuine_notice_and_are_counted_apart() {
    for hostile in [
        "wrong_amount",
        "wrong_seller",
        "wrong_app",
        "forged_key",
        "tampered",
        "unsigned",
        "return_replay",
        "duplicate_key",
    ] {
        let stage = open(json!([{"fault": hostile, "when": {"times": 1}}])).await;
        // A merchant that falls for it.
        let shop = Shop::open(vec![]).await;
        stage.paid("T1", Some(&shop)).await;
        let got = shop.received(2).await;
        let (forged, genuine) = (&got[0], &got[1]);
        assert!(genuine.is_genuine() && genuine.text("total_amount") == "88.80");
        let differs = match hostile {
            "wrong_amount" => forged.is_genuine() && forged.text("total_amount") == "88.81",
            "wrong_seller" => {
                forged.is_genuine() && forged.text("seller_id") != genuine.text("seller_id")
            }
            "wrong_app" => forged.is_genuine() && forged.text("app_id") != genuine.text("app_id"),
            "forged_key" => !forged.is_genuine() && forged.text("total_amount") == "88.80",
            "tampered" => !forged.is_genuine() && forged.text("total_amount") == "88.81",
            "unsigned" => !forged.names().contains(&"sign".to_owned()),
            "return_replay" => forged.is_genuine() && forged.text("trade_status").is_empty(),
            _ => forged.names().iter().filter(|name| *name == "total_amount").count() == 2,
        };
        assert!(differs, "{hostile}: {}", String::from_utf8_lossy(&forged.raw));
        let totals = stage.totals_reach(hostile, |totals| totals.notices_acked == 1).await;
        assert_eq!((totals.hostile, totals.hostile_acked), (1, 1), "{hostile}");
        assert_eq!((totals.deliveries, counted(&totals, hostile)), (1, 1), "{hostile}");
    }
}

#[tokio::test]
async fn a_success_to_a_forgery_does_not_end_the_genuine_notice() {
    let stage = open(json!([{"fault": "forged_key", "when": {"times": 1}}])).await;
    let shop = Shop::open(vec![Says::Success, Says::Body(200, "failure"), Says::Success]).await;
    stage.paid("T1", Some(&shop)).await;
    let got = shop.received(3).await;
    assert!(!got[0].is_genuine() && got[1].is_genuine() && got[2].is_genuine());
}
