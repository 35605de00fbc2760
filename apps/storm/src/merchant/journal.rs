//! What was delivered, and whether it was in order: pure.
//!
//! Invariant: an event that was acknowledged once is a repeat ever after, and the judgement of a
//! delivery depends on the deliveries before it alone (`an_event_that_overtakes_is_noticed`).

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::report::NoticeCounts;
use crate::rule::Rule;

/// Events kept; beyond it, notices are refused, which is in the report as what never arrived.
const EVENTS_MAX: usize = 500_000;

/// Types that are told apart.
const TYPES_MAX: usize = 50;

/// A notice as it was delivered.
#[derive(Clone, Debug)]
pub(crate) struct Delivered<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) event_id: &'a str,
    pub(crate) sequence: u64,
    pub(crate) body: &'a [u8],
    pub(crate) notice: Notice,
}

/// The body of a notice.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Notice {
    pub(crate) event_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) tenant: String,
    pub(crate) order_id: String,
    #[serde(default)]
    pub(crate) round: u32,
    #[serde(default)]
    pub(crate) payment_no: String,
    #[serde(default)]
    pub(crate) benefit: Option<String>,
}

/// Whether an event came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    First,
    Again,
    /// There is no place for another event.
    Full,
}

/// A rule that a delivery breaks, and how.
pub(crate) type Broken = (Rule, String);

/// Everything that was delivered.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: HashMap<String, Event>,
    /// By tenant and order.
    lines: HashMap<(String, String), Line>,
    /// The event of each fact.
    facts: HashMap<Fact, String>,
    /// Acknowledged events by tenant, type and payment.
    acknowledged: HashMap<(String, String, String), u32>,
    pub(crate) counts: NoticeCounts,
}

#[derive(Debug)]
struct Event {
    sequence: u64,
    /// SHA-256 of the body.
    digest: [u8; 32],
    is_acknowledged: bool,
}

/// The events of one order.
#[derive(Debug, Default)]
struct Line {
    /// The highest sequence that came.
    last: u64,
    /// Events that came and were not acknowledged yet, by sequence.
    open: BTreeMap<u64, String>,
}

/// Something that can be true only once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fact {
    tenant: String,
    kind: String,
    subject: String,
}

impl Journal {
    /// Books a delivery whose signature was good.
    pub(crate) fn arrive(&mut self, delivered: &Delivered<'_>) -> (Arrival, Vec<Broken>) {
        self.counts.deliveries += 1;
        if let Some(event) = self.events.get(delivered.event_id) {
            self.counts.repeats += 1;
            return (Arrival::Again, event.differences(delivered));
        }
        if self.events.len() >= EVENTS_MAX {
            return (Arrival::Full, Vec::new());
        }
        self.counts.first += 1;
        self.count_type(&delivered.notice.kind);
        let mut broken = self.out_of_line(delivered);
        broken.extend(self.told_before(delivered));
        let event = Event {
            sequence: delivered.sequence,
            digest: Sha256::digest(delivered.body).into(),
            is_acknowledged: false,
        };
        self.events.insert(delivered.event_id.to_owned(), event);
        (Arrival::First, broken)
    }

    /// Books that a delivery was answered with success.
    pub(crate) fn acknowledge(&mut self, delivered: &Delivered<'_>) {
        let Some(event) = self.events.get_mut(delivered.event_id) else { return };
        if std::mem::replace(&mut event.is_acknowledged, true) {
            return;
        }
        let sequence = event.sequence;
        if let Some(line) = self.lines.get_mut(&line_of(delivered)) {
            line.open.remove(&sequence);
        }
        let Notice { kind, payment_no, .. } = &delivered.notice;
        let key = (delivered.tenant.to_owned(), kind.clone(), payment_no.clone());
        *self.acknowledged.entry(key).or_default() += 1;
    }

    /// Whether an event of one of these types was acknowledged for a payment.
    pub(crate) fn knows(&self, tenant: &str, payment_no: &str, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| {
            let key = (tenant.to_owned(), (*kind).to_owned(), payment_no.to_owned());
            self.acknowledged.contains_key(&key)
        })
    }

    fn out_of_line(&mut self, delivered: &Delivered<'_>) -> Vec<Broken> {
        let line = self.lines.entry(line_of(delivered)).or_default();
        let mut broken = Vec::new();
        let Delivered { event_id, sequence, .. } = *delivered;
        if let Some((earlier, waiting)) = line.open.range(..sequence).next() {
            broken.push((
                Rule::NoticeInOrder,
                format!(
                    "event {event_id} (sequence {sequence}) came before event {waiting} \
                     (sequence {earlier}) was acknowledged"
                ),
            ));
        }
        if line.last >= sequence {
            broken.push((
                Rule::NoticeInOrder,
                format!("event {event_id} has sequence {sequence} after {}", line.last),
            ));
        }
        line.last = std::cmp::max(line.last, sequence);
        line.open.insert(sequence, event_id.to_owned());
        self.counts.overtaking += u64::from(!broken.is_empty());
        broken
    }

    fn told_before(&mut self, delivered: &Delivered<'_>) -> Option<Broken> {
        let fact = Fact::of(delivered)?;
        let event_id = delivered.event_id.to_owned();
        let Fact { kind, subject, .. } = &fact;
        let told = format!("{kind} of {subject} is told by a second event, {event_id}");
        let earlier = self.facts.insert(fact, event_id)?;
        Some((Rule::NoticeOnce, format!("{told}; the first was {earlier}")))
    }

    fn count_type(&mut self, kind: &str) {
        let types = &mut self.counts.by_type;
        if types.len() < TYPES_MAX || types.contains_key(kind) {
            *types.entry(kind.to_owned()).or_default() += 1;
        }
    }
}

impl Event {
    fn differences(&self, delivered: &Delivered<'_>) -> Vec<Broken> {
        let Delivered { event_id, sequence, .. } = *delivered;
        let digest: [u8; 32] = Sha256::digest(delivered.body).into();
        if (self.sequence, self.digest) == (sequence, digest) {
            return Vec::new();
        }
        let what = format!(
            "event {event_id} came with sequence {} and then with {sequence}; its bodies are {}",
            self.sequence,
            if self.digest == digest { "equal" } else { "different" }
        );
        vec![(Rule::NoticeOnce, what)]
    }
}

impl Fact {
    /// What an event says that can be true only once; refunds can be many.
    fn of(delivered: &Delivered<'_>) -> Option<Self> {
        let Notice { kind, order_id, round, payment_no, benefit, .. } = &delivered.notice;
        let subject = match (kind.as_str(), benefit) {
            ("payment.paid" | "payment.closed" | "payment.surplus", _) => payment_no.clone(),
            ("benefit.granted" | "benefit.revoked", Some(benefit)) => {
                format!("{benefit} of order {order_id}, round {round}")
            }
            _ => return None,
        };
        Some(Self { tenant: delivered.tenant.to_owned(), kind: kind.clone(), subject })
    }
}

fn line_of(delivered: &Delivered<'_>) -> (String, String) {
    (delivered.tenant.to_owned(), delivered.notice.order_id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(event_id: &'static str, sequence: u64, kind: &str) -> Delivered<'static> {
        let notice = Notice {
            event_id: event_id.to_owned(),
            kind: kind.to_owned(),
            tenant: "shop".to_owned(),
            order_id: "1".to_owned(),
            round: 1,
            payment_no: "P1".to_owned(),
            benefit: None,
        };
        Delivered { tenant: "shop", event_id, sequence, body: event_id.as_bytes(), notice }
    }

    fn rules(journal: &mut Journal, delivered: &Delivered<'_>) -> Vec<Rule> {
        journal.arrive(delivered).1.into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn a_repeat_is_no_second_event() {
        let mut journal = Journal::default();
        let paid = delivered("a", 1, "payment.paid");
        assert_eq!(journal.arrive(&paid).0, Arrival::First);
        assert!(!journal.knows("shop", "P1", &["payment.paid"]));
        assert_eq!(journal.arrive(&paid).0, Arrival::Again);
        journal.acknowledge(&paid);
        journal.acknowledge(&paid);
        assert_eq!(rules(&mut journal, &paid), []);
        assert!(journal.knows("shop", "P1", &["payment.surplus", "payment.paid"]));
        assert!(!journal.knows("other", "P1", &["payment.paid"]));
        let NoticeCounts { deliveries, first, repeats, .. } = journal.counts;
        assert_eq!((deliveries, first, repeats), (3, 1, 2));
    }

    #[test]
    fn an_event_that_overtakes_is_noticed() {
        let mut journal = Journal::default();
        let (paid, granted) = (delivered("a", 1, "payment.paid"), delivered("b", 2, "x"));
        journal.arrive(&paid);
        assert_eq!(rules(&mut journal, &granted), [Rule::NoticeInOrder]);
        let mut journal = Journal::default();
        journal.arrive(&paid);
        journal.acknowledge(&paid);
        assert_eq!(rules(&mut journal, &granted), []);
        journal.acknowledge(&granted);
        assert_eq!(rules(&mut journal, &delivered("c", 2, "x")), [Rule::NoticeInOrder]);
    }

    #[test]
    fn orders_do_not_wait_for_each_other() {
        let mut journal = Journal::default();
        journal.arrive(&delivered("a", 5, "payment.paid"));
        let mut other = delivered("b", 3, "payment.closed");
        other.notice.order_id = "2".to_owned();
        assert_eq!(rules(&mut journal, &other), []);
    }

    #[test]
    fn a_fact_is_told_by_one_event_and_an_event_keeps_its_content() {
        let mut journal = Journal::default();
        let paid = delivered("a", 1, "payment.paid");
        journal.arrive(&paid);
        journal.acknowledge(&paid);
        let again = delivered("b", 2, "payment.paid");
        assert_eq!(rules(&mut journal, &again), [Rule::NoticeOnce]);
        journal.acknowledge(&again);
        let mut other = delivered("a", 1, "payment.paid");
        other.body = b"changed";
        assert_eq!(rules(&mut journal, &other), [Rule::NoticeOnce]);
        let refund = |id| delivered(id, 9, "refund.done");
        journal.arrive(&refund("r1"));
        journal.acknowledge(&refund("r1"));
        let mut second = refund("r2");
        second.sequence = 10;
        assert_eq!(rules(&mut journal, &second), [], "a payment has many refunds");
    }
}
