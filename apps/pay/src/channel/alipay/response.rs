//! Raw answer → the one slice that was verified.
//!
//! Invariant: what is returned is the very text that the signature covers, cut from the raw
//! answer; node and signature each occur exactly once. Held by the `response` vectors and by
//! `no_mutated_answer_is_believed`.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{answer::Head, key::Verifier};
use crate::channel::{Cause, Said};

/// A real answer has three members; a few more may be added by Alipay one day.
const MEMBERS_MAX: usize = 16;

/// The verified part of an answer, as raw JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// What the method answered.
    Answer(&'a str),
    /// What the gateway said before any method saw the request.
    Error(&'a str),
}

/// Opens an answer whose node is called `name`, if `verifier` vouches for it.
///
/// # Errors
///
/// Every error leaves the outcome of the call unknown.
pub fn open<'a>(raw: &'a [u8], name: &str, verifier: &Verifier) -> Result<Node<'a>, Cause> {
    let text = str::from_utf8(raw).map_err(|_| Cause::Unreadable("bytes that are not UTF-8"))?;
    let members: Members<'_> =
        serde_json::from_str(text).map_err(|_| Cause::Unreadable("no JSON object"))?;
    let node = match (members.only(name)?, members.only("error_response")?) {
        (Some(answer), None) => Node::Answer(answer),
        (None, Some(error)) => Node::Error(error),
        (Some(_), Some(_)) => return Err(Cause::Unreadable("both an answer and an error")),
        (None, None) => return Err(Cause::Unreadable("no node for the method")),
    };
    let (Node::Answer(slice) | Node::Error(slice)) = node;
    if !slice.starts_with('{') {
        return Err(Cause::Unreadable("a node that is not an object"));
    }
    let signature = members.only("sign")?.map(string).transpose()?.unwrap_or_default();
    if signature.is_empty() {
        return Err(Cause::Unsigned(
            Head::read(slice).map_or_else(|_| Said::default(), Head::said),
        ));
    }
    if let Some(pinned) = verifier.pinned_serial() {
        let serial = members.only("alipay_cert_sn")?.map(string).transpose()?;
        let serial = serial.ok_or(Cause::Unreadable("no alipay_cert_sn"))?;
        if serial != pinned {
            return Err(Cause::OtherCertificate(Said::new(&serial, "").code));
        }
    }
    if !verifier.key().verifies(slice.as_bytes(), signature.as_bytes()) {
        return Err(Cause::Forged);
    }
    Ok(node)
}

fn string(raw: &str) -> Result<String, Cause> {
    serde_json::from_str(raw).map_err(|_| Cause::Unreadable("a signature that is not a string"))
}

/// The members of a JSON object in raw text, in order, repeats included.
struct Members<'a>(Vec<(String, &'a str)>);

impl<'a> Members<'a> {
    fn only(&self, name: &str) -> Result<Option<&'a str>, Cause> {
        let mut found = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| *value);
        match (found.next(), found.next()) {
            (first, None) => Ok(first),
            _ => Err(Cause::Unreadable("a member twice, so that two readers could differ")),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Members)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of at most {MEMBERS_MAX} members")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.len() == MEMBERS_MAX {
                return Err(serde::de::Error::invalid_length(MEMBERS_MAX + 1, &self));
            }
            members.push((key, value.get()));
        }
        Ok(members)
    }
}
