//! The signature of a webhook, as Stripe and others made it common.
//!
//! Invariant: the signature covers the time and every byte of the body
//! (`a_signature_covers_time_and_body`).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// A signature in the form of its header: `t=<unix seconds>,v1=<64 hex digits>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Signature(String);

impl Signature {
    /// The value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(***)")
    }
}

/// Signs `body` as of `unix_seconds`.
pub fn sign(secret: &SecretString, unix_seconds: i64, body: &[u8]) -> Signature {
    let time = unix_seconds.to_string();
    let mut mac = keyed(secret);
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    let digits: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Signature(format!("t={time},v1={digits}"))
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn keyed(secret: &SecretString) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret.expose_secret().as_bytes()).expect("a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(secret: &str, time: i64, body: &[u8]) -> String {
        sign(&SecretString::from(secret), time, body).as_str().to_owned()
    }

    #[test]
    fn a_signature_covers_time_and_body() {
        let signature = signed("whsec_test_hapax", 1_790_812_831, b"{}");
        assert_ne!(signature, signed("whsec_test_hapax", 1_790_812_832, b"{}"));
        assert_ne!(signature, signed("whsec_test_hapax", 1_790_812_831, b"{} "));
        assert_ne!(signature, signed("whsec_test_hapay", 1_790_812_831, b"{}"));
    }

    #[test]
    fn a_known_message_has_a_known_signature() {
        let body = br#"{"id":"evt_1","type":"payment_intent.succeeded"}"#;
        assert_eq!(
            signed("whsec_test_hapax", 1_790_812_831, body),
            "t=1790812831,v1=13f30388267337ae740f966baacbc6d4f3457e1d4c7d112d60e7a76e7487de53"
        );
    }
}
