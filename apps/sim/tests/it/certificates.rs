//! Certificate mode.

use serde_json::json;

use crate::client::{Call, case, key, verified};
use crate::stage::{Stage, config, node};
use hapax_sim::{Account, Kind, Proof, bind};

/// Serial numbers, computed outside of the simulator.
const ALIPAY_SN: &str = "056644b541fa211d588f74c56f6e4188";
const APP_SN: &str = "e0956a173605ff904b555ded49e7c032";

fn account() -> Account {
    let root = case("cert_sn")["pem"].as_str().unwrap().to_owned();
    let app = include_str!("../vectors/app_cert.pem").to_owned();
    let proof = Proof::Certificates { app, alipay: root.clone(), roots: root };
    Account {
        app_id: "2026000000000001".to_owned(),
        seller_id: "2088000000000002".to_owned(),
        proof,
    }
}

fn query() -> Call {
    Call::new("alipay.trade.query", &json!({"out_trade_no": "T1"}))
        .with("app_cert_sn", APP_SN)
        .with("alipay_root_cert_sn", ALIPAY_SN)
}

#[tokio::test]
async fn answers_carry_the_channels_serial_number_after_the_node() {
    let mut config = config();
    config.accounts = vec![account()];
    let stage = Stage::with(config).await;
    let (_, body) = stage.send(&query().signed()).await.unwrap();
    let answer = verified(&node("alipay.trade.query"), &body);
    assert_eq!(answer["sub_code"], "ACQ.TRADE_NOT_EXIST");
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains(&format!("}},\"alipay_cert_sn\":\"{ALIPAY_SN}\",\"sign\":")), "{text}");
}

#[tokio::test]
async fn calls_must_carry_the_right_serial_numbers() {
    let mut config = config();
    config.accounts = vec![account()];
    let stage = Stage::with(config).await;
    for (call, expected) in [
        (query().without("app_cert_sn"), "isv.missing-app-cert-sn"),
        (query().with("app_cert_sn", ALIPAY_SN), "isv.invalid-app-cert-sn"),
        (query().without("alipay_root_cert_sn"), "isv.missing-alipay-root-cert-sn"),
        (query().with("alipay_root_cert_sn", APP_SN), "isv.invalid-alipay-root-cert-sn"),
    ] {
        let answer = stage.ask("alipay.trade.query", call).await;
        assert_eq!(answer["sub_code"], expected);
    }
}

#[tokio::test]
async fn a_certificate_over_another_key_is_refused_at_the_start() {
    let mut config = config();
    config.alipay_private_key_pem = key("app_private_pkcs8");
    config.accounts = vec![account()];
    let error = bind(config).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.to_string().contains("for another key"), "{error}");
}
