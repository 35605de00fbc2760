//! What the tests stand on: the vectors' keys, an account that uses them, and a signing Alipay.

use std::{env, process::Command, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use form_urlencoded::Serializer;
use serde_json::Value;

use hapax_pay::{
    beijing::Moment,
    channel::{
        Frozen, PaymentNo, Purchase, Refund, RefundNo, Subject, Way,
        alipay::{Account, Keys, PrivateKey, Protocol, PublicKey},
    },
    money::{Amount, Currency},
};

pub(crate) const APP_ID: &str = "2026000000000001";
pub(crate) const SELLER_ID: &str = "2088000000000002";

pub(crate) static VECTORS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../vectors/payments.json")).unwrap());

/// The vector called `name`.
pub(crate) fn case(name: &str) -> &'static Value {
    let cases = VECTORS["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap()
}

pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("the vector has no {name}"))
}

pub(crate) fn key_text(name: &str) -> &'static str {
    text(&VECTORS["keys"], name)
}

pub(crate) fn app_key() -> PrivateKey {
    PrivateKey::parse(&key_text("app_private_pkcs8").into()).unwrap()
}

pub(crate) fn alipay_key() -> PrivateKey {
    PrivateKey::parse(&key_text("alipay_private_pkcs8").into()).unwrap()
}

pub(crate) fn alipay_public() -> PublicKey {
    PublicKey::parse(key_text("alipay_public")).unwrap()
}

pub(crate) fn account(keys: Keys) -> Account {
    Account::new(APP_ID, SELLER_ID, "https://shop.example/v1/notify/alipay", keys).unwrap()
}

pub(crate) fn protocol() -> Protocol {
    Protocol::new(account(Keys::plain(app_key(), alipay_public()).unwrap()))
}

pub(crate) fn now() -> Moment {
    Moment::parse_beijing("2026-10-01 08:00:00").unwrap()
}

pub(crate) fn payment_no() -> PaymentNo {
    PaymentNo::parse("HPX_0001").unwrap()
}

pub(crate) fn refund_no() -> RefundNo {
    RefundNo::parse("HPX_R_0001").unwrap()
}

pub(crate) fn yuan(text: &str) -> Amount {
    Amount::parse(text, Currency::Cny).unwrap()
}

pub(crate) fn purchase(way: Way) -> Purchase {
    Purchase {
        payment_no: payment_no(),
        amount: yuan("88.80"),
        currency: Currency::Cny,
        subject: Subject::parse("会员 100% +1 & a=b").unwrap(),
        expires_at: Moment::parse_beijing("2026-10-01 08:30:00").unwrap(),
        way,
    }
}

pub(crate) fn refund() -> Refund {
    Refund {
        payment_no: payment_no(),
        refund_no: refund_no(),
        amount: yuan("8.03"),
        currency: Currency::Cny,
    }
}

/// The parameters of a frozen request, decoded.
pub(crate) fn params(frozen: &Frozen) -> Vec<(String, String)> {
    form_urlencoded::parse(frozen.as_bytes()).into_owned().collect()
}

/// An answer as Alipay would give it, signed with `key`.
pub(crate) fn signed_answer(key: &PrivateKey, node: &str, content: &str) -> String {
    let sign = key.sign(content.as_bytes()).unwrap();
    format!(r#"{{"{node}":{content},"sign":"{sign}"}}"#)
}

/// Notice parameters of an ordinary payment.
pub(crate) const PAID: &[(&str, &str)] = &[
    ("gmt_create", "2026-10-01 08:00:02"),
    ("charset", "utf-8"),
    ("gmt_payment", "2026-10-01 08:00:30"),
    ("notify_time", "2026-10-01 08:00:31"),
    ("subject", "会员 100% +1 & a=b"),
    ("version", "1.0"),
    ("notify_id", "2026100100222080031000001"),
    ("notify_type", "trade_status_sync"),
    ("out_trade_no", "HPX_0001"),
    ("total_amount", "88.80"),
    ("trade_status", "TRADE_SUCCESS"),
    ("trade_no", "2026100122001400000000000001"),
    ("auth_app_id", APP_ID),
    ("receipt_amount", "88.80"),
    ("app_id", APP_ID),
    ("seller_id", SELLER_ID),
    ("sign_type", "RSA2"),
];

/// `PAID` with some parameters set otherwise, or left out where the value is nothing.
pub(crate) fn paid_but(changes: &[(&str, Option<&str>)]) -> Vec<(String, String)> {
    let mut params: Vec<(String, String)> =
        PAID.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for (key, value) in changes {
        params.retain(|(name, _)| name != key);
        if let Some(value) = value {
            params.push(((*key).to_owned(), (*value).to_owned()));
        }
    }
    params
}

/// A notice body over `params`, signed with `key` over all but those named in `left_out`.
pub(crate) fn notice_body(
    key: &PrivateKey,
    params: &[(String, String)],
    left_out: &[&str],
) -> String {
    let mut sorted: Vec<_> =
        params.iter().filter(|(name, _)| !left_out.contains(&name.as_str())).collect();
    sorted.sort();
    let signed: Vec<_> = sorted.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let sign = key.sign(signed.join("&").as_bytes()).unwrap();
    Serializer::new(String::new()).extend_pairs(params).append_pair("sign", &sign).finish()
}

/// The notice body that Alipay would send for `PAID` with some changes.
pub(crate) fn notice_of(changes: &[(&str, Option<&str>)]) -> String {
    notice_body(&alipay_key(), &paid_but(changes), &["sign_type"])
}

pub(crate) fn decoded_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Runs one test of this very binary again, as a child with another environment.
pub(crate) fn passes_with(test: &str, environment: &[(&str, &str)]) {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{environment:?}: {printed}");
    assert!(printed.contains("1 passed"), "{printed}");
}

/// `SplitMix64`: small, seeded, the same on every machine.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.roll() % bound).unwrap()
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.roll().to_le_bytes()[0]
    }
}

/// Breaks `bytes` somewhere: a bit, a byte more, a byte less, or the rest.
pub(crate) fn scratch(dice: &mut Dice, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(dice.byte());
    }
    let at = dice.below(bytes.len());
    match dice.below(4) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes.insert(at, dice.byte()),
        2 => drop(bytes.remove(at)),
        _ => bytes.truncate(at),
    }
}
