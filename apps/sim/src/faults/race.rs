use serde::{Deserialize, Serialize};

use super::{When, check_wait};

/// A rule for buyers; also the body of `POST /_sim/hook`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaceRule {
    /// The moment that sets the buyer off.
    pub at: Moment,
    /// What the buyer does.
    #[serde(default, rename = "do")]
    pub act: BuyerAct,
    /// How long after the moment, in milliseconds. Before expiry if negative (`at_expiry` only);
    /// zero means within the same step, before anybody else can look.
    #[serde(default)]
    pub delay_ms: i64,
    /// Pays although the time is over, as a buyer who already stood at the password step.
    #[serde(default)]
    pub late: bool,
    /// When it happens.
    #[serde(default)]
    pub when: When,
}

/// The moment that sets a buyer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Moment {
    /// A code or page was made; the answer was not sent yet. Without a delay, the answer also
    /// waits until the merchant was notified once.
    BeforeCreateAnswer,
    /// A code or page was made.
    AfterCreate,
    /// A close arrived and was not judged yet.
    BeforeClose,
    /// A close was answered `ACQ.TRADE_NOT_EXIST`.
    AfterCloseNotExist,
    /// The trade's time runs out.
    AtExpiry,
}

/// What a buyer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BuyerAct {
    /// Scans the code, so that the trade exists.
    Scan,
    /// Scans if that is still to be done, and pays.
    #[default]
    Pay,
}

impl RaceRule {
    pub(crate) fn check(&self) -> Result<(), String> {
        self.when.check()?;
        if self.delay_ms < 0 && self.at != Moment::AtExpiry {
            return Err("only at_expiry takes a negative delay_ms".to_owned());
        }
        check_wait(self.delay_ms.unsigned_abs())
    }

    pub(crate) fn label(&self) -> &'static str {
        match self.at {
            Moment::BeforeCreateAnswer => "before_create_answer",
            Moment::AfterCreate => "after_create",
            Moment::BeforeClose => "before_close",
            Moment::AfterCloseNotExist => "after_close_not_exist",
            Moment::AtExpiry => "at_expiry",
        }
    }
}
