//! What goes out: every parameter, the signature over it, and the same bytes for the same content.

use crate::stage::{
    APP_ID, account, alipay_public, app_key, now, params, payment_no, protocol, purchase, refund,
    refund_no,
};
use hapax_pay::{
    beijing::Moment,
    channel::{Frozen, PayData, Subject, Unfit, Way, alipay::Protocol},
};

fn value(frozen: &Frozen, name: &str) -> Option<String> {
    let params = params(frozen);
    let mut found = params.into_iter().filter(|(key, _)| key == name);
    let first = found.next();
    assert!(found.next().is_none(), "{name} occurs twice");
    first.map(|(_, value)| value)
}

fn content(frozen: &Frozen) -> String {
    value(frozen, "biz_content").unwrap()
}

/// Every request out there carries these, and a signature over all it carries.
#[track_caller]
fn is_well_formed(frozen: &Frozen, method: &str) {
    for (name, expected) in [
        ("app_id", APP_ID),
        ("method", method),
        ("format", "JSON"),
        ("charset", "utf-8"),
        ("sign_type", "RSA2"),
        ("timestamp", "2026-10-01 08:00:00"),
        ("version", "1.0"),
    ] {
        assert_eq!(value(frozen, name).as_deref(), Some(expected), "{name}");
    }
    let mut signed = params(frozen);
    signed.retain(|(name, _)| name != "sign");
    signed.sort();
    let text: Vec<_> = signed.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let sign = app_key().sign(text.join("&").as_bytes()).unwrap();
    assert_eq!(value(frozen, "sign"), Some(sign));
}

#[test]
fn a_purchase_by_code_is_a_precreate() {
    let frozen = protocol().freeze_purchase(&purchase(Way::Code), now()).unwrap();
    is_well_formed(&frozen, "alipay.trade.precreate");
    assert_eq!(
        content(&frozen),
        "{\"out_trade_no\":\"HPX_0001\",\"total_amount\":\"88.80\",\
         \"subject\":\"会员 100% +1 & a=b\",\"time_expire\":\"2026-10-01 08:30:00\"}"
    );
    assert_eq!(
        value(&frozen, "notify_url").as_deref(),
        Some("https://shop.example/v1/notify/alipay")
    );
    assert_eq!(value(&frozen, "return_url"), None);
    assert!(!Protocol::is_page(&frozen));
}

#[test]
fn a_purchase_by_page_names_its_product_and_the_way_back() {
    let keys = hapax_pay::channel::alipay::Keys::plain(app_key(), alipay_public()).unwrap();
    let account = account(keys).returning_to("https://shop.example/orders/7?paid=1").unwrap();
    let frozen = Protocol::new(account).freeze_purchase(&purchase(Way::Page), now()).unwrap();
    is_well_formed(&frozen, "alipay.trade.page.pay");
    assert_eq!(
        content(&frozen),
        "{\"out_trade_no\":\"HPX_0001\",\"total_amount\":\"88.80\",\
         \"subject\":\"会员 100% +1 & a=b\",\"product_code\":\"FAST_INSTANT_TRADE_PAY\",\
         \"time_expire\":\"2026-10-01 08:30:00\"}"
    );
    assert_eq!(
        value(&frozen, "return_url").as_deref(),
        Some("https://shop.example/orders/7?paid=1")
    );
    assert!(Protocol::is_page(&frozen));
}

#[tokio::test]
async fn a_page_is_a_signed_address_and_no_call() {
    use hapax_pay::channel::{
        Call, Channel as _,
        alipay::{Alipay, Gateway, Patience},
    };
    let gateway = Gateway::new("http://127.0.0.1:9/gateway.do", Patience::default()).unwrap();
    let channel = Alipay::new(protocol(), gateway);
    let frozen = channel.freeze_purchase(&purchase(Way::Page), now()).unwrap();
    let Call::Done(PayData::Page(page)) = channel.prepare(&frozen).await else { panic!() };
    let (address, query) = page.split_once('?').unwrap();
    assert_eq!(address, "http://127.0.0.1:9/gateway.do");
    assert_eq!(query.as_bytes(), frozen.as_bytes());
}

#[test]
fn query_and_close_name_the_payment() {
    let query = protocol().freeze_query(&payment_no(), now()).unwrap();
    is_well_formed(&query, "alipay.trade.query");
    assert_eq!(content(&query), "{\"out_trade_no\":\"HPX_0001\"}");
    let close = protocol().freeze_close(&payment_no(), now()).unwrap();
    is_well_formed(&close, "alipay.trade.close");
    assert_eq!(content(&close), "{\"out_trade_no\":\"HPX_0001\"}");
    assert_eq!(value(&close, "notify_url"), None);
}

#[test]
fn a_refund_always_has_its_number() {
    let frozen = protocol().freeze_refund(&refund(), now()).unwrap();
    is_well_formed(&frozen, "alipay.trade.refund");
    assert_eq!(
        content(&frozen),
        "{\"out_trade_no\":\"HPX_0001\",\"refund_amount\":\"8.03\",\
         \"out_request_no\":\"HPX_R_0001\"}"
    );
    let query = protocol().freeze_refund_query(&payment_no(), &refund_no(), now()).unwrap();
    is_well_formed(&query, "alipay.trade.fastpay.refund.query");
    assert_eq!(
        content(&query),
        "{\"out_trade_no\":\"HPX_0001\",\"out_request_no\":\"HPX_R_0001\"}"
    );
}

#[test]
fn freezing_again_gives_the_same_bytes() {
    let freeze = || protocol().freeze_purchase(&purchase(Way::Code), now()).unwrap();
    assert_eq!(freeze(), freeze());
    assert_eq!(Frozen::from_bytes(freeze().as_bytes().to_vec()), freeze());
}

#[test]
fn what_has_expired_is_not_frozen() {
    let late = Moment::parse_beijing("2026-10-01 08:30:00").unwrap();
    assert_eq!(protocol().freeze_purchase(&purchase(Way::Code), late), Err(Unfit::Expired));
}

#[test]
fn a_subject_that_could_be_read_as_a_parameter_is_not_frozen() {
    let hiding = |subject: &str| {
        let mut purchase = purchase(Way::Code);
        purchase.subject = Subject::parse(subject).unwrap();
        protocol().freeze_purchase(&purchase, now()).err()
    };
    assert_eq!(hiding("x&refund_fee=88.80"), Some(Unfit::SubjectAmbiguous));
    assert_eq!(hiding("a & b = c &d=e"), None);
}
