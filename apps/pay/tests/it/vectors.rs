//! The sixteen published cases of `vectors/payments.json`, one test each.

use serde_json::Value;

use crate::stage::{alipay_key, alipay_public, app_key, case, protocol, text, yuan};
use hapax_pay::channel::{
    Cause, Event, Notice, Received, Refused, Said, Untrusted,
    alipay::{Certificate, Node, Params, Verifier, open, serial},
};

#[test]
fn request_basic_leaves_empties_out_and_encodes_only_on_the_wire() {
    let case = signs_as_published("request_basic");
    assert_eq!(params(case).signed(&app_key()).unwrap(), text(case, "wire"));
}

#[test]
fn order_by_key_not_pair_sorts_ext_before_ext1() {
    let case = signs_as_published("order_by_key_not_pair");
    assert_ne!(params(case).canonical(), text(case, "wrong_canonical"));
}

#[test]
fn spaces_kept_does_not_trim_values() {
    signs_as_published("spaces_kept");
}

#[test]
fn notify_v1_utf8_is_a_payment() {
    let notice = accepted("notify_v1_utf8");
    assert_eq!(notice.event, Event::Paid);
    assert_eq!(notice.amount, yuan("88.80"));
    assert_eq!(notice.payment_no, "HPX_0001");
    assert_eq!(notice.trade_no, "2026100122001400000000000001");
    assert_eq!(notice.notify_id, "2026100100222080031000001");
    assert_eq!(notice.subject, "会员 100% +1 & a=b");
    assert_eq!(notice.paid_at.unwrap().beijing(), "2026-10-01 08:00:30");
    signed_by_alipay("notify_v1_utf8");
}

#[test]
fn notify_v1_plus_as_space_is_repaired_in_the_signature_alone() {
    assert_eq!(accepted("notify_v1_plus_as_space"), accepted("notify_v1_utf8"));
}

#[test]
fn notify_v1_tampered_amount_is_forged() {
    assert_eq!(judged("notify_v1_tampered_amount"), Err(Refused::Untrusted(Untrusted::Forged)));
}

#[test]
fn notify_v1_duplicate_key_is_refused_before_verifying() {
    assert_eq!(judged("notify_v1_duplicate_key"), Err(Refused::Untrusted(Untrusted::Duplicate)));
}

#[test]
fn return_params_replayed_as_notify_are_no_notice_although_signed() {
    let case = signed_by_alipay("return_params_replayed_as_notify");
    assert!(
        alipay_public().verifies(text(case, "canonical").as_bytes(), text(case, "sign").as_bytes())
    );
    assert_eq!(
        judged("return_params_replayed_as_notify"),
        Err(Refused::Untrusted(Untrusted::NotANotice))
    );
}

#[test]
fn notify_v1_gbk_is_verified_over_bytes_and_transcoded_for_people() {
    assert_eq!(accepted("notify_v1_gbk"), accepted("notify_v1_utf8"));
}

#[test]
fn notify_v1_empty_value_skipped_is_valid_as_the_other_variant() {
    assert_eq!(accepted("notify_v1_empty_value_skipped"), accepted("notify_v1_utf8"));
    signed_by_alipay("notify_v1_empty_value_skipped");
}

#[test]
fn response_query_paid_is_cut_at_the_matching_brace() {
    opens_as_published("response_query_paid", &Verifier::plain(alipay_public()));
}

#[test]
fn response_cert_mode_is_valid_with_the_pinned_serial_and_with_no_other() {
    let pinned = |serial: &str| Verifier::pinned(alipay_public(), serial.to_owned());
    let named = "0123456789abcdef0123456789abcdef";
    opens_as_published("response_cert_mode", &pinned(named));
    opens_as_published("response_cert_mode", &Verifier::plain(alipay_public()));
    assert_eq!(
        opened(case("response_cert_mode"), &pinned("fedcba9876543210fedcba9876543210")),
        Err(Cause::OtherCertificate(named.to_owned()))
    );
}

#[test]
fn response_close_status_error_is_a_signed_no() {
    opens_as_published("response_close_status_error", &Verifier::plain(alipay_public()));
}

#[test]
fn response_duplicate_node_is_refused() {
    let verifier = Verifier::plain(alipay_public());
    assert_eq!(
        opened(case("response_duplicate_node"), &verifier),
        Err(Cause::Unreadable("a member twice, so that two readers could differ"))
    );
}

#[test]
fn response_error_without_sign_is_shown_and_not_believed() {
    let verifier = Verifier::plain(alipay_public());
    assert_eq!(
        opened(case("response_error_without_sign"), &verifier),
        Err(Cause::Unsigned(Said::new("isv.invalid-app-id", "无效的AppID参数")))
    );
}

#[test]
fn cert_sn_is_the_digest_of_issuer_and_decimal_number() {
    let case = case("cert_sn");
    let certificate = Certificate::parse(text(case, "pem")).unwrap();
    assert_eq!(certificate.serial(), text(case, "sn"));
    assert_eq!(serial(text(case, "issuer"), text(case, "serial_decimal")), text(case, "sn"));
}

#[test]
fn there_are_sixteen_cases() {
    assert_eq!(crate::stage::VECTORS["cases"].as_array().unwrap().len(), 16);
}

fn params(case: &Value) -> Params {
    case["params"].as_array().unwrap().iter().fold(Params::new(), |params, pair| {
        params.with(pair[0].as_str().unwrap(), pair[1].as_str().unwrap())
    })
}

fn signs_as_published(name: &str) -> &'static Value {
    let case = case(name);
    assert_eq!(params(case).canonical(), text(case, "canonical"));
    assert_eq!(app_key().sign(text(case, "canonical").as_bytes()).unwrap(), text(case, "sign"));
    case
}

fn signed_by_alipay(name: &str) -> &'static Value {
    let case = case(name);
    let sign = alipay_key().sign(text(case, "canonical").as_bytes()).unwrap();
    assert_eq!(sign, text(case, "sign"));
    case
}

fn judged(name: &str) -> Result<Notice, Refused> {
    let body = text(case(name), "body").as_bytes();
    protocol().verify_notice(Received { query: None, body })
}

fn accepted(name: &str) -> Notice {
    judged(name).unwrap()
}

fn opened(case: &'static Value, verifier: &Verifier) -> Result<&'static str, Cause> {
    match open(text(case, "raw").as_bytes(), text(case, "node"), verifier)? {
        Node::Answer(slice) | Node::Error(slice) => Ok(slice),
    }
}

fn opens_as_published(name: &str, verifier: &Verifier) {
    let case = case(name);
    assert_eq!(opened(case, verifier), Ok(text(case, "signed")));
}
