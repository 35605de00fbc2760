//! What goes wrong, and how often: the rules that `Config::faults` and `POST /_sim/faults` take.
//!
//! A rule strikes by chance, by count, for one trade only, or by all of these together ([`When`]).
//! Of the call rules, the first that strikes wins; notice rules and races add up.

mod call;
mod notice;
mod race;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::call::{CallFault, CallRule, Method};
pub use self::notice::{Change, NoticeFault, NoticeRule, PushTable};
pub use self::race::{BuyerAct, Moment, RaceRule};

/// Longer waits are surely a slip of the keyboard.
const WAIT_MS_MAX: u64 = 600_000;

/// Rules of one group; each is looked at on every call or delivery.
const RULES_MAX: usize = 1_000;

/// Everything that goes wrong. The default is that nothing does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Faults of the merchant's calls.
    pub calls: Vec<CallRule>,
    /// Faults of the notices to the merchant.
    pub notices: Vec<NoticeRule>,
    /// Buyers who act at an awkward moment.
    pub races: Vec<RaceRule>,
    /// Which changes are told to the merchant, by product.
    pub push: PushTable,
    /// Which payments go to `TRADE_FINISHED` without `TRADE_SUCCESS`.
    pub not_refundable: Option<When>,
    /// What a close of a paid trade is refused with.
    pub close_refusal: CloseRefusal,
    /// Whether a scanned trade that is presented again with other content is refused.
    pub drift: Drift,
}

/// When a rule strikes. The default is always.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Only for this trade.
    pub out_trade_no: Option<String>,
    /// How likely, from 0 to 1; drawn from the seed and the trade's number.
    pub chance: f64,
    /// At most this many times.
    pub times: Option<u32>,
}

/// What a close of a paid trade is refused with; the channel's papers name all four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant is the code on the wire")]
pub enum CloseRefusal {
    #[default]
    #[serde(rename = "ACQ.TRADE_STATUS_ERROR")]
    TradeStatusError,
    #[serde(rename = "ACQ.REASON_TRADE_STATUS_INVALID")]
    ReasonTradeStatusInvalid,
    #[serde(rename = "ACQ.REASON_ILLEGAL_STATUS")]
    ReasonIllegalStatus,
    #[serde(rename = "ACQ.TRADE_HAS_SUCCESS")]
    TradeHasSuccess,
}

/// What happens when a scanned trade is presented again with other content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drift {
    /// `ACQ.CONTEXT_INCONSISTENT`.
    #[default]
    Refuse,
    /// 10000, as was observed; the trade keeps its first content.
    Accept,
}

impl Faults {
    /// Says what is wrong with the rules, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let groups = [
            ("calls", self.calls.len()),
            ("notices", self.notices.len()),
            ("races", self.races.len()),
        ];
        if let Some((group, _)) = groups.into_iter().find(|(_, rules)| *rules > RULES_MAX) {
            return Err(format!("{group} has more than {RULES_MAX} rules"));
        }
        for (index, rule) in self.calls.iter().enumerate() {
            rule.check().map_err(|problem| format!("calls[{index}]: {problem}"))?;
        }
        for (index, rule) in self.notices.iter().enumerate() {
            rule.check().map_err(|problem| format!("notices[{index}]: {problem}"))?;
        }
        for (index, rule) in self.races.iter().enumerate() {
            rule.check().map_err(|problem| format!("races[{index}]: {problem}"))?;
        }
        self.not_refundable.as_ref().map_or(Ok(()), When::check)
    }
}

impl Default for When {
    fn default() -> Self {
        Self { out_trade_no: None, chance: 1.0, times: None }
    }
}

impl When {
    /// For one trade only.
    #[must_use]
    pub fn of(out_trade_no: impl Into<String>) -> Self {
        Self { out_trade_no: Some(out_trade_no.into()), ..Self::default() }
    }

    /// With this chance, from 0 to 1.
    #[must_use]
    pub fn by_chance(chance: f64) -> Self {
        Self { chance, ..Self::default() }
    }

    /// At most this many times.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    fn check(&self) -> Result<(), String> {
        if (0.0..=1.0).contains(&self.chance) {
            Ok(())
        } else {
            Err("chance must be from 0 to 1".to_owned())
        }
    }
}

impl CloseRefusal {
    pub(crate) fn sub_code(self) -> &'static str {
        match self {
            Self::TradeStatusError => "ACQ.TRADE_STATUS_ERROR",
            Self::ReasonTradeStatusInvalid => "ACQ.REASON_TRADE_STATUS_INVALID",
            Self::ReasonIllegalStatus => "ACQ.REASON_ILLEGAL_STATUS",
            Self::TradeHasSuccess => "ACQ.TRADE_HAS_SUCCESS",
        }
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn check_wait(ms: u64) -> Result<(), String> {
    if ms <= WAIT_MS_MAX { Ok(()) } else { Err(format!("a wait may be {WAIT_MS_MAX} ms at most")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_the_readme_writes_them() {
        let readme = include_str!("../README.md");
        let text = readme.split("```json").nth(1).unwrap().split("```").next().unwrap();
        let faults: Faults = serde_json::from_str(text).unwrap();
        assert_eq!(faults.check(), Ok(()));
        assert_eq!(faults.calls[0].fault, CallFault::DropAnswer);
        assert_eq!(faults.calls[1].when.chance.to_bits(), 0.05_f64.to_bits());
        assert_eq!(faults.races[0].when, When::of("T1"));
        assert_eq!(faults.push.wap, PushTable::default().wap);
        let again = serde_json::to_string(&faults).unwrap();
        assert_eq!(serde_json::from_str::<Faults>(&again).unwrap(), faults);
    }

    #[test]
    fn unknown_words_are_refused() {
        for text in [
            r#"{"call": []}"#,
            r#"{"calls": [{"fault": "explode"}]}"#,
            r#"{"calls": [{"fault": "drop_answer", "chance": 1}]}"#,
            r#"{"calls": [{"fault": "drop_answer", "method": "alipay.trade.fly"}]}"#,
            r#"{"notices": [{"fault": {"duplicate": {"copies": 2, "x": 1}}}]}"#,
            r#"{"races": [{"at": "never"}]}"#,
        ] {
            assert!(serde_json::from_str::<Faults>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn senseless_rules_are_refused_by_place() {
        let problem =
            |text: &str| serde_json::from_str::<Faults>(text).unwrap().check().unwrap_err();
        let chance = problem(r#"{"calls": [{"fault": "no_sign", "when": {"chance": 1.5}}]}"#);
        assert_eq!(chance, "calls[0]: chance must be from 0 to 1");
        let copies = problem(r#"{"notices": [{"fault": {"duplicate": {"copies": 1}}}]}"#);
        assert_eq!(copies, "notices[0]: copies must be from 2 to 64");
        let page =
            problem(r#"{"calls": [{"fault": "no_sign", "method": "alipay.trade.page.pay"}]}"#);
        assert_eq!(page, "calls[0]: no_sign does not fit alipay.trade.page.pay");
        let wait = problem(r#"{"races": [{"at": "before_close", "delay_ms": -5}]}"#);
        assert_eq!(wait, "races[0]: only at_expiry takes a negative delay_ms");
    }
}
