//! RSA2: RSA PKCS#1 v1.5 over SHA-256, signatures in base64.
//!
//! The algorithm is fixed here; no message chooses it. Keys and signatures do not print.

use std::fmt;

use aws_lc_rs::{
    digest,
    rand::SystemRandom,
    rsa,
    signature::{
        KeyPair as _, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret as _, SecretString};

use super::pem;

/// Below this RSA is broken by those who can afford it; Alipay demands it for RSA2.
const MODULUS_BITS_MIN: usize = 2048;

/// The app's private key, with which requests are signed.
pub struct PrivateKey(RsaKeyPair);

impl PrivateKey {
    /// Reads PKCS#8 or PKCS#1, as PEM or bare base64, blanks from copying forgiven.
    pub fn parse(text: &SecretString) -> Result<Self, KeyFault> {
        let fault = |why| KeyFault { key: "app private key", why };
        let der =
            pem::der(text.expose_secret(), &["PRIVATEKEY", "RSAPRIVATEKEY"]).map_err(fault)?;
        let der = der.expose_secret();
        if rsa::PublicKey::from_der(der).is_ok() {
            return Err(fault(Unusable::Kind("a public key")));
        }
        RsaKeyPair::from_pkcs8(der)
            .or_else(|_| RsaKeyPair::from_der(der))
            .map(Self)
            .map_err(|_| fault(Unusable::NotRsa))
    }

    /// The signature over `text`, in base64; nothing if the key cannot sign.
    ///
    /// The same text always gives the same signature.
    pub fn sign(&self, text: &[u8]) -> Option<String> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).ok()?;
        Some(STANDARD.encode(signature))
    }

    /// The public half.
    pub(super) fn public(&self) -> Result<PublicKey, KeyFault> {
        PublicKey::from_der(self.0.public_key().as_ref(), "app private key")
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(***)")
    }
}

/// A public key, with which messages are verified.
pub struct PublicKey {
    key: ParsedPublicKey,
    /// One form for one key, whatever it was read from.
    pkcs1: Vec<u8>,
}

impl PublicKey {
    /// Reads the Alipay public key: PEM or bare base64, blanks from copying forgiven.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let name = "Alipay public key";
        let der = pem::der(text, &["PUBLICKEY", "RSAPUBLICKEY"])
            .map_err(|why| KeyFault { key: name, why })?;
        let der = der.expose_secret();
        if RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)).is_ok() {
            return Err(KeyFault { key: name, why: Unusable::Kind("a private key") });
        }
        Self::from_der(der, name)
    }

    pub(super) fn from_der(der: &[u8], name: &'static str) -> Result<Self, KeyFault> {
        let fault = |why| KeyFault { key: name, why };
        let parts = rsa::PublicKey::from_der(der).map_err(|_| fault(Unusable::NotRsa))?;
        let modulus = parts.modulus();
        let modulus = modulus.big_endian_without_leading_zero();
        let unused: usize = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        if modulus.len() * 8 - unused < MODULUS_BITS_MIN {
            return Err(fault(Unusable::TooShort));
        }
        let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der)
            .map_err(|_| fault(Unusable::NotRsa))?;
        Ok(Self { key, pkcs1: parts.as_ref().to_vec() })
    }

    /// Whether `signature`, in base64, is this key's over `text`.
    pub fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        STANDARD
            .decode(signature)
            .is_ok_and(|signature| self.key.verify_sig(text, &signature).is_ok())
    }

    /// A short name of the key for people to compare: the first half of its SHA-256.
    pub fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.pkcs1);
        digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        self.pkcs1 == other.pkcs1
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// Whose word is taken: a public key, and in certificate mode the certificate it came from.
#[derive(Debug)]
pub struct Verifier {
    key: PublicKey,
    pinned: Option<String>,
}

impl Verifier {
    /// Takes messages that `key` signed.
    pub const fn plain(key: PublicKey) -> Self {
        Self { key, pinned: None }
    }

    /// Takes messages that `key` signed and that name the certificate `serial`.
    pub const fn pinned(key: PublicKey, serial: String) -> Self {
        Self { key, pinned: Some(serial) }
    }

    /// The key.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The serial of the pinned certificate, in certificate mode.
    pub fn pinned_serial(&self) -> Option<&str> {
        self.pinned.as_deref()
    }
}

/// A key that cannot be used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {key} {why}")]
pub struct KeyFault {
    /// Which key.
    pub key: &'static str,
    /// What is wrong with it.
    pub why: Unusable,
}

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no text.
    #[error("is empty, give it as PEM or base64")]
    Empty,
    /// There is more text than any key has.
    #[error("is far too long, this must be another file")]
    TooLong,
    /// Neither PEM nor base64.
    #[error("is neither PEM nor base64, copy it once more in full")]
    NotBase64,
    /// Protected by a pass phrase.
    #[error("has a pass phrase, give it without one")]
    Encrypted,
    /// Something else than was asked for; the text names it.
    #[error("is {0}, give the key that is asked for")]
    Kind(&'static str),
    /// More than one key.
    #[error("holds more than one key, give a single one")]
    Several,
    /// Not an RSA key, or one that contradicts itself.
    #[error("is not an RSA key of 2048 to 8192 bits")]
    NotRsa,
    /// An RSA key of fewer than 2048 bits.
    #[error("has fewer than 2048 bits, make a longer one")]
    TooShort,
    /// The app's own public key where Alipay's belongs.
    #[error("is the app's own public key, copy the one that Alipay shows after the upload")]
    OwnKey,
    /// A private key that does not belong to the app certificate.
    #[error("does not belong to the app certificate")]
    OtherPair,
    /// A key that does not verify what it signed.
    #[error("does not verify what it signed")]
    NoRoundTrip,
}
