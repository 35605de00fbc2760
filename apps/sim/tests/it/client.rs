//! A small Alipay client, written for these tests only, so that it can't share a mistake with the
//! simulator: it signs, percent-encodes, finds the signed slice and verifies on its own.

use std::fmt::Write as _;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/payments.json")).unwrap()
}

pub(crate) fn key(name: &str) -> String {
    vectors()["keys"][name].as_str().unwrap().to_owned()
}

pub(crate) fn case(name: &str) -> Value {
    let cases = vectors()["cases"].clone();
    cases.as_array().unwrap().iter().find(|case| case["name"] == name).cloned().unwrap()
}

fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).unwrap()
}

pub(crate) fn sign(text: &[u8]) -> String {
    let key = RsaKeyPair::from_pkcs8(&der(&key("app_private_pkcs8"))).unwrap();
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).unwrap();
    STANDARD.encode(signature)
}

/// Whether the channel signed the text.
pub(crate) fn is_from_alipay(text: &[u8], signature: &str) -> bool {
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der(&key("alipay_public")));
    STANDARD.decode(signature).is_ok_and(|bytes| public.verify(text, &bytes).is_ok())
}

pub(crate) fn percent(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").unwrap();
        }
    }
    text
}

/// One call: parameters in the order given, values as bytes in the charset of the call.
#[derive(Clone)]
pub(crate) struct Call(pub(crate) Vec<(String, Vec<u8>)>);

impl Call {
    pub(crate) fn new(method: &str, biz: &Value) -> Self {
        Self::of_app("2026000000000001", method, biz)
    }

    pub(crate) fn of_app(app_id: &str, method: &str, biz: &Value) -> Self {
        let now = jiff::tz::offset(8).to_datetime(jiff::Timestamp::now());
        let stamp = now.strftime("%Y-%m-%d %H:%M:%S").to_string();
        Self(Vec::new())
            .with("app_id", app_id)
            .with("method", method)
            .with("format", "JSON")
            .with("charset", "utf-8")
            .with("sign_type", "RSA2")
            .with("timestamp", &stamp)
            .with("version", "1.0")
            .with("biz_content", &biz.to_string())
    }

    /// Sets a parameter, in its place if it is there already.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.with_bytes(name, value.as_bytes())
    }

    pub(crate) fn with_bytes(mut self, name: &str, value: &[u8]) -> Self {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some(slot) => slot.1 = value.to_vec(),
            None => self.0.push((name.to_owned(), value.to_vec())),
        }
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn text_to_sign(&self) -> Vec<u8> {
        let mut pairs: Vec<_> =
            self.0.iter().filter(|(name, value)| name != "sign" && !value.is_empty()).collect();
        pairs.sort();
        let mut text = Vec::new();
        for (name, value) in pairs {
            if !text.is_empty() {
                text.push(b'&');
            }
            text.extend_from_slice(name.as_bytes());
            text.push(b'=');
            text.extend_from_slice(value);
        }
        text
    }

    pub(crate) fn signed(self) -> Self {
        let sign = sign(&self.text_to_sign());
        self.with("sign", &sign)
    }

    pub(crate) fn wire(&self) -> String {
        let pairs: Vec<_> =
            self.0.iter().map(|(name, value)| format!("{name}={}", percent(value))).collect();
        pairs.join("&")
    }
}

/// A verified answer: the node, parsed from exactly the slice that was signed.
pub(crate) fn verified(node: &str, body: &[u8]) -> Value {
    let slice = signed_slice(node, body).expect("the answer has the node");
    let rest = String::from_utf8_lossy(body).into_owned();
    let sign = rest.rsplit("\"sign\":\"").next().unwrap().split('"').next().unwrap().to_owned();
    assert!(is_from_alipay(slice, &sign), "the answer is signed: {rest}");
    serde_json::from_slice(slice).unwrap()
}

/// The bytes from the node's first brace to the one that closes it, strings skipped.
pub(crate) fn signed_slice<'a>(node: &str, body: &'a [u8]) -> Option<&'a [u8]> {
    let head = format!("\"{node}\":");
    let start = body.windows(head.len()).position(|window| window == head.as_bytes())? + head.len();
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (offset, byte) in body[start..].iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(&body[start..=start + offset]);
                }
            }
            _ => {}
        }
    }
    None
}
