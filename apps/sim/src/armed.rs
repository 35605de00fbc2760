//! The fault rules at work: counts how often each struck and throws the dice.
//!
//! Invariant: whether a rule strikes depends on the seed, the rule, the trade's number and how
//! often it was asked about that trade, never on what happens to other trades, so that two runs
//! with one seed agree whatever the scheduling (`the_same_seed_strikes_the_same_trades`).

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};

use crate::faults::{CallFault, Faults, Method, Moment, NoticeFault, RaceRule, When};

/// Throws remembered; beyond it the counts start again, which only costs reproducibility.
const THROWS_MAX: usize = 1_000_000;

/// Rules and how often each of them struck.
#[derive(Debug)]
pub(crate) struct Armed {
    faults: Faults,
    ledger: Strikes,
}

#[derive(Debug)]
struct Strikes {
    seed: u64,
    struck: HashMap<(Group, usize), u32>,
    throws: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    Call,
    Notice,
    Race,
    NotRefundable,
}

impl Armed {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let ledger = Strikes { seed, struck: HashMap::new(), throws: HashMap::new() };
        Self { faults, ledger }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Replaces all rules; their counts start again.
    pub(crate) fn replace(&mut self, faults: Faults) {
        self.faults = faults;
        self.ledger.struck.clear();
    }

    pub(crate) fn add_race(&mut self, race: RaceRule) -> Result<(), String> {
        let mut faults = self.faults.clone();
        faults.races.push(race);
        faults.check()?;
        self.faults = faults;
        Ok(())
    }

    /// The fault of one call, if one strikes.
    pub(crate) fn call(&mut self, method: Method, out_trade_no: &str) -> Option<CallFault> {
        let ledger = &mut self.ledger;
        self.faults
            .calls
            .iter()
            .enumerate()
            .find(|(index, rule)| {
                rule.method.is_none_or(|wanted| wanted == method)
                    && rule.fault.fits(method)
                    && ledger.strikes(Group::Call, *index, &rule.when, out_trade_no, method.name())
            })
            .map(|(_, rule)| rule.fault.clone())
    }

    /// The faults of a notice as a whole.
    pub(crate) fn notice(&mut self, out_trade_no: &str, subject: &str) -> Vec<NoticeFault> {
        self.notices(out_trade_no, subject, NoticeFault::is_of_the_notice)
    }

    /// The faults of one delivery.
    pub(crate) fn delivery(&mut self, out_trade_no: &str, subject: &str) -> Vec<NoticeFault> {
        self.notices(out_trade_no, subject, |fault| !fault.is_of_the_notice())
    }

    pub(crate) fn races(&mut self, moment: Moment, out_trade_no: &str) -> Vec<RaceRule> {
        let ledger = &mut self.ledger;
        self.faults
            .races
            .iter()
            .enumerate()
            .filter(|(index, race)| {
                race.at == moment
                    && ledger.strikes(Group::Race, *index, &race.when, out_trade_no, race.label())
            })
            .map(|(_, race)| race.clone())
            .collect()
    }

    pub(crate) fn is_not_refundable(&mut self, out_trade_no: &str) -> bool {
        let ledger = &mut self.ledger;
        self.faults
            .not_refundable
            .as_ref()
            .is_some_and(|when| ledger.strikes(Group::NotRefundable, 0, when, out_trade_no, ""))
    }

    fn notices(
        &mut self,
        out_trade_no: &str,
        subject: &str,
        wanted: impl Fn(&NoticeFault) -> bool,
    ) -> Vec<NoticeFault> {
        let ledger = &mut self.ledger;
        self.faults
            .notices
            .iter()
            .enumerate()
            .filter(|(index, rule)| {
                wanted(&rule.fault)
                    && ledger.strikes(Group::Notice, *index, &rule.when, out_trade_no, subject)
            })
            .map(|(_, rule)| rule.fault.clone())
            .collect()
    }
}

impl Strikes {
    fn strikes(
        &mut self,
        group: Group,
        index: usize,
        when: &When,
        out_trade_no: &str,
        subject: &str,
    ) -> bool {
        let elsewhere = when.out_trade_no.as_deref().is_some_and(|only| only != out_trade_no);
        let struck = self.struck.get(&(group, index)).copied().unwrap_or_default();
        if elsewhere || when.times.is_some_and(|times| struck >= times) {
            return false;
        }
        let certain = when.chance >= 1.0;
        if !certain && self.throw(group, index, out_trade_no, subject) >= when.chance {
            return false;
        }
        self.struck.insert((group, index), struck.saturating_add(1));
        true
    }

    /// A number from 0 up to, but not including, 1.
    fn throw(&mut self, group: Group, index: usize, out_trade_no: &str, subject: &str) -> f64 {
        let place = format!("{}|{group:?}|{index}|{out_trade_no}|{subject}", self.seed);
        if self.throws.len() >= THROWS_MAX {
            self.throws.clear();
        }
        let throws = self.throws.entry(hash(&place)).or_default();
        *throws = throws.saturating_add(1);
        // 53 bits are what an f64 holds exactly.
        let bits = hash(&format!("{place}|{throws}")) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }
}

fn hash(text: &str) -> u64 {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{BuyerAct, CallRule, NoticeRule};

    fn calls(rules: Vec<CallRule>) -> Armed {
        Armed::new(7, Faults { calls: rules, ..Faults::default() })
    }

    fn struck(seed: u64, order: impl Iterator<Item = u32>) -> Vec<(u32, bool)> {
        let rule = NoticeRule { fault: NoticeFault::Lost, when: When::by_chance(0.2) };
        let mut armed = Armed::new(seed, Faults { notices: vec![rule], ..Faults::default() });
        let mut struck: Vec<_> =
            order.map(|n| (n, !armed.notice(&format!("T{n}"), "0").is_empty())).collect();
        struck.sort_unstable();
        struck
    }

    #[test]
    fn the_same_seed_strikes_the_same_trades() {
        let forth = struck(7, 0..1000);
        assert_eq!(forth, struck(7, (0..1000).rev()));
        assert_ne!(forth, struck(8, 0..1000));
        let hits = forth.iter().filter(|(_, hit)| *hit).count();
        assert!((150..250).contains(&hits), "about a fifth of 1000: {hits}");
    }

    #[test]
    fn a_counted_rule_strikes_so_often_and_then_the_next_rule_does() {
        let mut armed = calls(vec![
            CallRule { fault: CallFault::DropAnswer, method: None, when: When::of("T1").times(2) },
            CallRule {
                fault: CallFault::NoSign,
                method: Some(Method::Query),
                when: When::default(),
            },
        ]);
        assert_eq!(armed.call(Method::Query, "T2"), Some(CallFault::NoSign));
        assert_eq!(armed.call(Method::Query, "T1"), Some(CallFault::DropAnswer));
        assert_eq!(armed.call(Method::Close, "T1"), Some(CallFault::DropAnswer));
        assert_eq!(armed.call(Method::Close, "T1"), None);
        assert_eq!(armed.call(Method::Query, "T1"), Some(CallFault::NoSign));
    }

    #[test]
    fn a_fault_never_strikes_a_method_that_it_does_not_fit() {
        let mut armed = calls(vec![CallRule {
            fault: CallFault::RefundLater { ms: 1 },
            method: None,
            when: When::default(),
        }]);
        for method in Method::ALL {
            assert_eq!(armed.call(method, "T1").is_some(), method == Method::Refund);
        }
    }

    #[test]
    fn new_rules_start_with_fresh_counts() {
        let race = RaceRule {
            at: Moment::BeforeClose,
            act: BuyerAct::Pay,
            delay_ms: 0,
            late: false,
            when: When::default().times(1),
        };
        let faults = Faults { races: vec![race.clone()], ..Faults::default() };
        let mut armed = Armed::new(7, faults.clone());
        assert_eq!(armed.races(Moment::BeforeClose, "T1").len(), 1);
        assert_eq!(armed.races(Moment::BeforeClose, "T1").len(), 0);
        armed.replace(faults);
        assert_eq!(armed.races(Moment::BeforeClose, "T1").len(), 1);
        armed.add_race(race).unwrap();
        assert_eq!(armed.races(Moment::BeforeClose, "T1").len(), 1);
    }
}
