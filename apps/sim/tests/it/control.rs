//! `/_sim`: what it takes, what it refuses, what it tells.

use serde_json::{Value, json};

use crate::client::Call;
use crate::shop::Shop;
use crate::stage::Stage;
use hapax_sim::wire;

async fn refused(stage: &Stage, what: &str, body: &Value) -> (u16, String) {
    let (status, answer) = stage.try_control(what, body).await;
    (status, answer["error"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn bad_bodies_are_refused_with_a_sentence() {
    let stage = Stage::open().await;
    stage.precreate("T1", None).await;
    for (what, body, expected) in [
        ("pay", json!({}), "missing field `out_trade_no`"),
        ("pay", json!({"out_trade_no": "T1", "amount": 1}), "unknown field `amount`"),
        ("scan", json!({"out_trade_no": 1}), "expected a string"),
        ("expire", json!([]), "the body does not fit"),
        ("faults", json!({"calls": [{"fault": "explode"}]}), "unknown variant `explode`"),
        ("faults", json!({"calls": [{"fault": "no_sign", "when": {"chance": 2}}]}), "from 0 to 1"),
        ("hook", json!({"at": "never"}), "unknown variant `never`"),
        ("hook", json!({"at": "before_close", "delay_ms": 900_000}), "at most"),
        ("notify/resend", json!({"notify_id": "1", "x": 1}), "unknown field `x`"),
    ] {
        let (status, error) = refused(&stage, what, &body).await;
        assert_eq!(status, 400, "{what}: {error}");
        assert!(error.contains(expected), "{what}: {error}");
    }
    let url = stage.url("/_sim/pay");
    let form = stage.http.post(&url).body("out_trade_no=T1").send().await.unwrap();
    assert_eq!(form.status(), 415, "a form on some web page pulls no strings");
    let huge = vec![b' '; 1024 * 1024 + 1];
    let huge = stage.http.post(&url).header("content-type", "application/json").body(huge);
    assert_eq!(huge.send().await.unwrap().status(), 413);
    let query = stage.http.get(stage.url("/_sim/truth?trade=T1")).send().await.unwrap();
    assert_eq!(query.status(), 400);
    assert_eq!(stage.trade("T1").await.status, "INTENT", "nothing was done");
}

#[tokio::test]
async fn what_does_not_exist_or_does_not_fit_is_said() {
    let stage = Stage::open().await;
    let (status, error) = refused(&stage, "pay", &json!({"out_trade_no": "T1"})).await;
    assert!(status == 404 && error.contains("T1"), "{error}");
    let (status, error) = refused(&stage, "notify/resend", &json!({"notify_id": "17"})).await;
    assert!(status == 404 && error.contains("17"), "{error}");
    stage.precreate("T1", None).await;
    let elsewhere = json!({"out_trade_no": "T1", "app_id": "2026999999999999"});
    assert_eq!(refused(&stage, "pay", &elsewhere).await.0, 404);
    let (status, error) = refused(&stage, "finish", &json!({"out_trade_no": "T1"})).await;
    assert!(status == 409 && error.contains("nobody scanned"), "{error}");
}

#[tokio::test]
async fn rules_can_be_read_replaced_and_added_to() {
    let stage = Stage::open().await;
    let rules = json!({"notices": [{"fault": "lost"}]});
    let set = stage.control("faults", &rules).await;
    assert_eq!(set["faults"]["notices"][0]["fault"], "lost");
    stage.control("hook", &json!({"at": "before_close"})).await;
    let url = stage.url("/_sim/faults");
    let read: wire::FaultsInForce = stage.http.get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!((read.faults.notices.len(), read.faults.races.len()), (1, 1));
    stage.control("faults", &json!({})).await;
    let url = stage.url("/_sim/faults");
    let read: wire::FaultsInForce = stage.http.get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(read.faults, hapax_sim::faults::Faults::default());
}

#[tokio::test]
async fn a_refused_set_of_rules_leaves_the_old_one_in_force() {
    let stage = Stage::open().await;
    stage.control("faults", &json!({"notices": [{"fault": "lost"}]})).await;
    let bad = json!({"notices": [{"fault": {"duplicate": {"copies": 1}}}]});
    assert_eq!(refused(&stage, "faults", &bad).await.0, 400);
    let url = stage.url("/_sim/faults");
    let read: wire::FaultsInForce = stage.http.get(url).send().await.unwrap().json().await.unwrap();
    assert_eq!(read.faults.notices.len(), 1);
}

#[tokio::test]
async fn the_truth_can_be_asked_for_one_trade_and_without_deliveries() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    stage.paid("T1", Some(&shop)).await;
    stage.paid("T2", Some(&shop)).await;
    stage.totals_reach("both notices", |totals| totals.notices_acked == 2).await;
    let ask = async |query: &str| -> wire::Truth {
        let url = stage.url(&format!("/_sim/truth{query}"));
        stage.http.get(url).send().await.unwrap().json().await.unwrap()
    };
    let one = ask("?out_trade_no=T1").await;
    assert_eq!((one.trades.len(), one.deliveries.len()), (1, 1));
    assert_eq!(one.totals.payments, 2, "totals are always whole");
    let bare = ask("?deliveries=false").await;
    assert_eq!((bare.trades.len(), bare.deliveries.len()), (2, 0));
    assert_eq!(ask("").await.deliveries.len(), 2);
    assert_eq!(bare.seed, 42);
}

#[tokio::test]
async fn the_log_tells_what_was_asked_and_answered() {
    let rule = json!({"fault": "drop_answer", "method": "alipay.trade.refund"});
    let stage = Stage::with_faults(json!({"calls": [rule]})).await;
    stage.paid("T1", None).await;
    let biz = json!({"out_trade_no": "T1", "refund_amount": "88.80"});
    assert!(stage.send(&Call::new("alipay.trade.refund", &biz).signed()).await.is_err());
    stage.query("unknown").await;
    let url = stage.url("/_sim/log");
    let log: wire::Log = stage.http.get(url).send().await.unwrap().json().await.unwrap();
    let [create, refund, query] = log.requests.as_slice() else { panic!("{log:?}") };
    assert_eq!(create.method.as_deref(), Some("alipay.trade.precreate"));
    assert_eq!(
        (refund.code.as_deref(), refund.fault.as_deref()),
        (Some("10000"), Some("drop_answer"))
    );
    assert_eq!(refund.out_trade_no.as_deref(), Some("T1"));
    assert_eq!(query.sub_code.as_deref(), Some("ACQ.TRADE_NOT_EXIST"));
    assert!(query.peer.starts_with("127.0.0.1:"));
}
