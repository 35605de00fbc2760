//! Keys in every dress, and the set-ups that are refused at start.

use crate::stage::{APP_ID, SELLER_ID, account, alipay_public, app_key, key_text};
use hapax_pay::channel::alipay::{
    Account, AccountFault, KeyFault, Keys, PrivateKey, PublicKey, Unusable,
};

const SHORT: &str = include_str!("../keys/short.pem");
const SHORT_PUBLIC: &str = include_str!("../keys/short-public.pem");
const ELLIPTIC: &str = include_str!("../keys/elliptic.pem");
const ELLIPTIC_PUBLIC: &str = include_str!("../keys/elliptic-public.pem");
const ENCRYPTED: &str = include_str!("../keys/encrypted.pem");

fn bare(pem: &str) -> String {
    pem.lines().filter(|line| !line.starts_with("-----")).collect()
}

fn private(text: &str) -> Result<PrivateKey, Unusable> {
    PrivateKey::parse(&text.into()).map_err(|fault| fault.why)
}

fn public(text: &str) -> Result<PublicKey, Unusable> {
    PublicKey::parse(text).map_err(|fault| fault.why)
}

#[test]
fn a_private_key_is_read_from_both_formats_in_every_dress() {
    let pkcs8 = key_text("app_private_pkcs8");
    let pkcs1 = key_text("app_private_pkcs1");
    let expected = app_key().sign(b"x").unwrap();
    for text in [
        pkcs8.to_owned(),
        pkcs1.to_owned(),
        bare(pkcs8),
        bare(pkcs1),
        pkcs8.replace('\n', "\r\n"),
        pkcs8.replace('\n', " \u{a0}\u{200b}\t\n"),
        format!("\u{feff}\n  {pkcs1}\n\n"),
        pkcs8.replace('\n', "\\n"),
    ] {
        assert_eq!(private(&text).unwrap().sign(b"x").unwrap(), expected);
    }
}

#[test]
fn a_public_key_is_read_in_every_dress() {
    let pem = key_text("alipay_public");
    for text in [pem.to_owned(), bare(pem), pem.replace('\n', "\r\n "), format!(" {} ", bare(pem))]
    {
        assert_eq!(public(&text).unwrap().fingerprint(), alipay_public().fingerprint());
    }
}

#[test]
fn a_key_that_cannot_serve_is_named_for_what_it_is() {
    let pkcs8 = key_text("app_private_pkcs8");
    let spki = key_text("alipay_public");
    assert_eq!(private("").err(), Some(Unusable::Empty));
    assert_eq!(private(spki).err(), Some(Unusable::Kind("a public key")));
    assert_eq!(private(&bare(spki)).err(), Some(Unusable::Kind("a public key")));
    assert_eq!(private(SHORT).err(), Some(Unusable::NotRsa));
    assert_eq!(private(ELLIPTIC).err(), Some(Unusable::NotRsa));
    assert_eq!(private(ENCRYPTED).err(), Some(Unusable::Encrypted));
    assert_eq!(private(&bare(pkcs8)[..800]).err(), Some(Unusable::NotRsa));
    assert_eq!(public(pkcs8).err(), Some(Unusable::Kind("a private key")));
    assert_eq!(public(&bare(pkcs8)).err(), Some(Unusable::Kind("a private key")));
    assert_eq!(public(SHORT_PUBLIC).err(), Some(Unusable::TooShort));
    assert_eq!(public(ELLIPTIC_PUBLIC).err(), Some(Unusable::NotRsa));
    assert_eq!(public("钥匙").err(), Some(Unusable::NotBase64));
}

#[test]
fn a_fault_says_which_key_and_what_to_do() {
    let fault = PrivateKey::parse(&"".into()).unwrap_err();
    assert_eq!(fault.to_string(), "the app private key is empty, give it as PEM or base64");
    let fault = PublicKey::parse(SHORT_PUBLIC).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the Alipay public key has fewer than 2048 bits, make a longer one"
    );
}

#[test]
fn our_own_public_key_in_place_of_alipays_is_refused() {
    let own = PublicKey::parse(key_text("app_public")).unwrap();
    assert_eq!(
        Keys::plain(app_key(), own).err(),
        Some(KeyFault { key: "Alipay public key", why: Unusable::OwnKey })
    );
    assert!(Keys::plain(app_key(), alipay_public()).is_ok());
}

#[test]
fn an_account_that_cannot_work_is_refused() {
    let new = |app: &str, seller: &str, notify: &str| {
        let keys = Keys::plain(app_key(), alipay_public()).unwrap();
        Account::new(app, seller, notify, keys).err()
    };
    let notify = "https://shop.example/notify";
    assert_eq!(new(APP_ID, SELLER_ID, notify), None);
    assert_eq!(new("", SELLER_ID, notify), Some(AccountFault::AppId));
    assert_eq!(new("2026 1", SELLER_ID, notify), Some(AccountFault::AppId));
    assert_eq!(new(APP_ID, "seller@shop.example", notify), Some(AccountFault::SellerId));
    for notify in ["", "shop.example", "https://", "https://shop.example/a?b=1", "https://a b/"] {
        assert_eq!(new(APP_ID, SELLER_ID, notify), Some(AccountFault::NotifyUrl), "{notify}");
    }
    let long = format!("https://shop.example/{}", "a".repeat(256));
    assert_eq!(new(APP_ID, SELLER_ID, &long), Some(AccountFault::NotifyUrl));
    let keys = Keys::plain(app_key(), alipay_public()).unwrap();
    assert_eq!(account(keys).returning_to(&long).err(), Some(AccountFault::ReturnUrl));
}
