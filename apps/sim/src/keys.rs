//! RSA2: SHA-256 with RSA, PKCS#1 v1.5, base64.

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    KeyPair as _, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use crate::error::{Error, Kind};

/// Shorter keys are refused, as the real gateway does for RSA2.
const MODULUS_BYTES_MIN: usize = 256;

/// Characters of base64 on one line of a PEM file (RFC 7468).
const PEM_LINE: usize = 64;

/// A fresh 2048-bit RSA key as PEM.
#[derive(Clone)]
pub struct RsaKeyPem {
    /// The private key, PKCS#8 (`BEGIN PRIVATE KEY`).
    pub private_pkcs8: String,
    /// The public key, `SubjectPublicKeyInfo` (`BEGIN PUBLIC KEY`).
    pub public_spki: String,
}

impl fmt::Debug for RsaKeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RsaKeyPem")
            .field("private_pkcs8", &"***")
            .field("public_spki", &self.public_spki)
            .finish()
    }
}

/// Makes a 2048-bit RSA key; takes some hundred milliseconds of CPU.
///
/// # Errors
/// `Kind::Key` if the system gives no randomness.
pub fn generate_rsa_key_pem() -> Result<RsaKeyPem, Error> {
    let failed = |_| Error::new(Kind::Key, "generate an RSA key");
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    let private: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(failed)?;
    Ok(RsaKeyPem {
        private_pkcs8: pem("PRIVATE KEY", private.as_ref()),
        public_spki: pem("PUBLIC KEY", public.as_ref()),
    })
}

/// Signs as the channel.
pub(crate) struct Signer(KeyPair);

impl Signer {
    pub(crate) fn from_pem(pem: &str) -> Result<Self, Error> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| {
            Error::new(Kind::Key, "read the Alipay private key: PKCS#8 PEM is needed")
                .because(error)
        })?;
        let key = KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| {
            Error::new(Kind::Key, "use the Alipay private key: it is not an RSA key").because(error)
        })?;
        if key.public_modulus_len() < MODULUS_BYTES_MIN {
            let short = "use the Alipay private key: RSA2 needs at least 2048 bits";
            return Err(Error::new(Kind::Key, short));
        }
        Ok(Self(key))
    }

    /// A key that nobody trusts, for forgeries.
    pub(crate) fn stranger() -> Result<Self, Error> {
        let key = KeyPair::generate(KeySize::Rsa2048);
        key.map(Self).map_err(|_| Error::new(Kind::Key, "generate the forger's RSA key"))
    }

    /// Signs bytes; the same bytes give the same text.
    pub(crate) fn sign(&self, text: &[u8]) -> Result<String, Error> {
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature)
            .map_err(|_| Error::new(Kind::Key, "sign with RSA2"))?;
        Ok(STANDARD.encode(signature))
    }

    pub(crate) fn public_der(&self) -> Result<Vec<u8>, Error> {
        let der: Result<PublicKeyX509Der<'_>, _> = self.0.public_key().as_der();
        der.map(|der| der.as_ref().to_vec())
            .map_err(|_| Error::new(Kind::Key, "derive the Alipay public key"))
    }
}

/// Checks what an app signed.
pub(crate) struct Verifier(ParsedPublicKey);

impl Verifier {
    pub(crate) fn from_pem(pem: &str) -> Result<Self, Error> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|error| {
            Error::new(Kind::Key, "read the app's public key: a PEM of BEGIN PUBLIC KEY is needed")
                .because(error)
        })?;
        Self::from_spki(&der)
    }

    pub(crate) fn from_spki(der: &[u8]) -> Result<Self, Error> {
        let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).map_err(|error| {
            let needed = "use the app's public key: RSA of at least 2048 bits is needed";
            Error::new(Kind::Key, needed).because(error)
        })?;
        Ok(Self(key))
    }

    /// Tells whether `signature` (strict base64) is the app's over `text`.
    pub(crate) fn accepts(&self, text: &[u8], signature: &[u8]) -> bool {
        STANDARD
            .decode(signature)
            .is_ok_and(|signature| self.0.verify_sig(text, &signature).is_ok())
    }

    pub(crate) fn is_key_of(&self, signer: &Signer) -> bool {
        let own: Result<PublicKeyX509Der<'_>, _> = self.0.as_der();
        own.is_ok_and(|own| signer.public_der().is_ok_and(|der| der == own.as_ref()))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(PEM_LINE) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END ");
    pem.push_str(label);
    pem.push_str("-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Params, Signed};
    use crate::vectors;

    #[test]
    fn requests_of_the_vectors_verify_with_the_app_key() {
        let verifier = Verifier::from_pem(&vectors::key("app_public")).unwrap();
        let mut seen = 0;
        for case in vectors::cases("request") {
            let text = case["canonical"].as_str().unwrap().as_bytes();
            let sign = case["sign"].as_str().unwrap();
            assert!(verifier.accepts(text, sign.as_bytes()), "{}", case["name"]);
            assert!(!verifier.accepts(&text[1..], sign.as_bytes()), "{}", case["name"]);
            if let Some(wrong) = case["wrong_canonical"].as_str() {
                assert!(!verifier.accepts(wrong.as_bytes(), sign.as_bytes()));
            }
            seen += 1;
        }
        assert_eq!(seen, 3);
    }

    #[test]
    fn notices_are_signed_like_those_of_the_vectors() {
        let signer = Signer::from_pem(&vectors::key("alipay_private_pkcs8")).unwrap();
        for name in ["notify_v1_utf8", "notify_v1_gbk", "return_params_replayed_as_notify"] {
            let case = vectors::case(name);
            let params = Params::parse(case["body"].as_str().unwrap().as_bytes()).unwrap();
            let signed = signer.sign(&params.canonical(Signed::Notice)).unwrap();
            assert_eq!(signed, case["sign"].as_str().unwrap(), "{name}");
        }
    }

    #[test]
    fn answers_are_signed_like_those_of_the_vectors() {
        let signer = Signer::from_pem(&vectors::key("alipay_private_pkcs8")).unwrap();
        for name in ["response_query_paid", "response_cert_mode", "response_close_status_error"] {
            let case = vectors::case(name);
            let sign = signer.sign(case["signed"].as_str().unwrap().as_bytes()).unwrap();
            assert!(case["raw"].as_str().unwrap().contains(&sign), "{name}");
        }
    }

    #[test]
    fn a_fresh_key_signs_what_its_public_half_accepts() {
        let fresh = generate_rsa_key_pem().unwrap();
        let signer = Signer::from_pem(&fresh.private_pkcs8).unwrap();
        let verifier = Verifier::from_pem(&fresh.public_spki).unwrap();
        let sign = signer.sign(b"text").unwrap();
        assert!(verifier.accepts(b"text", sign.as_bytes()));
        assert!(!verifier.accepts(b"test", sign.as_bytes()));
        assert!(verifier.is_key_of(&signer));
        assert!(!verifier.is_key_of(&Signer::stranger().unwrap()));
        assert!(!format!("{fresh:?}").contains("BEGIN PRIVATE"));
        assert!(fresh.private_pkcs8.lines().all(|line| line.len() <= PEM_LINE));
    }

    #[test]
    fn a_signature_must_be_strict_base64() {
        let verifier = Verifier::from_pem(&vectors::key("app_public")).unwrap();
        let case = vectors::case("request_basic");
        let text = case["canonical"].as_str().unwrap().as_bytes();
        let sign = case["sign"].as_str().unwrap();
        for mutant in [sign.replace('+', " "), sign.replace("==", ""), format!("{sign}\n")] {
            assert!(!verifier.accepts(text, mutant.as_bytes()), "{mutant}");
        }
    }

    #[test]
    fn keys_of_another_form_are_refused_with_a_sentence() {
        let error = Signer::from_pem(&vectors::key("app_private_pkcs1")).err().unwrap();
        assert_eq!(error.kind(), Kind::Key);
        assert!(error.to_string().contains("PKCS#8"), "{error}");
        assert!(Verifier::from_pem("MIIBIjANBg").is_err());
    }
}
