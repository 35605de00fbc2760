//! `Hapax-Signature: t=<unix seconds>,v1=<hex>`: our own reading of the contract.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How far the time of a signature may be off, in seconds.
const TOLERANCE_S: u64 = 300;

/// What is wrong with a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Missing,
    Unreadable,
    Stale,
    Wrong,
}

impl Flaw {
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Missing => "the notice has no Hapax-Signature",
            Self::Unreadable => "the Hapax-Signature is not t=<unix seconds>,v1=<64 hex digits>",
            Self::Stale => "the time of the signature is more than five minutes off",
            Self::Wrong => "the signature does not fit the body and the tenant's secret",
        }
    }
}

/// Checks the signature of a body; several `v1` are read, for secrets that are being changed.
pub(crate) fn verify(header: &str, body: &[u8], secret: &[u8], now_s: u64) -> Result<(), Flaw> {
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let time = parts().find(|(name, _)| *name == "t").map(|(_, value)| value);
    let time = time.ok_or(Flaw::Unreadable)?;
    let at_s: u64 = time.parse().map_err(|_| Flaw::Unreadable)?;
    let macs: Vec<Vec<u8>> = parts()
        .filter(|(name, _)| *name == "v1")
        .map(|(_, hex)| unhex(hex).ok_or(Flaw::Unreadable))
        .collect::<Result<_, _>>()?;
    if macs.is_empty() {
        return Err(Flaw::Unreadable);
    }
    if at_s.abs_diff(now_s) > TOLERANCE_S {
        return Err(Flaw::Stale);
    }
    let mac = mac(time, body, secret).ok_or(Flaw::Wrong)?;
    // Compared in constant time inside.
    let fits = |given: &Vec<u8>| mac.clone().verify_slice(given).is_ok();
    if macs.iter().any(fits) { Ok(()) } else { Err(Flaw::Wrong) }
}

/// Signs as the service does, for tests.
#[cfg(test)]
pub(crate) fn sign(body: &[u8], secret: &[u8], now_s: u64) -> String {
    let time = now_s.to_string();
    let mac = mac(&time, body, secret).unwrap().finalize().into_bytes();
    let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={time},v1={hex}")
}

/// `None` never happens: this MAC takes keys of every length.
fn mac(time: &str, body: &[u8], secret: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    Some(mac)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"secret";
    const NOW: u64 = 1_800_000_000;

    #[test]
    fn a_signature_by_openssl_is_accepted() {
        // printf '1800000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let header =
            "t=1800000000,v1=440dfbb83aabca24d9e5027629cfd81cb45254690f8d410bb28f1cc17c990dbc";
        assert_eq!(verify(header, br#"{"a":1}"#, SECRET, NOW), Ok(()));
    }

    #[test]
    fn each_single_change_is_noticed() {
        let good = sign(b"body", SECRET, NOW);
        assert_eq!(verify(&good, b"body", SECRET, NOW + 300), Ok(()));
        assert_eq!(verify(&good, b"bodx", SECRET, NOW), Err(Flaw::Wrong));
        assert_eq!(verify(&good, b"body", b"other", NOW), Err(Flaw::Wrong));
        assert_eq!(verify(&good, b"body", SECRET, NOW + 301), Err(Flaw::Stale));
        let later = good.replace("t=1800000000", "t=1800000001");
        assert_eq!(verify(&later, b"body", SECRET, NOW), Err(Flaw::Wrong));
        let rotated = format!("{},v1={}", good, "0".repeat(64));
        assert_eq!(verify(&rotated, b"body", SECRET, NOW), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for header in ["", "t=1", "v1=00", "t=x,v1=00", "t=1800000000,v1=zz", "t=,v1="] {
            assert_eq!(verify(header, b"body", SECRET, NOW), Err(Flaw::Unreadable), "{header}");
        }
        let odd = format!("t={NOW},v1={}", "é".repeat(32));
        assert_eq!(verify(&odd, b"body", SECRET, NOW), Err(Flaw::Unreadable));
    }
}
