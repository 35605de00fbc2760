//! The key of a request: read from one header line, or refused.
//!
//! Invariant: `"k"` and `k` are the same key, and a key that cannot be read is refused, never
//! ignored (`forty_forms_of_the_key_header`).

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, Parser};

use crate::{
    header,
    problem::{Code, Problem},
};
use hapax_core::{Invalid, RequestKey};

/// What a request without a key gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a key is needed or it is not")]
pub enum KeyRule {
    /// 400 `key_missing`.
    Required,
    /// The request passes unguarded.
    Optional,
}

/// A key as it was sent, to be echoed.
#[derive(Clone)]
pub(crate) struct SentKey {
    pub(crate) key: RequestKey,
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
}

/// Whether any line of any of the headers is there.
pub(crate) fn is_sent(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    names.iter().any(|name| headers.contains_key(name))
}

/// Reads the one key, whichever of the headers carries it.
///
/// # Errors
/// `key_missing` or `key_invalid`, with a sentence that says what to do.
pub(crate) fn read(
    headers: &HeaderMap,
    names: &[HeaderName],
    bytes_min: usize,
) -> Result<SentKey, Problem> {
    let mut lines =
        names.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    let Some((name, value)) = lines.next() else { return Err(missing(names)) };
    if lines.next().is_some() {
        let detail = "The key was sent more than once. Send one header line with one key.";
        return Err(Problem::new(Code::KeyInvalid).detail(detail));
    }
    let invalid =
        |invalid: Invalid| Problem::new(Code::KeyInvalid).detail(format!("The {invalid}."));
    let key = parse(value).map_err(invalid)?;
    if key.as_str().len() < bytes_min {
        let detail = format!("The key is shorter than {bytes_min} characters; use a random one.");
        return Err(Problem::new(Code::KeyInvalid).detail(detail));
    }
    Ok(SentKey { key, name: name.clone(), value: value.clone() })
}

fn missing(names: &[HeaderName]) -> Problem {
    let problem = Problem::new(Code::KeyMissing);
    match names.first() {
        Some(name) if *name != header::IDEMPOTENCY_KEY => problem.detail(format!(
            "Send a header `{name}` with a random key: one for each intended operation, and the \
             same one on every retry."
        )),
        _ => problem,
    }
}

/// Reads a structured-field string, or the value as it is.
fn parse(value: &HeaderValue) -> Result<RequestKey, Invalid> {
    let bytes = value.as_bytes().trim_ascii();
    if bytes.starts_with(b"\"") {
        let item: Item = Parser::new(bytes).parse().map_err(|_| {
            Invalid::new("key", "is not one quoted string; close the quotes and send nothing else")
        })?;
        let BareItem::String(text) = item.bare_item else {
            return Err(Invalid::new("key", "is not a string; send it in quotes"));
        };
        if !item.params.is_empty() {
            return Err(Invalid::new("key", "has parameters; send the quoted string alone"));
        }
        return RequestKey::parse(text.as_str());
    }
    let Ok(text) = value.to_str() else {
        let rule = "has a blank, control or non-ASCII character; use visible ASCII only";
        return Err(Invalid::new("key", rule));
    };
    let text = text.trim_ascii();
    // Two lines that a proxy joined look like this, and so does a parameter.
    if text.contains([',', ';', '"']) {
        return Err(Invalid::new("key", "has a comma, semicolon or quote; send it in quotes"));
    }
    RequestKey::parse(text)
}
