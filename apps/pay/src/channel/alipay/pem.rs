//! Key text in any dress: PEM or bare base64, with whatever blanks copying left in it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};

use super::key::Unusable;

/// No key or certificate is near this; anything longer is the wrong file.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The bytes inside `text`, whose PEM label, if it has one, must be among `labels`.
///
/// Labels are written without blanks: `RSAPRIVATEKEY`.
pub(super) fn der(text: &str, labels: &[&str]) -> Result<SecretSlice<u8>, Unusable> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Unusable::TooLong);
    }
    let packed = without_blanks(text);
    let base64 = match *packed.expose_secret().split("-----").collect::<Vec<_>>() {
        [""] => return Err(Unusable::Empty),
        [bare] => bare,
        ["", begin, base64, end, ""] => {
            fits(begin, base64, end, labels)?;
            base64
        }
        [_, _, _, _, _, ..] => return Err(Unusable::Several),
        _ => return Err(Unusable::NotBase64),
    };
    let der = STANDARD.decode(base64).map_err(|_| Unusable::NotBase64)?;
    Ok(der.into())
}

fn fits(begin: &str, base64: &str, end: &str, labels: &[&str]) -> Result<(), Unusable> {
    let (Some(label), Some(closing)) = (begin.strip_prefix("BEGIN"), end.strip_prefix("END"))
    else {
        return Err(Unusable::NotBase64);
    };
    // A traditional encrypted key says so in a header line, which has a colon.
    if label == "ENCRYPTEDPRIVATEKEY" || base64.contains(':') {
        return Err(Unusable::Encrypted);
    }
    if label != closing {
        return Err(Unusable::NotBase64);
    }
    if labels.contains(&label) {
        return Ok(());
    }
    Err(match label {
        "PRIVATEKEY" | "RSAPRIVATEKEY" => Unusable::Kind("a private key"),
        "PUBLICKEY" | "RSAPUBLICKEY" => Unusable::Kind("a public key"),
        "CERTIFICATE" => Unusable::Kind("a certificate"),
        _ => Unusable::NotRsa,
    })
}

/// `text` without blanks of any script, marks that print nothing, and `\n` spelt out as it
/// comes out of environment files and JSON.
fn without_blanks(text: &str) -> SecretString {
    let invisible = ['\u{feff}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{ad}'];
    // Reserved in full, so that no grown buffer leaves a copy of a key behind.
    let mut packed = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && matches!(chars.peek(), Some('n' | 'r' | 't')) {
            chars.next();
        } else if !c.is_whitespace() && !invisible.contains(&c) {
            packed.push(c);
        }
    }
    packed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: &[&str] = &["PUBLICKEY"];

    fn bytes(text: &str) -> Result<Vec<u8>, Unusable> {
        der(text, LABELS).map(|der| der.expose_secret().to_vec())
    }

    #[test]
    fn every_dress_gives_the_same_bytes() {
        for text in [
            "AQID",
            "  AQ\u{a0}ID\u{200b}\r\n",
            "\u{feff}-----BEGIN PUBLIC KEY-----\nAQID\n-----END PUBLIC KEY-----\n",
            "-----BEGIN PUBLIC KEY-----AQID-----END PUBLIC KEY-----",
            "-----BEGIN PUBLIC KEY-----\\nAQ\\r\\nID\\n-----END PUBLIC KEY-----",
        ] {
            assert_eq!(bytes(text), Ok(vec![1, 2, 3]), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_such_key_is_named() {
        let pem = |label: &str, inside: &str| {
            format!("-----BEGIN {label}-----\n{inside}\n-----END {label}-----\n")
        };
        assert_eq!(bytes(" \n"), Err(Unusable::Empty));
        assert_eq!(bytes("AQI"), Err(Unusable::NotBase64));
        assert_eq!(bytes("钥匙"), Err(Unusable::NotBase64));
        assert_eq!(bytes("-----BEGIN PUBLIC KEY-----\nAQID"), Err(Unusable::NotBase64));
        assert_eq!(bytes(&pem("ENCRYPTED PRIVATE KEY", "AQID")), Err(Unusable::Encrypted));
        assert_eq!(
            bytes(&pem("PUBLIC KEY", "Proc-Type: 4,ENCRYPTED\n\nAQID")),
            Err(Unusable::Encrypted)
        );
        assert_eq!(bytes(&pem("CERTIFICATE", "AQID")), Err(Unusable::Kind("a certificate")));
        assert_eq!(bytes(&pem("PRIVATE KEY", "AQID")), Err(Unusable::Kind("a private key")));
        assert_eq!(bytes(&pem("EC PRIVATE KEY", "AQID")), Err(Unusable::NotRsa));
        assert_eq!(bytes(&pem("PUBLIC KEY", "AQID").repeat(2)), Err(Unusable::Several));
        assert_eq!(bytes(&"A".repeat(TEXT_BYTES_MAX + 1)), Err(Unusable::TooLong));
    }
}
