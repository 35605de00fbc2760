//! What was asked: a digest that is equal exactly when two requests mean the same.
//!
//! Invariant: no number passes through a float. `9007199254740993` and `…992` are two order
//! numbers; RFC 8785 makes them one (`numbers_beyond_2_to_53_stay_apart`).

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::id::Framed;

/// The way of making prints that this build writes. A new rule takes the next number.
pub const PRINT_VERSION: u8 = 1;

/// Bytes of a stored print: version, key id, digest.
pub const PRINT_BYTES: usize = 34;

/// Deepest JSON that is brought into canonical form. Each level is read again by the next, so
/// this bounds the work at 32 passes; deeper documents count as the bytes they are.
const JSON_DEPTH_MAX: usize = 32;

const PRINT_DOMAIN: &[u8] = b"hapax.print.v1";

/// A fingerprint: `[version | key id | 32 bytes]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Print([u8; PRINT_BYTES]);

impl Print {
    /// Reads a print that a store kept.
    pub fn from_stored(bytes: [u8; PRINT_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes as a store keeps them.
    pub fn as_bytes(&self) -> &[u8; PRINT_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Print {
    /// Version only: the digest of a short body can be guessed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [version, ..] = self.0;
        write!(f, "Print(v{version})")
    }
}

/// At most two prints of one request, made by two versions of the rule.
///
/// While a fleet is upgraded, records carry the print of the old rule and of the new one, so that
/// either build recognises the other's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prints([Option<Print>; 2]);

impl Prints {
    /// No print: the operation does not compare requests, or the completer asks.
    pub const NONE: Self = Self([None, None]);

    /// The print of the current rule and, during an upgrade, of the previous one.
    pub fn new(current: Print, previous: Option<Print>) -> Self {
        Self([Some(current), previous])
    }

    /// Reads prints that a store kept one after the other; a torn tail is dropped.
    pub fn from_stored(bytes: &[u8]) -> Self {
        let mut prints = Self::NONE;
        for (slot, chunk) in prints.0.iter_mut().zip(bytes.chunks_exact(PRINT_BYTES)) {
            *slot = chunk.try_into().ok().map(Print);
        }
        prints
    }

    /// The prints one after the other, as a store keeps them.
    pub fn to_stored(self) -> Vec<u8> {
        self.iter().flat_map(|print| print.0).collect()
    }

    /// The prints that are there.
    pub fn iter(&self) -> impl Iterator<Item = Print> + '_ {
        self.0.iter().copied().flatten()
    }

    /// Whether two requests ask for the same: one side does not compare, or a print is shared.
    pub fn matches(&self, other: &Self) -> bool {
        let (mut mine, mut theirs) = (self.iter().peekable(), other.iter().peekable());
        if mine.peek().is_none() || theirs.peek().is_none() {
            return true;
        }
        self.iter().any(|print| other.iter().any(|their| their == print))
    }
}

/// Collects the parts of a request into a [`Print`].
///
/// Parts are framed and named, so that `("a", "bc")` and `("ab", "c")` differ.
/// ```
/// use hapax_core::Fingerprint;
/// let one = Fingerprint::new().text("method", "POST").json("body", br#"{"a":1,"b":2.0}"#).print();
/// let two = Fingerprint::new().text("method", "POST").json("body", br#"{"b":2, "a":1}"#).print();
/// assert_eq!(one, two);
/// ```
#[must_use]
pub struct Fingerprint(Framed);

impl Fingerprint {
    /// An empty fingerprint of the current rule.
    pub fn new() -> Self {
        Self(Framed::new(PRINT_DOMAIN))
    }

    /// Adds a part as the bytes it is.
    pub fn bytes(mut self, name: &'static str, value: &[u8]) -> Self {
        self.0.part(name.as_bytes());
        self.0.part(b"bytes");
        self.0.part(value);
        self
    }

    /// Adds a part of text.
    pub fn text(self, name: &'static str, value: &str) -> Self {
        self.bytes(name, value.as_bytes())
    }

    /// Adds a JSON document by its meaning: member order, blanks, escapes and the spelling of a
    /// number do not matter.
    ///
    /// What is not JSON, repeats a member or nests deeper than 32 levels counts as its bytes.
    pub fn json(mut self, name: &'static str, document: &[u8]) -> Self {
        let Some(tokens) = canonical(document) else { return self.bytes(name, document) };
        self.0.part(name.as_bytes());
        self.0.part(b"json");
        self.0.part(&tokens);
        self
    }

    /// Adds query or form pairs: names sorted, the order of equal names kept.
    pub fn pairs<'a>(
        mut self,
        name: &'static str,
        pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let mut sorted: Vec<_> = pairs.into_iter().collect();
        sorted.sort_by_key(|(key, _)| *key);
        self.0.part(name.as_bytes());
        self.0.part(b"pairs");
        self.0.part(sorted.len().to_string().as_bytes());
        for (key, value) in sorted {
            self.0.part(key);
            self.0.part(value);
        }
        self
    }

    /// The finished print.
    pub fn print(self) -> Print {
        let mut bytes = [0; PRINT_BYTES];
        let head = [PRINT_VERSION, 0].into_iter();
        for (slot, byte) in bytes.iter_mut().zip(head.chain(self.0.finish())) {
            *slot = byte;
        }
        Print(bytes)
    }

    /// The finished print alone in its set.
    pub fn prints(self) -> Prints {
        Prints::new(self.print(), None)
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// The document as a row of tagged, length-framed tokens; `None` if only its bytes count.
fn canonical(document: &[u8]) -> Option<Vec<u8>> {
    // A head of nine bytes for each token, and tokens of some four bytes, are usual.
    let mut tokens = Vec::with_capacity(document.len() * 3);
    let text = std::str::from_utf8(document).ok()?.trim_matches([' ', '\t', '\n', '\r']);
    if !text.starts_with(['{', '[']) {
        // Reading a container checks what is in it; a scalar is checked here.
        let _: &RawValue = serde_json::from_str(text).ok()?;
    }
    write_value(text, JSON_DEPTH_MAX, &mut tokens)?;
    Some(tokens)
}

/// Writes a value; what is not a container must be JSON.
fn write_value(text: &str, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match text.as_bytes().first()? {
        b'{' => {
            let Members(mut members) = serde_json::from_str(text).ok()?;
            members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            // Which of two members of one name counts is up to each reader, so the document has
            // no meaning of its own.
            if members.windows(2).any(|pair| matches!(pair, [(one, _), (other, _)] if one == other))
            {
                return None;
            }
            write_head(b'{', members.len(), out);
            for (Text(name), value) in members {
                write_framed(b'"', name.as_bytes(), out);
                write_value(value.get(), depth, out)?;
            }
        }
        b'[' => {
            let Elements(elements) = serde_json::from_str(text).ok()?;
            write_head(b'[', elements.len(), out);
            for element in elements {
                write_value(element.get(), depth, out)?;
            }
        }
        b'"' => {
            let Text(string) = serde_json::from_str(text).ok()?;
            write_framed(b'"', string.as_bytes(), out);
        }
        b'-' | b'0'..=b'9' => write_decimal(text, out),
        _ => write_framed(b'=', text.as_bytes(), out),
    }
    Some(())
}

fn write_head(tag: u8, count: usize, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&u64::try_from(count).unwrap_or(u64::MAX).to_be_bytes());
}

fn write_framed(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    write_head(tag, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Writes a JSON number as one spelling of its exact value: `1`, `1.0` and `10e-1` are all `1e0`.
///
/// An exponent that does not fit 64 bits leaves the number as it is written.
fn write_decimal(text: &str, out: &mut Vec<u8>) {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = match fraction {
        "" => Cow::Borrowed(whole),
        fraction => Cow::Owned([whole, fraction].concat()),
    };
    let significant = digits.trim_start_matches('0');
    let trimmed = significant.trim_end_matches('0');
    if trimmed.is_empty() {
        return write_framed(b'0', b"0", out);
    }
    let point = i64::try_from(significant.len() - trimmed.len())
        .ok()
        .zip(i64::try_from(fraction.len()).ok())
        .and_then(|(zeros, fraction)| zeros.checked_sub(fraction))
        .zip(exponent.parse::<i64>().ok())
        .and_then(|(shift, exponent)| exponent.checked_add(shift));
    match point {
        Some(exponent) => write_framed(b'0', format!("{sign}{trimmed}e{exponent}").as_bytes(), out),
        None => write_framed(b'0', text.as_bytes(), out),
    }
}

/// A string; without escapes it is read where it stands.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of an object, as they stand.
struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        source.deserialize_map(Reader)
    }
}

struct Elements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Elements(elements))
            }
        }

        source.deserialize_seq(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Print {
        Fingerprint::new().json("body", text.as_bytes()).print()
    }

    /// Pairs that mean the same.
    const EQUAL: &[(&str, &str)] = &[
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"{"a":1}"#, " { \"a\" :\n1 } "),
        ("1.0", "1"),
        ("1e2", "100"),
        ("100", "1E+2"),
        ("0.10", "1e-1"),
        ("-0", "0"),
        ("0.000", "0e99"),
        (r#""\u00e9""#, "\"é\""),
        (r#""a\/b""#, r#""a/b""#),
        (r#"{"\u0061":1}"#, r#"{"a":1}"#),
        ("1e400", "10e399"),
        (r#"[1,[2.50,{"x":null}]]"#, r#"[1.0,[2.5,{"x":null}]]"#),
    ];

    /// Pairs that do not.
    const DIFFERENT: &[(&str, &str)] = &[
        ("9007199254740993", "9007199254740992"),
        ("18446744073709551615", "18446744073709551616"),
        ("0.1", "0.10000000000000000001"),
        ("1e400", "1e401"),
        ("1", "-1"),
        ("1", "\"1\""),
        ("null", "\"null\""),
        ("true", "false"),
        ("[]", "{}"),
        ("[1,2]", "[2,1]"),
        ("[[1],2]", "[[1,2]]"),
        (r#"{"a":1}"#, r#"{"a":1,"a":1}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":2}"#),
        (r#"{"a":null}"#, "{}"),
        ("\"é\"", "\"e\u{301}\""),
        (r#"{"a":"b"}"#, r#"{"ab":""}"#),
        (r#"["a","b"]"#, r#"["ab"]"#),
        ("\"a\"", "\"a \""),
        ("{", "{ "),
    ];

    #[test]
    fn documents_that_mean_the_same_have_one_print() {
        for (left, right) in EQUAL {
            assert_eq!(body(left), body(right), "{left} and {right}");
        }
    }

    #[test]
    fn documents_that_differ_have_different_prints() {
        for (left, right) in DIFFERENT {
            assert_ne!(body(left), body(right), "{left} and {right}");
        }
    }

    #[test]
    fn numbers_beyond_2_to_53_stay_apart() {
        assert_ne!(body(r#"{"id":9007199254740993}"#), body(r#"{"id":9007199254740992}"#));
    }

    #[test]
    fn a_deep_document_counts_as_its_bytes() {
        let deep = |blank: &str| format!("{}1{}{blank}", "[".repeat(100), "]".repeat(100));
        assert_ne!(body(&deep("")), body(&deep(" ")));
        let shallow = |blank: &str| format!("{}1{}{blank}", "[".repeat(31), "]".repeat(31));
        assert_eq!(body(&shallow("")), body(&shallow(" ")));
    }

    #[test]
    fn parts_cut_elsewhere_are_other_parts() {
        let print = |a: &'static str, b| Fingerprint::new().text(a, b).print();
        assert_ne!(print("a", "bc"), print("ab", "c"));
        let query = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(k, v)| (k.as_bytes(), v.as_bytes()));
            Fingerprint::new().pairs("query", pairs).print()
        };
        assert_eq!(query(&[("b", "2"), ("a", "1")]), query(&[("a", "1"), ("b", "2")]));
        assert_ne!(query(&[("a", "1"), ("a", "2")]), query(&[("a", "2"), ("a", "1")]));
    }

    #[test]
    fn either_version_of_the_rule_recognises_a_request() {
        let (old, new) = (body("1"), body("2"));
        let upgraded = Prints::new(new, Some(old));
        assert!(upgraded.matches(&Prints::new(old, None)));
        assert!(upgraded.matches(&Prints::new(new, None)));
        assert!(!upgraded.matches(&Prints::new(body("3"), None)));
        assert!(upgraded.matches(&Prints::NONE));
        assert_eq!(Prints::from_stored(&upgraded.to_stored()), upgraded);
    }
}
