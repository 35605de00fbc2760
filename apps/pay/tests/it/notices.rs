//! What a signed notice says, and what is not acted upon although it is signed.

use crate::stage::{alipay_key, app_key, notice_body, notice_of, paid_but, protocol, yuan};
use hapax_pay::{
    channel::{Event, Mismatch, Notice, Received, Refused, Untrusted},
    money::Sum,
};

fn judge(body: &str) -> Result<Notice, Refused> {
    protocol().verify_notice(Received { query: None, body: body.as_bytes() })
}

fn event(changes: &[(&str, Option<&str>)]) -> Result<Event, Refused> {
    judge(&notice_of(changes)).map(|notice| notice.event)
}

fn quarantined(mismatch: Mismatch) -> Refused {
    Refused::Quarantined { notify_id: "2026100100222080031000001".to_owned(), mismatch }
}

#[track_caller]
fn is_quarantined(changes: &[(&str, Option<&str>)], mismatch: Mismatch) {
    assert_eq!(event(changes), Err(quarantined(mismatch)), "{changes:?}");
}

const CLOSED: (&str, Option<&str>) = ("trade_status", Some("TRADE_CLOSED"));

#[test]
fn a_payment_stays_a_payment_with_a_zero_refund_and_a_close_time() {
    let changes = [("refund_fee", Some("0.00")), ("gmt_close", Some("2026-10-01 08:30:00"))];
    assert_eq!(event(&changes), Ok(Event::Paid));
}

#[test]
fn finished_alone_is_told_as_finished() {
    assert_eq!(event(&[("trade_status", Some("TRADE_FINISHED"))]), Ok(Event::Finished));
}

#[test]
fn a_waiting_buyer_has_not_paid() {
    assert_eq!(event(&[("trade_status", Some("WAIT_BUYER_PAY"))]), Ok(Event::Waiting));
}

#[test]
fn a_refund_never_enters_the_pay_path() {
    for status in ["TRADE_SUCCESS", "TRADE_FINISHED"] {
        let body = notice_of(&[
            ("trade_status", Some(status)),
            ("refund_fee", Some("8.03")),
            ("gmt_refund", Some("2026-10-01 09:00:00.123")),
            ("out_biz_no", Some("HPX_R_0001")),
        ]);
        let notice = judge(&body).unwrap();
        assert_eq!(notice.event, Event::RefundedInPart);
        assert_eq!(notice.refunded, Sum::from(yuan("8.03")));
        assert_eq!(notice.refund_no.as_deref(), Some("HPX_R_0001"));
    }
}

#[test]
fn closed_with_all_money_back_is_refunded_and_closed_without_is_closed() {
    assert_eq!(event(&[CLOSED, ("refund_fee", Some("88.80"))]), Ok(Event::RefundedInFull));
    assert_eq!(event(&[CLOSED]), Ok(Event::Closed));
    assert_eq!(event(&[CLOSED, ("refund_fee", Some("0.00"))]), Ok(Event::Closed));
    assert_eq!(event(&[CLOSED, ("refund_fee", Some(""))]), Ok(Event::Closed));
}

#[test]
fn a_notice_in_a_foreign_charset_is_refused_and_gbk_is_not() {
    for charset in ["utf-8", "UTF-8", "gbk", "GBK", "gb2312", "GB18030", ""] {
        assert_eq!(event(&[("charset", Some(charset))]), Ok(Event::Paid), "{charset}");
    }
    assert_eq!(event(&[("charset", None)]), Ok(Event::Paid));
    for charset in ["utf-16", "utf-7", "iso-2022-jp", "shift_jis", "big5", "latin1", "x", "会"] {
        let refused = Err(Refused::Untrusted(Untrusted::ForeignCharset));
        assert_eq!(event(&[("charset", Some(charset))]), refused, "{charset}");
    }
}

#[test]
fn a_notice_that_keeps_its_sign_type_is_taken() {
    let body = notice_body(&alipay_key(), &paid_but(&[]), &[]);
    assert_eq!(judge(&body).map(|notice| notice.event), Ok(Event::Paid));
}

#[test]
fn a_notice_signed_over_its_empty_values_is_taken() {
    assert_eq!(event(&[("passback_params", Some(""))]), Ok(Event::Paid));
}

#[test]
fn a_parameter_never_seen_before_is_verified_and_ignored() {
    assert_eq!(event(&[("new_in_2027", Some("x&y=z"))]), Ok(Event::Paid));
}

#[test]
fn a_time_that_cannot_be_read_decides_nothing() {
    let notice = judge(&notice_of(&[("gmt_payment", Some("yesterday"))])).unwrap();
    assert_eq!((notice.event, notice.paid_at), (Event::Paid, None));
}

#[test]
fn each_single_mismatch_is_quarantined() {
    is_quarantined(&[("app_id", Some("2026000000000009"))], Mismatch::App);
    is_quarantined(&[("app_id", None)], Mismatch::App);
    is_quarantined(&[("seller_id", Some("2088000000000009"))], Mismatch::Seller);
    is_quarantined(&[("seller_id", None)], Mismatch::Seller);
    is_quarantined(&[("notify_type", Some("dut_user_sign"))], Mismatch::Kind);
    is_quarantined(&[("trade_status", Some("TRADE_PENDING"))], Mismatch::Status);
    is_quarantined(&[("trade_status", Some("trade_success"))], Mismatch::Status);
    is_quarantined(&[("out_trade_no", None)], Mismatch::Field("out_trade_no"));
    is_quarantined(&[("out_trade_no", Some("a b"))], Mismatch::Field("out_trade_no"));
    is_quarantined(&[("trade_no", Some(""))], Mismatch::Field("trade_no"));
}

#[test]
fn amounts_that_are_not_exact_are_quarantined() {
    for amount in ["", "0.00", "1e2", "1.001", " 1.00", "+1", "-1", "１.００", "NaN", "01"] {
        is_quarantined(&[("total_amount", Some(amount))], Mismatch::Field("total_amount"));
    }
    is_quarantined(&[("total_amount", None)], Mismatch::Field("total_amount"));
    is_quarantined(&[("refund_fee", Some("-0.01"))], Mismatch::Field("refund_fee"));
}

#[test]
fn a_refund_that_does_not_add_up_is_quarantined() {
    is_quarantined(&[("refund_fee", Some("88.81"))], Mismatch::RefundAbovePayment);
    for sign in ["gmt_refund", "out_biz_no"] {
        is_quarantined(&[(sign, Some("2026-10-01"))], Mismatch::RefundWithoutAmount);
        let zero = [(sign, Some("2026-10-01")), ("refund_fee", Some("0.00"))];
        is_quarantined(&zero, Mismatch::RefundWithoutAmount);
    }
}

#[test]
fn without_id_type_or_status_it_is_no_notice() {
    for name in ["notify_id", "notify_type", "trade_status"] {
        for value in [None, Some("")] {
            assert_eq!(event(&[(name, value)]), Err(Refused::Untrusted(Untrusted::NotANotice)));
        }
    }
}

#[test]
fn a_refund_cannot_be_hidden_in_the_value_before_it() {
    let honest = notice_of(&[("refund_fee", Some("88.80"))]);
    assert_eq!(judge(&honest).map(|notice| notice.event), Ok(Event::RefundedInFull));
    let hidden = honest
        .replace("receipt_amount=88.80", "receipt_amount=88.80%26refund_fee%3D88.80")
        .replace("&refund_fee=88.80", "");
    assert_eq!(judge(&hidden), Err(quarantined(Mismatch::Hidden("refund_fee"))));
}

#[test]
fn parameters_beside_the_body_are_refused() {
    let body = notice_of(&[]);
    let judge = |query| protocol().verify_notice(Received { query, body: body.as_bytes() });
    assert_eq!(judge(Some("a=1")), Err(Refused::Untrusted(Untrusted::QueryString)));
    assert!(judge(Some("")).is_ok());
}

#[test]
fn only_rsa2_is_taken_whatever_the_notice_says() {
    for other in ["RSA", "rsa2", "HMAC", "none", "MD5", ""] {
        let params = paid_but(&[("sign_type", Some(other))]);
        for left_out in [&["sign_type"][..], &[]] {
            assert_eq!(
                judge(&notice_body(&alipay_key(), &params, left_out)),
                Err(Refused::Untrusted(Untrusted::OtherAlgorithm)),
                "{other:?}"
            );
        }
    }
    let silent = notice_body(&alipay_key(), &paid_but(&[("sign_type", None)]), &[]);
    assert_eq!(judge(&silent), Err(Refused::Untrusted(Untrusted::OtherAlgorithm)));
}

#[test]
fn another_key_and_a_missing_signature_are_forgeries() {
    let forged = notice_body(&app_key(), &paid_but(&[]), &["sign_type"]);
    assert_eq!(judge(&forged), Err(Refused::Untrusted(Untrusted::Forged)));
    let (unsigned, _) = forged.split_once("&sign=").unwrap();
    for body in [unsigned.to_owned(), format!("{unsigned}&sign="), format!("{unsigned}&sign")] {
        assert_eq!(judge(&body), Err(Refused::Untrusted(Untrusted::Forged)));
    }
}

#[test]
fn a_blank_is_repaired_in_the_signature_and_in_no_other_value() {
    let with_plus = judge(&notice_of(&[("subject", Some("1+1"))])).unwrap();
    assert_eq!(with_plus.subject, "1+1");
    let relayed = notice_of(&[("subject", Some("1+1"))]).replace("1%2B1", "1+1");
    assert_eq!(judge(&relayed), Err(Refused::Untrusted(Untrusted::Forged)));
}

#[test]
fn bodies_that_are_no_forms_are_refused_in_words() {
    for body in [&b""[..], b"\xff\xfe", b"{\"a\":1}", b"a=%", b"%00=1", &[b'a'; 100_000]] {
        let refused = protocol().verify_notice(Received { query: None, body }).unwrap_err();
        assert!(matches!(refused, Refused::Untrusted(_)), "{refused}");
        assert!(refused.to_string().starts_with("the notification"), "{refused}");
    }
}
