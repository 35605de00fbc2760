//! Who we are to Alipay: ids, addresses and keys.
//!
//! Invariant: an [`Account`] can work. Keys sign and verify, Alipay's key is not our own, and the
//! notify address has nothing that no signature covers. Held by the tests in `tests/it/keys.rs`.

use super::{
    certificate::{Certificate, RootSerial},
    key::{KeyFault, PrivateKey, PublicKey, Unusable, Verifier},
    wire::Params,
};

/// What Alipay takes in an address parameter.
const ADDRESS_BYTES_MAX: usize = 256;

/// More than any id of Alipay's has.
const ID_BYTES_MAX: usize = 64;

/// One merchant account.
#[derive(Debug)]
pub struct Account {
    pub(super) app_id: String,
    pub(super) seller_id: String,
    pub(super) notify_url: String,
    pub(super) return_url: Option<String>,
    pub(super) keys: Keys,
}

impl Account {
    /// Puts an account together from the ids of app and seller, the address for notifications and
    /// the keys.
    pub fn new(
        app_id: &str,
        seller_id: &str,
        notify_url: &str,
        keys: Keys,
    ) -> Result<Self, AccountFault> {
        if !is_id(app_id) {
            return Err(AccountFault::AppId);
        }
        if !is_id(seller_id) {
            return Err(AccountFault::SellerId);
        }
        if !is_address(notify_url) || notify_url.contains('?') {
            return Err(AccountFault::NotifyUrl);
        }
        Ok(Self {
            app_id: app_id.to_owned(),
            seller_id: seller_id.to_owned(),
            notify_url: notify_url.to_owned(),
            return_url: None,
            keys,
        })
    }

    /// Sends buyers back to `return_url` after they have paid on Alipay's page.
    pub fn returning_to(mut self, return_url: &str) -> Result<Self, AccountFault> {
        if !is_address(return_url) {
            return Err(AccountFault::ReturnUrl);
        }
        self.return_url = Some(return_url.to_owned());
        Ok(self)
    }

    /// The app that notices must be for.
    pub fn app_id(&self) -> &str {
        &self.app_id
    }

    /// The seller that the money must go to.
    pub fn seller_id(&self) -> &str {
        &self.seller_id
    }

    /// Whose word is taken.
    pub const fn verifier(&self) -> &Verifier {
        &self.keys.verifier
    }
}

/// The keys of an account; they have been tried out.
#[derive(Debug)]
pub struct Keys {
    pub(super) app: PrivateKey,
    pub(super) verifier: Verifier,
    serials: Option<Serials>,
}

/// What requests say of the certificates, in certificate mode.
#[derive(Debug)]
struct Serials {
    app: String,
    root: RootSerial,
}

impl Keys {
    /// Key mode: our private key and Alipay's public key.
    pub fn plain(app: PrivateKey, alipay: PublicKey) -> Result<Self, KeyFault> {
        check(&app, &alipay)?;
        Ok(Self { app, verifier: Verifier::plain(alipay), serials: None })
    }

    /// Certificate mode: our private key and certificate, Alipay's certificate, which is pinned,
    /// and the root file.
    pub fn certified(
        app: PrivateKey,
        app_certificate: &Certificate,
        alipay: Certificate,
        root: RootSerial,
    ) -> Result<Self, KeyFault> {
        if !app.public()?.is(app_certificate.key()) {
            return Err(KeyFault { key: "app private key", why: Unusable::OtherPair });
        }
        check(&app, alipay.key())?;
        let serials = Serials { app: app_certificate.serial().to_owned(), root };
        let (key, pinned) = alipay.into_parts();
        Ok(Self { app, verifier: Verifier::pinned(key, pinned), serials: Some(serials) })
    }

    /// Names the certificates in a request, in certificate mode.
    pub(super) fn name_in(&self, params: Params) -> Params {
        match &self.serials {
            Some(serials) => params
                .with("app_cert_sn", &serials.app)
                .with("alipay_root_cert_sn", serials.root.as_str()),
            None => params,
        }
    }
}

fn check(app: &PrivateKey, alipay: &PublicKey) -> Result<(), KeyFault> {
    const PROBE: &[u8] = b"hapax: what I sign I can verify";

    let own = app.public()?;
    if own.is(alipay) {
        return Err(KeyFault { key: "Alipay public key", why: Unusable::OwnKey });
    }
    let verifies = app.sign(PROBE).is_some_and(|signed| own.verifies(PROBE, signed.as_bytes()));
    if verifies {
        Ok(())
    } else {
        Err(KeyFault { key: "app private key", why: Unusable::NoRoundTrip })
    }
}

/// Why an account cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountFault {
    /// The id of the app.
    #[error("the app_id must be the number that Alipay shows for the app")]
    AppId,
    /// The id of the seller.
    #[error("the seller_id must be the 2088 number of the merchant")]
    SellerId,
    /// The address for notifications.
    #[error(
        "the notify_url must be an http or https address of at most 256 bytes without a query \
         string, which no signature would cover"
    )]
    NotifyUrl,
    /// The address that buyers return to.
    #[error("the return_url must be an http or https address of at most 256 bytes")]
    ReturnUrl,
}

fn is_id(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic()))
        && text.len() <= ADDRESS_BYTES_MAX
}
