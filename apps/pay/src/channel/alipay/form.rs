//! A received form: parsed once, into bytes, and never again.
//!
//! Invariant: keys are unique and plain, so that two readers of one form see the same parameters.
//! Values stay bytes: a signature covers bytes, not text in some charset.

use std::collections::BTreeMap;

use crate::channel::Untrusted;

/// Real notices have 2 KiB or so; voucher lists may double that.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Real notices have about 30; Alipay adds new ones without notice.
const PARAMS_MAX: usize = 200;
/// The longest known is `voucher_detail_list`.
const KEY_BYTES_MAX: usize = 64;
/// The longest is a voucher list.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// The parameters of a form, sorted by key.
pub(super) struct Form(BTreeMap<Vec<u8>, Vec<u8>>);

impl Form {
    pub(super) fn parse(body: &[u8]) -> Result<Self, Untrusted> {
        if body.len() > BODY_BYTES_MAX {
            return Err(Untrusted::TooLong);
        }
        let mut params = BTreeMap::new();
        for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if params.len() == PARAMS_MAX {
                return Err(Untrusted::TooLong);
            }
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let key = decoded(parts.next().unwrap_or_default(), KEY_BYTES_MAX)?;
            let value = decoded(parts.next().unwrap_or_default(), VALUE_BYTES_MAX)?;
            if !is_plain(&key) {
                return Err(Untrusted::NotAForm("a parameter whose name is not a plain word"));
            }
            if params.insert(key, value).is_some() {
                return Err(Untrusted::Duplicate);
            }
        }
        Ok(Self(params))
    }

    /// The value of `name`; nothing if it is missing or empty, which are the same to the sender.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name.as_bytes()).map(Vec::as_slice).filter(|value| !value.is_empty())
    }

    /// The value of `name` as text; nothing if it is missing, empty or not UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.bytes(name).and_then(|value| str::from_utf8(value).ok())
    }

    /// All parameters, sorted by key.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

/// A name that cannot be mistaken for a piece of the signed text, in which `=` and `&` separate.
fn is_plain(key: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !key.is_empty() && key.iter().all(plain)
}

fn decoded(encoded: &[u8], bytes_max: usize) -> Result<Vec<u8>, Untrusted> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let broken = Untrusted::NotAForm("a broken percent sign");
                let (high, low) = (rest.next().and_then(hex), rest.next().and_then(hex));
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or(broken)?
            }
            byte => *byte,
        });
    }
    if bytes.len() > bytes_max { Err(Untrusted::TooLong) } else { Ok(bytes) }
}

fn hex(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &[u8]) -> Option<Untrusted> {
        Form::parse(body).err()
    }

    #[test]
    fn values_are_decoded_once_and_into_bytes() {
        let form = Form::parse(b"a=%2525&b=%BB%E1&c=x+y%2Bz&d=&e&f=1=2").unwrap();
        assert_eq!(form.bytes("a"), Some(&b"%25"[..]));
        assert_eq!(form.bytes("b"), Some(&b"\xbb\xe1"[..]));
        assert_eq!(form.text("b"), None);
        assert_eq!(form.text("c"), Some("x y+z"));
        assert_eq!((form.bytes("d"), form.bytes("e")), (None, None));
        assert_eq!(form.text("f"), Some("1=2"));
    }

    #[test]
    fn a_key_that_comes_twice_is_refused_however_it_is_spelt() {
        assert_eq!(refused(b"a=1&a=1"), Some(Untrusted::Duplicate));
        assert_eq!(refused(b"a=1&%61=2"), Some(Untrusted::Duplicate));
        assert_eq!(refused(b"a=&a="), Some(Untrusted::Duplicate));
    }

    #[test]
    fn a_broken_percent_sign_is_refused() {
        for body in [&b"a=%"[..], b"a=%4", b"a=%zz", b"a=%+1", b"%=1"] {
            assert_eq!(refused(body), Some(Untrusted::NotAForm("a broken percent sign")));
        }
    }

    #[test]
    fn a_name_that_could_forge_a_separator_is_refused() {
        for body in [&b"=1"[..], b"a%3D1%26b=2", b"a+b=1", b"%00=1", b"\xff=1", b"%E4%BC%9A=1"] {
            let why = Untrusted::NotAForm("a parameter whose name is not a plain word");
            assert_eq!(refused(body), Some(why));
        }
    }

    #[test]
    fn everything_is_bounded() {
        let full = "=".to_owned() + &"a".repeat(VALUE_BYTES_MAX);
        let body = |n: usize| (0..n).map(|i| format!("k{i}{full}&")).collect::<String>();
        assert_eq!(refused(body(3).as_bytes()), None);
        assert_eq!(refused(body(4).as_bytes()), Some(Untrusted::TooLong));
        assert_eq!(refused(&[b'a'; KEY_BYTES_MAX + 1]), Some(Untrusted::TooLong));
        let long = [b"a=".as_slice(), &vec![b'a'; VALUE_BYTES_MAX + 1]].concat();
        assert_eq!(refused(&long), Some(Untrusted::TooLong));
        let many = |n: usize| (0..n).map(|i| format!("k{i}=1&")).collect::<String>();
        assert_eq!(refused(many(PARAMS_MAX).as_bytes()), None);
        assert_eq!(refused(many(PARAMS_MAX + 1).as_bytes()), Some(Untrusted::TooLong));
    }
}
