//! Buyers who act at an awkward moment.

use serde_json::json;

use crate::shop::Shop;
use crate::stage::{Stage, counted};
use hapax_sim::wire::MovementKind;

#[tokio::test]
async fn a_buyer_pays_between_the_query_and_the_close() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    let hook = json!({"at": "before_close", "when": {"out_trade_no": "T1", "times": 1}});
    stage.control("hook", &hook).await;
    assert_eq!(stage.query("T1").await["sub_code"], "ACQ.TRADE_NOT_EXIST");
    assert_eq!(stage.close_trade("T1").await["sub_code"], "ACQ.TRADE_STATUS_ERROR");
    assert_eq!(stage.query("T1").await["trade_status"], "TRADE_SUCCESS");
    let totals = stage.totals().await;
    assert_eq!((totals.paid_between_query_and_close, totals.closes_refused_as_paid), (1, 1));
    assert_eq!(counted(&totals, "pay@before_close"), 1);
}

#[tokio::test]
async fn a_buyer_scans_before_the_close_so_that_it_works() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    stage.control("hook", &json!({"at": "before_close", "do": "scan"})).await;
    assert_eq!(stage.close_trade("T1").await["code"], "10000");
}

#[tokio::test]
async fn a_buyer_pays_after_the_close_found_no_trade() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    let hook = json!({"at": "after_close_not_exist", "delay_ms": 50});
    stage.control("hook", &hook).await;
    assert_eq!(stage.close_trade("T1").await["sub_code"], "ACQ.TRADE_NOT_EXIST");
    let totals =
        stage.totals_reach("the payment", |totals| totals.paid_after_close_not_exist == 1).await;
    assert_eq!(counted(&totals, "pay@after_close_not_exist"), 1);
    let trade = stage.trade("T1").await;
    assert!(trade.close_missed && trade.paid_fen == 8880);
}

#[tokio::test]
async fn the_notice_can_be_faster_than_the_answer_to_the_create() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    stage.control("hook", &json!({"at": "before_create_answer"})).await;
    stage.precreate("T1", Some(&shop)).await;
    let got = shop.got();
    assert_eq!(got.len(), 1, "it was here before the answer");
    assert_eq!(got[0].text("trade_status"), "TRADE_SUCCESS");
}

#[tokio::test]
async fn buyers_can_pay_by_themselves_after_a_while() {
    let stage = Stage::with_faults(json!({"races": [
        {"at": "after_create", "delay_ms": 20, "when": {"chance": 0.5}},
    ]}))
    .await;
    for n in 0..20 {
        stage.precreate(&format!("T{n}"), None).await;
    }
    let totals = stage.totals_reach("payments", |totals| totals.payments >= 3).await;
    assert!(totals.payments < 20, "not all of them");
}

#[tokio::test]
async fn a_buyer_at_the_password_step_pays_after_the_time() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    stage.control("expire", &json!({"out_trade_no": "T1"})).await;
    let (status, refused) = stage.try_control("pay", &json!({"out_trade_no": "T1"})).await;
    assert_eq!((status, &refused["error"]), (409, &json!("the code is past its time")));
    assert_eq!(stage.query("T1").await["sub_code"], "ACQ.TRADE_NOT_EXIST");
    let late = json!({"out_trade_no": "T1", "late": true});
    assert_eq!(stage.control("pay", &late).await["paid_late"], true);
    let totals = stage.totals().await;
    assert_eq!((totals.paid_after_expiry, totals.payments_refused), (1, 1));
}

#[tokio::test]
async fn a_late_buyer_can_be_scripted_around_the_expiry() {
    let stage = Stage::with_faults(json!({"races": [
        {"at": "at_expiry", "delay_ms": 100, "late": true, "when": {"out_trade_no": "late"}},
        {"at": "at_expiry", "delay_ms": -500, "when": {"out_trade_no": "early"}},
    ]}))
    .await;
    let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 2).unwrap();
    let text = jiff::tz::offset(8).to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string();
    for number in ["late", "early"] {
        let biz = json!({
            "out_trade_no": number, "total_amount": "1.00", "subject": "tea", "time_expire": text,
        });
        stage.call("alipay.trade.precreate", &biz).await;
    }
    stage.totals_reach("both payments", |totals| totals.payments == 2).await;
    let paid_at = async |number| {
        let movements = stage.trade(number).await.movements;
        movements.iter().find(|movement| movement.kind == MovementKind::Paid).unwrap().at_ms
    };
    assert!(paid_at("early").await < at.as_millisecond());
    assert!(paid_at("late").await >= at.as_millisecond() + 100);
    assert_eq!(stage.totals().await.paid_after_expiry, 1);
}

#[tokio::test]
async fn two_buyers_at_one_code_pay_once() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    let scan = |buyer: &str| json!({"out_trade_no": "T1", "buyer_id": buyer});
    stage.control("scan", &scan("2088000000000011")).await;
    let (status, refused) = stage.try_control("pay", &scan("2088000000000012")).await;
    assert_eq!(
        (status, refused["error"].as_str().unwrap()),
        (409, "another buyer scanned the code first")
    );
    stage.control("pay", &scan("2088000000000011")).await;
    let (status, _) = stage.try_control("pay", &scan("2088000000000011")).await;
    assert_eq!(status, 409);
    let trade = stage.trade("T1").await;
    assert_eq!((trade.payments, trade.buyer_id.as_deref()), (1, Some("2088000000000011")));
}

#[tokio::test]
async fn a_product_that_is_not_refundable_is_finished_when_paid() {
    let stage = Stage::with_faults(json!({
        "push": {"precreate": ["paid", "finished"]},
        "not_refundable": {"out_trade_no": "T1"},
    }))
    .await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    let notice = shop.received(1).await.remove(0);
    assert_eq!(notice.text("trade_status"), "TRADE_FINISHED");
    assert_eq!(stage.refund("T1", "r1", "1.00").await["sub_code"], "ACQ.TRADE_HAS_FINISHED");
    stage.totals_reach("success", |totals| totals.notices_acked == 1).await;
    assert_eq!(stage.totals().await.notices, 1, "there is no TRADE_SUCCESS");
}

#[tokio::test]
async fn fifty_parallel_refunds_never_give_back_more_than_was_paid() {
    let stage = Stage::open().await;
    let biz = json!({"out_trade_no": "T1", "total_amount": "100.00", "subject": "tea"});
    stage.call("alipay.trade.precreate", &biz).await;
    stage.control("pay", &json!({"out_trade_no": "T1"})).await;
    let numbers: Vec<_> = (0..50).map(|n| format!("r{n}")).collect();
    let refunds = numbers.iter().map(|number| stage.refund("T1", number, "3.00"));
    let answers = futures_util::future::join_all(refunds).await;
    let done = answers.iter().filter(|answer| answer["fund_change"] == "Y").count();
    assert_eq!(done, 33);
    assert_eq!(stage.trade("T1").await.refunded_fen, 9_900);
}
