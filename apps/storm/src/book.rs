//! What the attacker has seen so far.
//!
//! Invariant: it never grows beyond its bounds, however long the attack and however broken the
//! service (`the_book_stays_bounded`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::report::{Counts, Finding, Latency, RuleLine};
use crate::rule::Rule;

/// Findings kept. The first ones tell the story; the rest only say how often.
const FINDINGS_MAX: usize = 200;

/// Of one rule, so that a flood of one kind does not hide the others.
const FINDINGS_OF_RULE_MAX: u64 = 20;

/// Bytes of evidence kept of one finding.
const EVIDENCE_MAX: usize = 2_048;

/// Timings kept of one kind of request: four bytes each.
const TIMINGS_MAX: usize = 200_000;

/// Codes that are told apart; a service that makes up new ones does not fill our memory.
const CODES_MAX: usize = 100;

/// Whose order something is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) order_id: &'a str,
}

/// Everything seen, behind a lock that is never held over an await.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    counts: Counts,
    rules: BTreeMap<Rule, Tally>,
    findings: Vec<Finding>,
    left_out: u64,
    /// Microseconds.
    timings: BTreeMap<&'static str, Vec<u32>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    checked: u64,
    broken: u64,
}

/// Everything seen, to be put into the report.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) counts: Counts,
    pub(crate) rules: Vec<RuleLine>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) left_out: u64,
    pub(crate) latency: BTreeMap<String, Latency>,
}

/// Whether a rule had been found broken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    First,
    Known,
}

impl Book {
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.pages().counts);
    }

    /// Requests that found no connection, or a broken one.
    pub(crate) fn unreachable(&self) -> u64 {
        self.pages().counts.unreachable
    }

    pub(crate) fn answered(&self, status: u16, code: Option<String>) {
        let counts = &mut self.pages().counts;
        *counts.by_status.entry(status).or_default() += 1;
        if let Some(code) = code
            && (counts.by_code.len() < CODES_MAX || counts.by_code.contains_key(&code))
        {
            *counts.by_code.entry(code).or_default() += 1;
        }
    }

    pub(crate) fn timed(&self, kind: &'static str, took: Duration) {
        let mut pages = self.pages();
        let timings = pages.timings.entry(kind).or_default();
        if timings.len() < TIMINGS_MAX {
            timings.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        }
    }

    /// Books that a rule was looked at and held.
    pub(crate) fn held(&self, rule: Rule) {
        self.pages().rules.entry(rule).or_default().checked += 1;
    }

    /// Books that a rule was looked at and found broken.
    pub(crate) fn broken(&self, rule: Rule, about: About<'_>, evidence: &str) -> News {
        let mut pages = self.pages();
        let tally = pages.rules.entry(rule).or_default();
        tally.checked += 1;
        tally.broken += 1;
        let nth = tally.broken;
        if nth > FINDINGS_OF_RULE_MAX || pages.findings.len() >= FINDINGS_MAX {
            pages.left_out += 1;
        } else {
            let evidence = cut(evidence, EVIDENCE_MAX);
            let About { tenant, order_id } = about;
            let (tenant, order_id) = (tenant.to_owned(), order_id.to_owned());
            pages.findings.push(Finding { rule, tenant, order_id, evidence });
        }
        if nth == 1 { News::First } else { News::Known }
    }

    pub(crate) fn contents(&self) -> Contents {
        let pages = self.pages();
        let line = |rule: Rule| {
            let Tally { checked, broken } = pages.rules.get(&rule).copied().unwrap_or_default();
            RuleLine { rule, promise: rule.promise(), checked, broken }
        };
        let latency = |(kind, timings): (&&'static str, &Vec<u32>)| {
            let mut sorted = timings.clone();
            sorted.sort_unstable();
            ((*kind).to_owned(), percentiles(&sorted))
        };
        Contents {
            counts: pages.counts.clone(),
            rules: Rule::ALL.into_iter().map(line).collect(),
            findings: pages.findings.clone(),
            left_out: pages.left_out,
            latency: pages.timings.iter().map(latency).collect(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // A story that panicked left the book as it was between two entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The head of a text, at most this many bytes, cut between characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    let mut end = std::cmp::min(bytes_max, text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    if end == text.len() { head.to_owned() } else { format!("{head}…") }
}

/// `sorted` is ascending, in microseconds.
fn percentiles(sorted: &[u32]) -> Latency {
    let last = sorted.len().saturating_sub(1);
    let at = |hundredths: usize| {
        let place = last.saturating_mul(hundredths).div_ceil(100);
        sorted.get(place).copied().map_or(0.0, |micros| f64::from(micros) / 1_000.0)
    };
    Latency {
        samples: u64::try_from(sorted.len()).unwrap_or(u64::MAX),
        p50_ms: at(50),
        p90_ms: at(90),
        p99_ms: at(99),
        max_ms: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About<'static> = About { tenant: "shop", order_id: "1" };

    #[test]
    fn the_book_stays_bounded() {
        let book = Book::default();
        let long = "语".repeat(10_000);
        for rule in Rule::ALL {
            for nth in 0..50 {
                let news = book.broken(rule, ABOUT, &long);
                assert_eq!(news == News::First, nth == 0);
            }
        }
        for code in 0..1_000 {
            book.answered(409, Some(format!("code_{code}")));
        }
        let contents = book.contents();
        assert_eq!(contents.findings.len(), FINDINGS_MAX);
        let total = u64::try_from(Rule::ALL.len() * 50 - FINDINGS_MAX).unwrap();
        assert_eq!(contents.left_out, total);
        assert!(contents.findings.iter().all(|found| found.evidence.len() <= EVIDENCE_MAX + 3));
        assert_eq!(contents.counts.by_code.len(), CODES_MAX);
        assert!(contents.rules.iter().all(|line| line.checked == 50 && line.broken == 50));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("会员", 6), "会员");
        assert_eq!(cut("会员", 5), "会…");
        assert_eq!(cut("会员", 1), "…");
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let sorted: Vec<u32> = (0..=100).map(|ms| ms * 1_000).collect();
        let Latency { samples, p50_ms, p90_ms, p99_ms, max_ms } = percentiles(&sorted);
        assert_eq!(samples, 101);
        let whole = [p50_ms, p90_ms, p99_ms, max_ms].map(|ms| format!("{ms}"));
        assert_eq!(whole, ["50", "90", "99", "100"]);
        assert_eq!(percentiles(&[]), Latency::default());
    }
}
