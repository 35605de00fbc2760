//! Certificate mode: serials, the pinned certificate, and what requests carry.

use crate::stage::{
    account, alipay_key, app_key, notice_body, now, paid_but, params, payment_no, signed_answer,
};
use hapax_pay::channel::{
    Call, Cause, Received, Refused, Untrusted,
    alipay::{Certificate, KeyFault, Keys, Protocol, RootSerial, Unusable},
};

const ALIPAY: &str = include_str!("../certificates/alipay.crt");
const APP: &str = include_str!("../certificates/app.crt");
const ROOT: &str = include_str!("../certificates/root.crt");

const ALIPAY_SERIAL: &str = "056644b541fa211d588f74c56f6e4188";
const APP_SERIAL: &str = "d79df5527c8beb3042ed52326ca3dcdc";
const ROOT_SERIAL: &str = "056644b541fa211d588f74c56f6e4188_dedeef04bb7b5733d83b38209660f1da";

fn certificate(pem: &str) -> Certificate {
    Certificate::parse(pem).unwrap()
}

fn protocol() -> Protocol {
    let root = RootSerial::parse(ROOT).unwrap();
    let keys = Keys::certified(app_key(), &certificate(APP), certificate(ALIPAY), root).unwrap();
    Protocol::new(account(keys))
}

fn close_answer(serial: &str) -> String {
    let content = r#"{"code":"10000","out_trade_no":"HPX_0001"}"#;
    let answer = signed_answer(&alipay_key(), "alipay_trade_close_response", content);
    answer.replace(",\"sign\"", &format!("{serial},\"sign\""))
}

#[test]
fn serials_are_as_an_independent_tool_computes_them() {
    assert_eq!(certificate(ALIPAY).serial(), ALIPAY_SERIAL);
    assert_eq!(certificate(APP).serial(), APP_SERIAL);
}

#[test]
fn a_root_serial_joins_the_rsa_certificates_and_skips_the_others() {
    assert_eq!(RootSerial::parse(ROOT).unwrap().as_str(), ROOT_SERIAL);
}

#[test]
fn a_chain_file_counts_by_its_first_certificate() {
    assert_eq!(certificate(&format!("{APP}{ALIPAY}")).serial(), APP_SERIAL);
}

#[test]
fn requests_name_both_certificates() {
    let frozen = protocol().freeze_query(&payment_no(), now()).unwrap();
    let params = params(&frozen);
    assert!(params.contains(&("app_cert_sn".to_owned(), APP_SERIAL.to_owned())));
    assert!(params.contains(&("alipay_root_cert_sn".to_owned(), ROOT_SERIAL.to_owned())));
}

#[test]
fn an_answer_must_name_the_pinned_certificate() {
    let protocol = protocol();
    let frozen = protocol.freeze_close(&payment_no(), now()).unwrap();
    let read = |serial: &str| protocol.read_close(&frozen, close_answer(serial).as_bytes());
    assert_eq!(read(&format!(",\"alipay_cert_sn\":\"{ALIPAY_SERIAL}\"")), Call::Done(()));
    let other = |serial: &str| Call::Unknown(Cause::OtherCertificate(serial.to_owned()));
    assert_eq!(read(&format!(",\"alipay_cert_sn\":\"{APP_SERIAL}\"")), other(APP_SERIAL));
    assert_eq!(read(""), Call::Unknown(Cause::Unreadable("no alipay_cert_sn")));
    let cause = Cause::OtherCertificate(APP_SERIAL.to_owned()).to_string();
    assert!(cause.ends_with("install the channel's new certificate"), "{cause}");
}

#[test]
fn a_notice_may_name_the_pinned_certificate_and_no_other() {
    let judge = |serial: Option<&str>, left_out: &[&str]| {
        let params = paid_but(&[("alipay_cert_sn", serial)]);
        let body = notice_body(&alipay_key(), &params, left_out);
        protocol().verify_notice(Received { query: None, body: body.as_bytes() }).map(drop)
    };
    assert_eq!(judge(None, &["sign_type"]), Ok(()));
    assert_eq!(judge(Some(ALIPAY_SERIAL), &["sign_type", "alipay_cert_sn"]), Ok(()));
    assert_eq!(judge(Some(ALIPAY_SERIAL), &["alipay_cert_sn"]), Ok(()));
    assert_eq!(judge(Some(ALIPAY_SERIAL), &["sign_type"]), Ok(()));
    assert_eq!(judge(Some(ALIPAY_SERIAL), &[]), Ok(()));
    assert_eq!(
        judge(Some(APP_SERIAL), &["sign_type", "alipay_cert_sn"]),
        Err(Refused::Untrusted(Untrusted::OtherCertificate))
    );
}

#[test]
fn a_private_key_of_another_certificate_is_refused() {
    let root = RootSerial::parse(ROOT).unwrap();
    let keys = Keys::certified(app_key(), &certificate(ALIPAY), certificate(ALIPAY), root);
    assert_eq!(keys.err(), Some(KeyFault { key: "app private key", why: Unusable::OtherPair }));
}

#[test]
fn our_own_certificate_in_place_of_alipays_is_refused() {
    let root = RootSerial::parse(ROOT).unwrap();
    let keys = Keys::certified(app_key(), &certificate(APP), certificate(APP), root);
    assert_eq!(keys.err(), Some(KeyFault { key: "Alipay public key", why: Unusable::OwnKey }));
}
