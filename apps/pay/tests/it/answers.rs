//! What a signed answer amounts to on each call, and that an unsigned one amounts to nothing.

use crate::stage::{
    alipay_key, app_key, case, now, payment_no, protocol, purchase, refund, refund_no,
    signed_answer, text, yuan,
};
use hapax_pay::{
    channel::{
        Call, Cause, Meaning, PayData, RefundSeen, RefundTaken, Refusal, Said, Trade, TradeSeen,
        TradeStatus, Way,
    },
    money::Sum,
};

fn signed(node: &str, content: &str) -> Vec<u8> {
    signed_answer(&alipay_key(), node, content).into_bytes()
}

fn no(code: &str, sub_code: &str) -> String {
    format!(r#"{{"code":"{code}","msg":"no","sub_code":"{sub_code}","sub_msg":"because"}}"#)
}

fn prepared(raw: &[u8]) -> Call<PayData> {
    let protocol = protocol();
    protocol.read_prepare(&protocol.freeze_purchase(&purchase(Way::Code), now()).unwrap(), raw)
}

fn queried(raw: &[u8]) -> Call<TradeSeen> {
    let protocol = protocol();
    protocol.read_query(&protocol.freeze_query(&payment_no(), now()).unwrap(), raw)
}

fn closed(raw: &[u8]) -> Call<()> {
    let protocol = protocol();
    protocol.read_close(&protocol.freeze_close(&payment_no(), now()).unwrap(), raw)
}

fn refunded(content: &str) -> Call<RefundTaken> {
    let protocol = protocol();
    let frozen = protocol.freeze_refund(&refund(), now()).unwrap();
    protocol.read_refund(&frozen, &signed("alipay_trade_refund_response", content))
}

fn refund_seen(content: &str) -> Call<RefundSeen> {
    let protocol = protocol();
    let frozen = protocol.freeze_refund_query(&payment_no(), &refund_no(), now()).unwrap();
    let node = "alipay_trade_fastpay_refund_query_response";
    protocol.read_refund_query(&frozen, &signed(node, content))
}

const QUERY: &str = "alipay_trade_query_response";
const CLOSE: &str = "alipay_trade_close_response";
const PRECREATE: &str = "alipay_trade_precreate_response";

#[test]
fn a_prepared_payment_has_a_code_to_draw() {
    let content = r#"{"code":"10000","out_trade_no":"HPX_0001","qr_code":"https://qr.example/x"}"#;
    assert_eq!(
        prepared(&signed(PRECREATE, content)),
        Call::Done(PayData::Code("https://qr.example/x".to_owned()))
    );
    let without = r#"{"code":"10000","out_trade_no":"HPX_0001"}"#;
    assert_eq!(
        prepared(&signed(PRECREATE, without)),
        Call::Unknown(Cause::Unreadable("no qr_code"))
    );
}

#[test]
fn the_published_query_finds_a_paid_trade() {
    let raw = text(case("response_query_paid"), "raw");
    assert_eq!(
        queried(raw.as_bytes()),
        Call::Done(TradeSeen::Found(Trade {
            trade_no: "2026100122001400000000000001".to_owned(),
            status: TradeStatus::Paid,
            amount: yuan("88.80"),
            paid_at: None,
        }))
    );
}

#[test]
fn each_trade_status_is_told_apart_and_a_new_one_is_unknown() {
    let seen = |status: &str| {
        let content = format!(
            r#"{{"code":"10000","out_trade_no":"HPX_0001","trade_no":"1","trade_status":"{status}",
            "total_amount":"88.80","send_pay_date":"2026-10-01 08:00:30"}}"#
        );
        match queried(&signed(QUERY, &content)) {
            Call::Done(TradeSeen::Found(trade)) => {
                assert_eq!(trade.paid_at.unwrap().beijing(), "2026-10-01 08:00:30");
                Ok(trade.status)
            }
            other => Err(other),
        }
    };
    assert_eq!(seen("WAIT_BUYER_PAY"), Ok(TradeStatus::Waiting));
    assert_eq!(seen("TRADE_SUCCESS"), Ok(TradeStatus::Paid));
    assert_eq!(seen("TRADE_FINISHED"), Ok(TradeStatus::Finished));
    assert_eq!(seen("TRADE_CLOSED"), Ok(TradeStatus::Closed));
    let unknown = Call::Unknown(Cause::Unreadable("an unknown trade_status"));
    assert_eq!(seen("TRADE_PENDING"), Err(unknown));
}

#[test]
fn a_trade_that_nobody_scanned_is_missing_on_query_and_not_closed_on_close() {
    let content = no("40004", "ACQ.TRADE_NOT_EXIST");
    assert_eq!(queried(&signed(QUERY, &content)), Call::Done(TradeSeen::Missing));
    let said = Said::new("ACQ.TRADE_NOT_EXIST", "because");
    let not_seen = Refusal { meaning: Meaning::NotSeen, said };
    assert_eq!(closed(&signed(CLOSE, &content)), Call::Refused(not_seen));
}

#[test]
fn the_published_close_is_done() {
    let raw = text(case("response_cert_mode"), "raw");
    assert_eq!(closed(raw.as_bytes()), Call::Done(()));
}

#[test]
fn the_published_close_of_a_paid_trade_says_ask() {
    let raw = text(case("response_close_status_error"), "raw");
    let said = Said::new("ACQ.TRADE_STATUS_ERROR", "交易状态不合法");
    assert_eq!(closed(raw.as_bytes()), Call::Refused(Refusal { meaning: Meaning::Ask, said }));
}

#[test]
fn a_refund_counts_only_when_money_moved() {
    let answer =
        |rest: &str| refunded(&format!(r#"{{"code":"10000","out_trade_no":"HPX_0001"{rest}}}"#));
    assert_eq!(
        answer(r#","fund_change":"Y","refund_fee":"8.03""#),
        Call::Done(RefundTaken::Moved { refunded: Sum::from(yuan("8.03")) })
    );
    assert_eq!(answer(r#","fund_change":"N","refund_fee":"8.03""#), Call::Done(RefundTaken::Ask));
    assert_eq!(answer(""), Call::Done(RefundTaken::Ask));
    assert_eq!(answer(r#","fund_change":"Y""#), Call::Unknown(Cause::Unreadable("no refund_fee")));
}

#[test]
fn a_refund_query_without_data_has_found_nothing() {
    assert_eq!(refund_seen(r#"{"code":"10000","msg":"Success"}"#), Call::Done(RefundSeen::Missing));
    let echo = r#"{"code":"10000","out_trade_no":"HPX_0001","out_request_no":"HPX_R_0001"}"#;
    assert_eq!(refund_seen(echo), Call::Done(RefundSeen::Missing));
}

#[test]
fn a_refund_query_with_data_has_found_the_refund() {
    let answer = |number: &str, status: &str| {
        refund_seen(&format!(
            r#"{{"code":"10000","out_trade_no":"HPX_0001","trade_no":"1","total_amount":"88.80",
            "out_request_no":"{number}","refund_amount":"8.03",
            "gmt_refund_pay":"2026-10-01 09:00:00"{status}}}"#
        ))
    };
    for status in ["", r#","refund_status":"""#, r#","refund_status":"REFUND_SUCCESS""#] {
        let Call::Done(RefundSeen::Made { amount, made_at }) = answer("HPX_R_0001", status) else {
            panic!("{status}")
        };
        assert_eq!(
            (amount, made_at.unwrap().beijing().as_str()),
            (yuan("8.03"), "2026-10-01 09:00:00")
        );
    }
    assert_eq!(answer("HPX_R_0002", ""), Call::Unknown(Cause::Astray));
    assert_eq!(
        answer("HPX_R_0001", r#","refund_status":"REFUND_FAIL""#),
        Call::Unknown(Cause::Unreadable("an unknown refund_status"))
    );
}

#[test]
fn what_the_channel_does_not_know_is_unknown_here() {
    for (code, sub_code) in [
        ("20000", "isp.unknow-error"),
        ("40004", "ACQ.SYSTEM_ERROR"),
        ("40004", "AQC.SYSTEM_ERROR"),
    ] {
        let undecided = || Cause::Undecided(Said::new(sub_code, "because"));
        let content = no(code, sub_code);
        assert_eq!(prepared(&signed(PRECREATE, &content)), Call::Unknown(undecided()));
        assert_eq!(queried(&signed(QUERY, &content)), Call::Unknown(undecided()));
        assert_eq!(closed(&signed(CLOSE, &content)), Call::Unknown(undecided()));
        assert_eq!(refunded(&content), Call::Unknown(undecided()));
        assert_eq!(refund_seen(&content), Call::Unknown(undecided()));
    }
}

#[test]
fn a_code_that_is_not_in_the_table_is_unknown() {
    let unlisted = Cause::Unlisted(Said::new("ACQ.NEW_IN_2027", "because"));
    assert_eq!(refunded(&no("40004", "ACQ.NEW_IN_2027")), Call::Unknown(unlisted));
}

#[test]
fn a_signed_gateway_error_ends_a_purchase_and_leaves_a_refund_unknown() {
    let content = no("40002", "isv.invalid-signature");
    let said = || Said::new("isv.invalid-signature", "because");
    assert_eq!(
        prepared(&signed("error_response", &content)),
        Call::Refused(Refusal { meaning: Meaning::Misconfigured, said: said() })
    );
    assert_eq!(refunded(&content), Call::Unknown(Cause::TurnedAway(said())));
}

#[test]
fn an_error_node_never_succeeds() {
    let content = r#"{"code":"10000","out_trade_no":"HPX_0001","qr_code":"x"}"#;
    assert_eq!(
        prepared(&signed("error_response", content)),
        Call::Unknown(Cause::Unreadable("an error that claims success"))
    );
}

#[test]
fn an_unsigned_error_is_unknown_on_every_call_and_keeps_its_words() {
    let raw = text(case("response_error_without_sign"), "raw").as_bytes();
    let unsigned = || Cause::Unsigned(Said::new("isv.invalid-app-id", "无效的AppID参数"));
    assert_eq!(prepared(raw), Call::Unknown(unsigned()));
    assert_eq!(queried(raw), Call::Unknown(unsigned()));
    assert_eq!(closed(raw), Call::Unknown(unsigned()));
    let empty = format!(r#"{{"{CLOSE}":{},"sign":""}}"#, no("40004", "ACQ.TRADE_STATUS_ERROR"));
    assert!(matches!(closed(empty.as_bytes()), Call::Unknown(Cause::Unsigned(_))));
}

#[test]
fn an_answer_signed_by_another_key_is_forged() {
    let content = r#"{"code":"10000","out_trade_no":"HPX_0001"}"#;
    let raw = signed_answer(&app_key(), CLOSE, content);
    assert_eq!(closed(raw.as_bytes()), Call::Unknown(Cause::Forged));
}

#[test]
fn a_signed_answer_about_another_trade_or_method_is_not_taken() {
    let other = r#"{"code":"10000","out_trade_no":"HPX_0002"}"#;
    assert_eq!(closed(&signed(CLOSE, other)), Call::Unknown(Cause::Astray));
    let refusal =
        r#"{"code":"40004","sub_code":"ACQ.TRADE_STATUS_ERROR","out_trade_no":"HPX_0002"}"#;
    assert_eq!(closed(&signed(CLOSE, refusal)), Call::Unknown(Cause::Astray));
    let query = text(case("response_query_paid"), "raw").as_bytes();
    assert_eq!(closed(query), Call::Unknown(Cause::Unreadable("no node for the method")));
}

#[test]
fn what_was_done_to_an_unnamed_trade_is_unknown() {
    let unnamed = || Cause::Unreadable("no out_trade_no");
    let silent = r#"{"code":"10000","qr_code":"x","fund_change":"Y","refund_fee":"8.03",
        "trade_no":"1","out_request_no":"HPX_R_0001","refund_amount":"8.03",
        "trade_status":"TRADE_SUCCESS","total_amount":"88.80"}"#;
    assert_eq!(prepared(&signed(PRECREATE, silent)), Call::Unknown(unnamed()));
    assert_eq!(queried(&signed(QUERY, silent)), Call::Unknown(unnamed()));
    assert_eq!(closed(&signed(CLOSE, silent)), Call::Unknown(unnamed()));
    assert_eq!(refunded(silent), Call::Unknown(unnamed()));
    assert_eq!(refund_seen(silent), Call::Unknown(unnamed()));
}

#[test]
fn an_answer_with_needless_members_is_taken_and_one_with_far_too_many_is_not() {
    let raw = String::from_utf8(signed(CLOSE, r#"{"code":"10000","out_trade_no":"HPX_0001"}"#));
    let raw = raw.unwrap();
    let with = |extra: usize| {
        let members: Vec<_> = (0..extra).map(|n| format!(",\"extra{n}\":{n}")).collect();
        closed(format!("{}{}}}", raw.strip_suffix('}').unwrap(), members.concat()).as_bytes())
    };
    assert_eq!(with(14), Call::Done(()));
    assert_eq!(with(15), Call::Unknown(Cause::Unreadable("no JSON object")));
}

#[test]
fn a_signature_inside_the_node_signs_nothing() {
    let sign = alipay_key().sign(br#"{"code":"10000","out_trade_no":"HPX_0001"}"#).unwrap();
    let raw =
        format!(r#"{{"{CLOSE}":{{"code":"10000","out_trade_no":"HPX_0001","sign":"{sign}"}}}}"#);
    assert!(matches!(closed(raw.as_bytes()), Call::Unknown(Cause::Unsigned(_))));
}

#[test]
fn members_that_come_twice_are_refused_however_they_are_spelt() {
    let twice =
        Call::Unknown(Cause::Unreadable("a member twice, so that two readers could differ"));
    let raw = String::from_utf8(signed(CLOSE, r#"{"code":"10000","out_trade_no":"HPX_0001"}"#));
    let raw = raw.unwrap();
    let open = raw.strip_suffix('}').unwrap();
    for extra in [
        r#""sign":"x""#,
        r#""alipay_trade_close_response":{}"#,
        r#""alipay_trade_close_respons\u0065":{"code":"10000"}"#,
    ] {
        assert_eq!(closed(format!("{open},{extra}}}").as_bytes()), twice, "{extra}");
    }
    let both = format!(r#"{open},"error_response":{{}}}}"#);
    let why = Cause::Unreadable("both an answer and an error");
    assert_eq!(closed(both.as_bytes()), Call::Unknown(why));
}

#[test]
fn a_field_that_comes_twice_inside_the_node_is_refused() {
    let content = r#"{"code":"40004","code":"10000","out_trade_no":"HPX_0001"}"#;
    assert_eq!(
        closed(&signed(CLOSE, content)),
        Call::Unknown(Cause::Unreadable("a node of another shape"))
    );
}

#[test]
fn what_is_no_answer_is_unknown() {
    for raw in [
        &b""[..],
        b"<html>502</html>",
        b"null",
        b"[]",
        b"{}",
        b"{\"alipay_trade_close_response\":\"c2VjcmV0\",\"sign\":\"x\"}",
        b"\xbb\xe1",
        b"{\"alipay_trade_close_response\":{\"code\":\"10000\"",
    ] {
        assert!(matches!(closed(raw), Call::Unknown(Cause::Unreadable(_))), "{raw:?}");
    }
    let deep = format!("{{\"alipay_trade_close_response\":{}", "[".repeat(200_000));
    assert!(matches!(closed(deep.as_bytes()), Call::Unknown(_)));
}

#[test]
fn an_answer_is_read_only_as_the_answer_to_its_own_question() {
    let protocol = protocol();
    let frozen = protocol.freeze_query(&payment_no(), now()).unwrap();
    let raw = text(case("response_cert_mode"), "raw").as_bytes();
    assert_eq!(protocol.read_close(&frozen, raw), Call::Unknown(Cause::Unsendable));
}
