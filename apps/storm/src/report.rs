//! What an attack comes back with.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rule::Rule;
use crate::script::Story;

/// What came of an attack.
///
/// Its numbers are what the attacker saw. Who wants to know what really happened counts in the
/// service's database and at the channel.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed; with the same plan it gives the same workload.
    pub seed: u64,
    /// The whole in one word.
    pub verdict: Verdict,
    /// Orders in the plan, without those of other tenants under the same number.
    pub orders: u32,
    /// Orders whose story was played to its end.
    pub orders_ended: u32,
    /// Orders by what happened to them.
    pub stories: BTreeMap<Story, u32>,
    /// One line for each rule.
    pub rules: Vec<RuleLine>,
    /// Evidence, in the order in which it came up.
    pub findings: Vec<Finding>,
    /// Findings beyond those that are kept.
    pub findings_left_out: u64,
    /// What was sent and what came back.
    pub counts: Counts,
    /// What the merchant's endpoint saw.
    pub notices: NoticeCounts,
    /// How long answers took, by kind of request.
    pub latency: BTreeMap<String, Latency>,
    /// How long the attack took.
    pub took_ms: u64,
}

impl Report {
    /// How often a rule was found broken.
    #[must_use]
    pub fn broken(&self, rule: Rule) -> u64 {
        self.rules.iter().find(|line| line.rule == rule).map_or(0, |line| line.broken)
    }

    /// How often a rule was looked at.
    #[must_use]
    pub fn checked(&self, rule: Rule) -> u64 {
        self.rules.iter().find(|line| line.rule == rule).map_or(0, |line| line.checked)
    }
}

/// The whole in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Everything was played and no rule was found broken.
    Held,
    /// A rule was found broken.
    Broken,
    /// No rule was found broken, but the attack was stopped before its end.
    Unfinished,
}

/// What is known of one rule.
#[derive(Clone, Debug, Serialize)]
pub struct RuleLine {
    /// The rule.
    pub rule: Rule,
    /// Its promise in one sentence.
    pub promise: &'static str,
    /// How often it was looked at; a rule with 0 was not tested.
    pub checked: u64,
    /// How often it was found broken.
    pub broken: u64,
}

/// A rule found broken, with what shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Whose order it was.
    pub tenant: String,
    /// The order.
    pub order_id: String,
    /// What was sent and seen.
    pub evidence: String,
}

/// What was sent and what came back.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Requests to make a payment, not counting their retries.
    pub submits: u64,
    /// Requests sent to the service, retries included.
    pub sent: u64,
    /// Requests sent once more with the same key or number.
    pub retries: u64,
    /// Requests that got no answer because there was no connection or it broke.
    pub unreachable: u64,
    /// Requests that got no answer in time.
    pub timeouts: u64,
    /// Requests that the attacker hung up on.
    pub hang_ups: u64,
    /// Answers marked as replays.
    pub replays: u64,
    /// Orders of other tenants under the same number and the same key text.
    pub shadows: u64,
    /// Tokens that were issued.
    pub tokens: u64,
    /// Payments that a buyer made at the channel.
    pub paid: u64,
    /// Payments that the channel refused, such as one that came too late.
    pub paid_refused: u64,
    /// Requests to close a payment.
    pub closes: u64,
    /// Requests to refund.
    pub refunds: u64,
    /// Buyers who were set to act at a moment of the channel.
    pub hooks: u64,
    /// Callbacks that the channel was made to send once more.
    pub echoes: u64,
    /// Answers by HTTP status.
    pub by_status: BTreeMap<u16, u64>,
    /// Refusals by their code.
    pub by_code: BTreeMap<String, u64>,
}

/// What the merchant's endpoint saw.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NoticeCounts {
    /// Deliveries that arrived.
    pub deliveries: u64,
    /// Deliveries of an event that was new.
    pub first: u64,
    /// Deliveries of an event that was known.
    pub repeats: u64,
    /// Deliveries without a good signature.
    pub forged: u64,
    /// Deliveries that overtook an earlier event of the same order.
    pub overtaking: u64,
    /// Deliveries that were refused on purpose.
    pub refused: u64,
    /// Deliveries that were left without an answer for a while on purpose.
    pub held: u64,
    /// Events by type.
    pub by_type: BTreeMap<String, u64>,
}

/// How long answers took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Answers that were timed.
    pub samples: u64,
    /// The median.
    pub p50_ms: f64,
    /// Nine of ten took no longer.
    pub p90_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}
