//! What a batch tells a statement: rows of one JSON array.
//!
//! Spans go out as spans: the statement adds them to the one moment that it reads.

use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::dialect::Dialect;
use crate::error::{Error, Kind};
use hapax_core::{
    Fence, Id, Outcome, PRINT_BYTES, Retention, Timestamp, millis,
    store::{Claim, Ruling, Step, bounded_note},
};

/// Longest text of one JSON array. Larger batches go out in several statements: an array is
/// parsed as a whole and held in memory twice.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a step does to its record. Holders come first: a claim may wait for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Deed {
    Renew,
    Checkpoint,
    Complete,
    Doubt,
    Release,
    SettleCompleted,
    SettleOpen,
    Claim,
}

impl Deed {
    #[expect(clippy::wildcard_enum_match_arm, reason = "a later core may know more steps")]
    pub(super) fn of(step: &Step) -> Result<Self, Error> {
        Ok(match step {
            Step::Claim(_) => Self::Claim,
            Step::Renew { .. } => Self::Renew,
            Step::Checkpoint { .. } => Self::Checkpoint,
            Step::Complete { .. } => Self::Complete,
            Step::Doubt { .. } => Self::Doubt,
            Step::Release { .. } => Self::Release,
            Step::Settle { ruling: Ruling::Completed { .. }, .. } => Self::SettleCompleted,
            Step::Settle { ruling: Ruling::NothingHappened { .. }, .. } => Self::SettleOpen,
            _ => {
                return Err(Error::new(Kind::Invalid, "take a step that this build does not know"));
            }
        })
    }

    /// The changes that are tried, one after the other, until a row was changed.
    pub(super) fn changes<D: Dialect>(self) -> &'static [&'static str] {
        match self {
            Self::Claim => const { &[D::CLAIM_INSERT, D::CLAIM_REUSE, D::CLAIM_RETAKE] },
            Self::Renew => const { &[D::RENEW] },
            Self::Checkpoint => const { &[D::CHECKPOINT] },
            Self::Complete => const { &[D::COMPLETE] },
            Self::Doubt => const { &[D::DOUBT] },
            Self::Release => const { &[D::RELEASE] },
            Self::SettleCompleted => const { &[D::SETTLE_COMPLETED] },
            Self::SettleOpen => const { &[D::SETTLE_OPEN] },
        }
    }
}

/// A claim.
#[derive(Serialize)]
struct ClaimRow<'a> {
    #[serde(serialize_with = "hex")]
    id: Id,
    #[serde(serialize_with = "hex")]
    nonce: [u8; 16],
    scope: &'static str,
    tenant: &'a str,
    subject: &'a str,
    operation: &'a str,
    key: &'a str,
    class: u8,
    /// All prints, as they are stored.
    #[serde(serialize_with = "hex")]
    prints: Vec<u8>,
    /// Each print, as it is compared.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_hex")]
    print: Option<[u8; PRINT_BYTES]>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_hex")]
    older_print: Option<[u8; PRINT_BYTES]>,
    lease: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retake_after: Option<i64>,
    /// How long after the first attempt the last take-over may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    retake_for: Option<i64>,
    attempts_max: u32,
    caller: &'a str,
}

/// A step of a holder or of a judge.
#[derive(Serialize)]
struct FencedRow<'a> {
    #[serde(serialize_with = "hex")]
    id: Id,
    epoch: i64,
    #[serde(serialize_with = "hex")]
    nonce: [u8; 16],
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_hex")]
    bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A step as a row of its sheet.
pub(super) fn row(step: &Step) -> Result<String, Error> {
    let fenced = |fence: &Fence| FencedRow::of(fence);
    match step {
        Step::Claim(claim) => text(&ClaimRow::of(claim)),
        Step::Renew { fence, lease } => {
            text(&FencedRow { lease: Some(millis(*lease)), ..fenced(fence) })
        }
        Step::Checkpoint { fence, point } => {
            text(&FencedRow { bytes: Some(point.clone()), ..fenced(fence) })
        }
        Step::Complete { fence, outcome, retention } => completion(fence, outcome, *retention),
        Step::Doubt { fence, why } => {
            text(&FencedRow { note: Some(bounded_note(why)), ..fenced(fence) })
        }
        Step::Release { fence, memory } => {
            text(&FencedRow { memory: Some(millis(*memory)), ..fenced(fence) })
        }
        Step::Settle { id, seen, nonce, ruling, by, reason } => {
            let row = FencedRow {
                actor: Some(by.as_str()),
                note: Some(bounded_note(reason)),
                ..fenced(&Fence { id: *id, epoch: *seen, nonce: *nonce })
            };
            match ruling {
                Ruling::Completed { outcome, retention } => text(&row.kept(outcome, *retention)),
                Ruling::NothingHappened { memory } => {
                    text(&FencedRow { memory: Some(millis(*memory)), ..row })
                }
            }
        }
        _ => Err(Error::new(Kind::Invalid, "take a step that this build does not know")),
    }
}

/// The last word of an attempt, as a row of its sheet.
pub(super) fn completion(
    fence: &Fence,
    outcome: &Outcome,
    retention: Retention,
) -> Result<String, Error> {
    text(&FencedRow::of(fence).kept(outcome, retention))
}

impl<'a> ClaimRow<'a> {
    fn of(claim: &'a Claim) -> Self {
        let scope = claim.identity.scope();
        let terms = claim.effect.terms(Timestamp::from_millis(0));
        let mut prints = claim.prints.iter().map(|print| *print.as_bytes());
        Self {
            id: claim.id,
            nonce: *claim.nonce.as_bytes(),
            scope: scope.kind(),
            tenant: scope.tenant().as_str(),
            subject: scope.subject(),
            operation: claim.identity.operation().as_str(),
            key: claim.identity.key(),
            class: terms.class.to_stored(),
            prints: claim.prints.to_stored(),
            print: prints.next(),
            older_print: prints.next(),
            lease: millis(claim.lease),
            retake_after: terms.retake_after.map(millis),
            retake_for: terms.retake_until.map(Timestamp::as_millis),
            attempts_max: claim.attempts_max,
            caller: claim.caller.as_str(),
        }
    }
}

impl FencedRow<'_> {
    fn of(fence: &Fence) -> Self {
        Self {
            id: fence.id,
            epoch: fence.epoch.get(),
            nonce: *fence.nonce.as_bytes(),
            lease: None,
            bytes: None,
            keep: None,
            grace: None,
            memory: None,
            actor: None,
            note: None,
        }
    }

    fn kept(self, outcome: &Outcome, retention: Retention) -> Self {
        Self {
            bytes: Some(outcome.to_stored()),
            keep: retention.keep.map(millis),
            grace: Some(millis(retention.grace)),
            ..self
        }
    }
}

fn text<T: Serialize>(row: &T) -> Result<String, Error> {
    serde_json::to_string(row)
        .map_err(|cause| Error::caused(Kind::Invalid, "write a step as JSON", cause))
}

/// The rows as JSON arrays, each of a bounded length unless one row alone is longer.
pub(super) fn sheets<'a>(rows: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut sheets = Vec::new();
    let mut sheet = String::new();
    for row in rows {
        if !sheet.is_empty() && sheet.len() + row.len() > TEXT_BYTES_MAX {
            sheet.push(']');
            sheets.push(std::mem::take(&mut sheet));
        }
        sheet.push(if sheet.is_empty() { '[' } else { ',' });
        sheet.push_str(row);
    }
    if !sheet.is_empty() {
        sheet.push(']');
        sheets.push(sheet);
    }
    sheets
}

/// Ids as a JSON array of hex digits.
pub(super) fn ids(ids: &[Id]) -> String {
    let mut text = String::with_capacity(2 + ids.len() * 67);
    for id in ids {
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push('"');
        push_hex(&mut text, id.as_bytes());
        text.push('"');
    }
    if text.is_empty() {
        text.push('[');
    }
    text.push(']');
    text
}

trait Octets {
    fn octets(&self) -> &[u8];
}

impl Octets for Id {
    fn octets(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<const N: usize> Octets for [u8; N] {
    fn octets(&self) -> &[u8] {
        self
    }
}

impl Octets for Vec<u8> {
    fn octets(&self) -> &[u8] {
        self
    }
}

impl Octets for Bytes {
    fn octets(&self) -> &[u8] {
        self
    }
}

fn hex<S: Serializer>(value: &impl Octets, serializer: S) -> Result<S::Ok, S::Error> {
    let octets = value.octets();
    let mut text = String::with_capacity(octets.len() * 2);
    push_hex(&mut text, octets);
    serializer.serialize_str(&text)
}

#[expect(clippy::ref_option, reason = "the shape is serde's")]
fn maybe_hex<S: Serializer>(value: &Option<impl Octets>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => hex(value, serializer),
        None => serializer.serialize_none(),
    }
}

pub(super) fn push_hex(text: &mut String, octets: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for octet in octets {
        for nibble in [octet >> 4, octet & 0x0F] {
            #[expect(clippy::indexing_slicing, reason = "a nibble is below 16")]
            text.push(DIGITS[usize::from(nibble)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_batch_goes_out_in_several_sheets() {
        let rows = vec![format!("\"{}\"", "x".repeat(TEXT_BYTES_MAX / 2)); 3];
        let sheets = sheets(rows.iter().map(String::as_str));
        assert_eq!(sheets.len(), 3, "two rows and their commas are over the bound");
        for (sheet, row) in sheets.iter().zip(&rows) {
            assert_eq!(*sheet, format!("[{row}]"));
        }
    }

    #[test]
    fn ids_are_written_as_hex() {
        assert_eq!(ids(&[]), "[]");
        let id = Id::from_stored([0xA5; 32]);
        assert_eq!(ids(&[id, id]), format!("[\"{0}\",\"{0}\"]", "a5".repeat(32)));
    }
}
