//! What a batch tells a statement: rows of one JSON array, times already added up.
//!
//! Spans are added to the store's now here, by core's rule, so that no engine adds in its own.

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::error::{Error, Kind};
use hapax_core::{
    Actor, Epoch, Fence, Id, Outcome, PRINT_BYTES, Retention, Timestamp, millis,
    store::{Claim, Event, Ruling, Step, bounded_note},
};

/// Longest text of one JSON array. Larger batches go out in several statements: an array is
/// parsed as a whole and held in memory twice.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The steps of a batch, sorted by what they do.
#[derive(Default)]
pub(super) struct Sheets<'a> {
    pub(super) claims: Vec<ClaimRow<'a>>,
    pub(super) renewals: Vec<FencedRow>,
    pub(super) checkpoints: Vec<FencedRow>,
    pub(super) completions: Vec<FencedRow>,
    pub(super) doubts: Vec<FencedRow>,
    pub(super) releases: Vec<FencedRow>,
    pub(super) settled: Vec<FencedRow>,
    pub(super) reopened: Vec<FencedRow>,
}

/// A claim.
#[derive(Serialize)]
pub(super) struct ClaimRow<'a> {
    #[serde(serialize_with = "hex")]
    pub(super) id: Id,
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
    #[serde(serialize_with = "maybe_hex")]
    print: Option<[u8; PRINT_BYTES]>,
    #[serde(serialize_with = "maybe_hex")]
    older_print: Option<[u8; PRINT_BYTES]>,
    lease_until: i64,
    retake_after: Option<i64>,
    /// The end of take-overs if this is the first attempt.
    retake_until: Option<i64>,
    /// The same, counted from the first attempt.
    window: Option<i64>,
    attempts_max: u32,
    caller: &'a str,
}

/// A step of a holder or of a judge.
#[derive(Serialize)]
pub(super) struct FencedRow {
    #[serde(serialize_with = "hex")]
    id: Id,
    epoch: i64,
    #[serde(serialize_with = "hex")]
    nonce: [u8; 16],
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_hex")]
    bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse_at: Option<i64>,
}

/// A line of the journal. Without an actor it is the record's caller.
#[derive(Serialize)]
pub(super) struct JournalRow<'a> {
    #[serde(serialize_with = "hex")]
    pub(super) id: Id,
    pub(super) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<&'a str>,
    pub(super) note: String,
}

impl<'a> Sheets<'a> {
    /// Enters a step that is taken at `now`.
    pub(super) fn enter(&mut self, step: &'a Step, now: Timestamp) -> Result<(), Error> {
        match step {
            Step::Claim(claim) => self.claims.push(ClaimRow::new(claim, now)),
            Step::Renew { fence, lease } => {
                let until = Some(now.plus(*lease).as_millis());
                self.renewals.push(FencedRow { until, ..FencedRow::of(fence) });
            }
            Step::Checkpoint { fence, point } => {
                let bytes = Some(point.clone());
                self.checkpoints.push(FencedRow { bytes, ..FencedRow::of(fence) });
            }
            Step::Complete { fence, outcome, retention } => {
                self.completions.push(FencedRow::completion(fence, outcome, *retention, now));
            }
            Step::Doubt { fence, .. } => self.doubts.push(FencedRow::of(fence)),
            Step::Release { fence, memory } => {
                self.releases.push(FencedRow::of(fence).open(fence.epoch, now.plus(*memory)));
            }
            Step::Settle { id, seen, nonce, ruling, .. } => {
                let row = FencedRow::of(&Fence { id: *id, epoch: *seen, nonce: *nonce });
                let epoch = Epoch::after(Some(*seen), now);
                match ruling {
                    Ruling::Completed { outcome, retention } => {
                        self.settled.push(row.completed(epoch, outcome, *retention, now));
                    }
                    Ruling::NothingHappened { memory } => {
                        self.reopened.push(row.open(epoch, now.plus(*memory)));
                    }
                }
            }
            _ => {
                return Err(Error::new(Kind::Invalid, "take a step that this build does not know"));
            }
        }
        Ok(())
    }
}

impl<'a> ClaimRow<'a> {
    fn new(claim: &'a Claim, now: Timestamp) -> Self {
        let (scope, terms) = (claim.identity.scope(), claim.effect.terms(now));
        let window = claim.effect.terms(Timestamp::from_millis(0)).retake_until;
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
            lease_until: now.plus(claim.lease).as_millis(),
            retake_after: terms.retake_after.map(millis),
            retake_until: terms.retake_until.map(Timestamp::as_millis),
            window: window.map(Timestamp::as_millis),
            attempts_max: claim.attempts_max,
            caller: claim.caller.as_str(),
        }
    }
}

impl FencedRow {
    fn of(fence: &Fence) -> Self {
        Self {
            id: fence.id,
            epoch: fence.epoch.get(),
            nonce: *fence.nonce.as_bytes(),
            until: None,
            bytes: None,
            expires_at: None,
            reuse_at: None,
        }
    }

    /// The last word of an attempt.
    pub(super) fn completion(
        fence: &Fence,
        outcome: &Outcome,
        retention: Retention,
        now: Timestamp,
    ) -> Self {
        Self::of(fence).completed(fence.epoch, outcome, retention, now)
    }

    fn completed(
        self,
        epoch: Epoch,
        outcome: &Outcome,
        retention: Retention,
        now: Timestamp,
    ) -> Self {
        let reuse_at = retention.reuse_at(now).map(|planned| epoch.reusable_from(planned));
        Self {
            bytes: Some(outcome.to_stored()),
            expires_at: retention.expires_at(now).map(Timestamp::as_millis),
            reuse_at: reuse_at.map(Timestamp::as_millis),
            ..self
        }
    }

    fn open(self, epoch: Epoch, planned: Timestamp) -> Self {
        Self { reuse_at: Some(epoch.reusable_from(planned).as_millis()), ..self }
    }
}

impl<'a> JournalRow<'a> {
    pub(super) fn new(id: Id, event: Event) -> Self {
        Self { id, event: event.as_str(), actor: None, note: String::new() }
    }

    pub(super) fn by(self, actor: &'a Actor) -> Self {
        Self { actor: Some(actor.as_str()), ..self }
    }

    pub(super) fn because(self, reason: &str) -> Self {
        Self { note: bounded_note(reason), ..self }
    }
}

/// The rows as JSON arrays, each of a bounded length unless one row alone is longer.
pub(super) fn texts<T: Serialize>(rows: &[T]) -> Result<Vec<String>, Error> {
    let mut texts = Vec::new();
    let mut text = String::new();
    for row in rows {
        let row = serde_json::to_string(row)
            .map_err(|cause| Error::caused(Kind::Invalid, "write a batch as JSON", cause))?;
        if !text.is_empty() && text.len() + row.len() > TEXT_BYTES_MAX {
            text.push(']');
            texts.push(std::mem::take(&mut text));
        }
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push_str(&row);
    }
    if !text.is_empty() {
        text.push(']');
        texts.push(text);
    }
    Ok(texts)
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

fn push_hex(text: &mut String, octets: &[u8]) {
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
    fn a_long_batch_goes_out_in_several_texts() {
        let rows = vec!["x".repeat(TEXT_BYTES_MAX / 2); 3];
        let texts = texts(&rows).unwrap();
        assert_eq!(texts.len(), 3, "two rows and their commas are over the bound");
        let again: Vec<Vec<String>> =
            texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(again.concat(), rows);
    }

    #[test]
    fn ids_are_written_as_hex() {
        assert_eq!(ids(&[]), "[]");
        let id = Id::from_stored([0xA5; 32]);
        assert_eq!(ids(&[id, id]), format!("[\"{0}\",\"{0}\"]", "a5".repeat(32)));
    }
}
