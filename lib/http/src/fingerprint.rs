//! What was asked: the parts of a request that a repeat must have in common with the first.
//!
//! Method, concrete path, query, media type, chosen headers and body. The operation and the
//! caller are in the record's id already, where a rename does not change them. A body with a
//! `Content-Encoding` counts as the bytes it is, since decoding before the claim would let a few
//! bytes cost much memory; the encoding itself is a part, so that gzip and identity differ.
//!
//! Invariant: two requests that a handler could treat differently have different prints, unless
//! they differ in a header that was not chosen (`requests_that_differ_have_different_prints`).

use std::borrow::Cow;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};

use hapax_core::{Fingerprint, Prints};

/// Longest multipart boundary that RFC 2046 allows.
const BOUNDARY_BYTES_MAX: usize = 70;

/// The print of a request with its whole body.
pub(crate) fn prints(request: &Parts, body: &Bytes, chosen: &[HeaderName]) -> Prints {
    let content_type = header_text(&request.headers, &CONTENT_TYPE);
    let media_type = essence(content_type);
    let query = pairs(request.uri.query().unwrap_or_default().as_bytes());
    let mut print = Fingerprint::new()
        .text("method", request.method.as_str())
        .text("path", request.uri.path())
        .pairs("query", query.iter().map(|(name, value)| (&name[..], &value[..])))
        .text("media type", &media_type);
    for coding in request.headers.get_all(CONTENT_ENCODING) {
        print = print.bytes("coding", coding.as_bytes());
    }
    for name in chosen {
        print = print.text("header", name.as_str());
        for value in request.headers.get_all(name) {
            print = print.bytes("value", value.as_bytes());
        }
    }
    let is_encoded = request.headers.contains_key(CONTENT_ENCODING);
    let shape = if is_encoded { Shape::Raw } else { Shape::of(&media_type) };
    with_body(print, body, &shape, content_type).prints()
}

/// How a body is compared.
enum Shape {
    Json,
    Form,
    Multipart,
    Raw,
}

impl Shape {
    fn of(media_type: &str) -> Self {
        match media_type {
            "application/x-www-form-urlencoded" => Self::Form,
            "multipart/form-data" => Self::Multipart,
            "application/json" => Self::Json,
            other if other.ends_with("+json") => Self::Json,
            _ => Self::Raw,
        }
    }
}

fn with_body(print: Fingerprint, body: &Bytes, shape: &Shape, content_type: &str) -> Fingerprint {
    match shape {
        Shape::Json => print.json("body", body),
        Shape::Form => {
            let pairs = pairs(body);
            print.pairs("body", pairs.iter().map(|(name, value)| (&name[..], &value[..])))
        }
        Shape::Multipart => match boundary(content_type).and_then(|mark| sections(body, mark)) {
            // The boundary is new in every request of some clients, and means nothing.
            Some(sections) => {
                sections.into_iter().fold(print, |print, section| print.bytes("section", section))
            }
            None => print.bytes("body", body),
        },
        Shape::Raw => print.bytes("body", body),
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The media type without its parameters.
fn essence(content_type: &str) -> Cow<'_, str> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(essence.to_ascii_lowercase());
    }
    Cow::Borrowed(essence)
}

type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a query or form, decoded as bytes: what is not UTF-8 stays distinct.
fn pairs(encoded: &[u8]) -> Vec<Pair> {
    let fields = encoded.split(|byte| *byte == b'&').filter(|field| !field.is_empty());
    fields
        .map(|field| {
            let mut halves = field.splitn(2, |byte| *byte == b'=');
            let mut half = || decode(halves.next().unwrap_or_default());
            (half(), half())
        })
        .collect()
}

/// `+` is a blank and `%41` is `A`; a percent sign that begins no escape stands for itself.
fn decode(field: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let byte = match (first, tail) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    high * 16 + low
                }
                _ => b'%',
            },
            _ => *first,
        };
        decoded.push(byte);
    }
    decoded
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn boundary(content_type: &str) -> Option<&str> {
    let parameters = content_type.split(';').skip(1);
    let mut named = parameters.filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty() && value.len() <= BOUNDARY_BYTES_MAX).then_some(value)
}

/// The sections of a multipart body, each with its headers; `None` if it is not plainly one.
fn sections<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<&'a [u8]>> {
    let mark = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(mark.get(2..)?.as_bytes())?;
    let mut sections = Vec::new();
    while !rest.starts_with(b"--") {
        rest = rest.strip_prefix(b"\r\n")?;
        let end = rest.windows(mark.len()).position(|window| window == mark.as_bytes())?;
        sections.push(rest.get(..end)?);
        rest = rest.get(end + mark.len()..)?;
    }
    // Something after the end would be compared by nobody.
    rest.strip_prefix(b"--").filter(|end| end.is_empty() || *end == b"\r\n")?;
    Some(sections)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    struct Asked(&'static str, &'static str, Vec<(&'static str, &'static str)>, &'static [u8]);

    fn print(Asked(method, uri, headers, body): &Asked) -> Prints {
        let mut request = Request::builder().method(*method).uri(*uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let chosen = [HeaderName::from_static("x-api-version")];
        let (parts, ()) = request.body(()).unwrap().into_parts();
        prints(&parts, &Bytes::from_static(body), &chosen)
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    const ONE: (&str, &str) = ("content-type", "multipart/form-data; boundary=one");
    const TWO: (&str, &str) = ("content-type", "multipart/form-data; boundary=\"two\"");

    #[test]
    fn requests_that_mean_the_same_have_one_print() {
        let charset = ("content-type", "Application/JSON; charset=utf-8");
        for (left, right) in [
            (
                Asked("POST", "/a", vec![JSON], br#"{"a":1,"b":2.0}"#),
                Asked("POST", "/a", vec![charset], br#"{"b":2, "a":1}"#),
            ),
            (Asked("POST", "/a?x=1&y=2", vec![], b""), Asked("POST", "/a?y=2&x=1", vec![], b"")),
            (Asked("POST", "/a?x=%41+b", vec![], b""), Asked("POST", "/a?x=A%20b", vec![], b"")),
            (
                Asked("POST", "/a", vec![FORM], b"x=1&y=2"),
                Asked("POST", "/a", vec![FORM], b"y=2&x=1"),
            ),
            (
                Asked("POST", "/a", vec![ONE], b"--one\r\nA: b\r\n\r\nbytes\r\n--one--\r\n"),
                Asked("POST", "/a", vec![TWO], b"--two\r\nA: b\r\n\r\nbytes\r\n--two--"),
            ),
            (
                Asked("POST", "/a", vec![JSON, ("accept", "x")], b"1"),
                Asked("POST", "/a", vec![JSON, ("user-agent", "y")], b"1.0"),
            ),
        ] {
            assert_eq!(print(&left), print(&right), "{} {:?}", left.1, left.3);
        }
    }

    #[test]
    fn requests_that_differ_have_different_prints() {
        let v1 = ("x-api-version", "1");
        let gzip = ("content-encoding", "gzip");
        for (left, right) in [
            (Asked("POST", "/a", vec![], b""), Asked("PATCH", "/a", vec![], b"")),
            (Asked("POST", "/a", vec![], b""), Asked("POST", "/b", vec![], b"")),
            (Asked("POST", "/a?x=1", vec![], b""), Asked("POST", "/a?x=2", vec![], b"")),
            (Asked("POST", "/a?x=1&x=2", vec![], b""), Asked("POST", "/a?x=2&x=1", vec![], b"")),
            (Asked("POST", "/a?x=%ff", vec![], b""), Asked("POST", "/a?x=%fe", vec![], b"")),
            (Asked("POST", "/a?ab=c", vec![], b""), Asked("POST", "/a?a=bc", vec![], b"")),
            (Asked("POST", "/a?x=1", vec![], b""), Asked("POST", "/a", vec![FORM], b"x=1")),
            (Asked("POST", "/a", vec![JSON], b"1"), Asked("POST", "/a", vec![JSON], b"2")),
            (Asked("POST", "/a", vec![JSON], b"1"), Asked("POST", "/a", vec![], b"1")),
            (Asked("POST", "/a", vec![v1], b""), Asked("POST", "/a", vec![], b"")),
            (Asked("POST", "/a", vec![v1], b""), Asked("POST", "/a", vec![v1, v1], b"")),
            (Asked("POST", "/a", vec![gzip], b"x"), Asked("POST", "/a", vec![], b"x")),
            (Asked("POST", "/a", vec![], b"\xff"), Asked("POST", "/a", vec![], b"\xfe")),
            (
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n1\r\n--one--"),
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n2\r\n--one--"),
            ),
            (
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n1\r\n--one\r\n\r\n2\r\n--one--"),
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n2\r\n--one\r\n\r\n1\r\n--one--"),
            ),
            (
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n1\r\n--one--tail"),
                Asked("POST", "/a", vec![ONE], b"--one\r\n\r\n1\r\n--one--"),
            ),
        ] {
            assert_ne!(print(&left), print(&right), "{} {:?} {:?}", left.1, left.3, right.3);
        }
    }

    #[test]
    fn a_body_that_is_not_plainly_multipart_counts_as_its_bytes() {
        for body in [&b"--one\r\nno end"[..], b"preamble\r\n--one--", b"--one", b"", b"--one--x"] {
            assert_eq!(sections(body, "one"), None, "{body:?}");
        }
    }
}
