//! The account of a run and its verdict.

use std::{fmt::Write, process::ExitStatus};

use serde::Serialize;
use serde_json::Value;

use super::{Asked, check::Findings};

/// Findings that are told in words; a run with more of them needs no further proof.
const WRONG_MAX: usize = 100;

/// What a run proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::demo) enum Verdict {
    /// Nothing was duplicated and nothing was lost, and every kind of trouble happened.
    Pass,
    /// Something was duplicated or lost.
    Fail,
    /// Some kind of trouble did not happen.
    Void,
}

/// The account of a run. Each figure says where it was counted.
#[derive(Clone, Debug, Serialize)]
pub(in crate::demo) struct Account {
    /// Orders in the database.
    pub(super) orders: u64,
    /// Requests to create a payment, in the service's journal of requests; what a kill caught in
    /// memory is missing.
    pub(super) submits: u64,
    /// Requests that were answered with an earlier answer, in the same journal.
    pub(super) replays: u64,
    /// Attempts in the database.
    pub(super) payments: u64,
    /// Purchases that two attempts pay, orders with two attempts that can be paid, and trades for
    /// which the channel took money more than once.
    pub(super) duplicate_payments: u64,
    /// Genuine callbacks that the channel sent.
    pub(super) callbacks: u64,
    /// Of these, repeats of an event that was sent before.
    pub(super) repeated_callbacks: u64,
    /// Lines too many in the ledger of effects.
    pub(super) duplicate_effects: u64,
    /// Trades that were paid at the channel.
    pub(super) paid_at_channel: u64,
    /// Attempts that are paid in the database.
    pub(super) paid_here: u64,
    /// Benefits in the database.
    pub(super) benefits: u64,
    /// Benefits that were granted more than once, by the ledger.
    pub(super) duplicate_benefits: u64,
    /// Benefits that were taken away, by the ledger.
    pub(super) benefits_revoked: u64,
    /// Refunds that the channel made.
    pub(super) refunds: u64,
    /// Refund numbers under which the channel paid more than once, or not what was asked for.
    pub(super) duplicate_refunds: u64,
    /// Paid and not booked, booked and not paid, refunded on one side only, money without its
    /// benefit, surplus money that stayed, messages given up, records left unfinished, or anything
    /// still under way.
    pub(super) lost: u64,
    /// Callbacks that the channel never sent.
    pub(super) lost_callbacks: u64,
    /// Buyers who paid between a question and the close.
    pub(super) close_races: u64,
    /// Buyers who paid after the time was over, or after a close found nothing.
    pub(super) late_payments: u64,
    /// Money that came late or twice.
    pub(super) surplus: u64,
    /// Calls that the channel broke on purpose.
    pub(super) broken_calls: u64,
    /// Forged callbacks that the channel's attacker sent.
    pub(super) forged_callbacks: u64,
    /// Of these, the ones that the service acknowledged.
    pub(super) forged_accepted: u64,
    /// Starts of the service that were never stopped in order, but the last.
    pub(super) kills: u64,
    /// Decides the workload.
    pub(super) seed: u64,
    /// What is wrong, in words; the first hundred findings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::demo) wrong: Vec<String>,
    /// What did not happen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
    /// The whole in one word.
    pub(in crate::demo) verdict: Verdict,
}

impl Account {
    /// Weighs what was found and what happened.
    pub(super) fn judge(mut self, findings: &Findings, asked: Asked) -> Self {
        let happened = [
            ("every order", self.orders >= u64::from(asked.orders)),
            ("repeated callbacks", self.repeated_callbacks > 0),
            ("lost callbacks", self.lost_callbacks > 0),
            ("close races", self.close_races > 0),
            ("late payments", self.late_payments > 0),
            ("refunds", self.refunds > 0),
            ("revoked benefits", self.benefits_revoked > 0),
            ("replays", self.replays > 0),
            ("broken calls", self.broken_calls > 0),
            ("forged callbacks", self.forged_callbacks > 0),
            ("kills", self.kills > 0),
        ];
        for (what, _) in happened.into_iter().filter(|(_, happened)| !happened) {
            self.add_missing(what);
        }
        for sentence in findings.sentences() {
            self.add_wrong(sentence);
        }
        self
    }

    /// Adds what the attacker found in the answers themselves, and whether it played to the end.
    pub(in crate::demo) fn add_findings(&mut self, report: &hapax_storm::Report) {
        for finding in &report.findings {
            let promise = finding.rule.promise();
            self.add_wrong(format!("it does not hold that {promise}: {}", finding.evidence));
        }
        match report.verdict {
            hapax_storm::Verdict::Held | hapax_storm::Verdict::Broken => {}
            // The attack was cut short, or ended in a way that this build does not know.
            _ => self.add_missing("the end of the attack"),
        }
    }

    /// Adds how the service ended when it was told to stop.
    pub(in crate::demo) fn add_stop(&mut self, ended: Option<ExitStatus>) {
        if !ended.is_some_and(|status| status.success()) {
            self.add_wrong("the service did not stop in order".to_owned());
        }
    }

    /// The account as people read it, one figure a line.
    pub(in crate::demo) fn to_text(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let figures = serde_json::to_value(self)?;
        for (name, value) in figures.as_object().into_iter().flatten() {
            let lines = match value {
                Value::Array(lines) => lines.as_slice(),
                value => std::slice::from_ref(value),
            };
            for line in lines {
                let line = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
                writeln!(text, "{name:<22} {line}")?;
            }
        }
        if self.verdict == Verdict::Pass {
            text.push_str("\nNothing was duplicated and nothing was lost.\n");
        }
        Ok(text)
    }

    fn add_wrong(&mut self, sentence: String) {
        self.verdict = Verdict::Fail;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(sentence);
        }
    }

    fn add_missing(&mut self, what: &str) {
        self.missing.push(what.to_owned());
        // What is wrong stays wrong.
        if self.verdict == Verdict::Pass {
            self.verdict = Verdict::Void;
        }
    }
}
