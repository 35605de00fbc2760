use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{When, check_wait};

/// Copies of one delivery that may fly at once.
const COPIES_MAX: u8 = 64;

/// A rule for notices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoticeRule {
    /// What goes wrong.
    pub fault: NoticeFault,
    /// When it goes wrong.
    #[serde(default)]
    pub when: When,
}

/// What goes wrong with a notice.
///
/// The first group is drawn once for a notice, the second for each delivery. The third changes the
/// form of a delivery that stays genuine: a merchant should take it. The fourth sends one more,
/// hostile request before the genuine delivery: a merchant must not answer `success` to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NoticeFault {
    /// No delivery is ever sent; only asking can tell the merchant.
    Lost,
    /// Only this many deliveries are sent, then the channel gives up.
    FirstOnly {
        /// How many deliveries are sent.
        deliveries: u32,
    },
    /// Every delivery starts later than it should.
    #[expect(missing_docs, reason = "milliseconds, as the name says")]
    Delay { ms: u64 },
    /// Waits until a later notice of the same trade was delivered.
    Reorder {
        /// Goes out anyway after this many milliseconds.
        wait_ms: u64,
    },
    /// Waits until the merchant's next close was answered.
    PastClose {
        /// Goes out anyway after this many milliseconds.
        wait_ms: u64,
    },

    /// This delivery is lost; the schedule goes on.
    Dropped,
    /// Copies of this delivery are sent at the same moment.
    Duplicate {
        /// How many in all.
        copies: u8,
    },

    /// In GBK instead of the charset of the call.
    Gbk,
    /// `sign_type` takes part in the signed text.
    SignTypeSigned,
    /// Has an empty parameter that is part of the signed text.
    EmptySigned,
    /// Has an empty parameter that the signed text leaves out.
    EmptyUnsigned,
    /// `+` in the signature is not escaped, so that a reader sees a space.
    PlusRaw,
    /// Has fields that nobody announced.
    ExtraFields,
    /// A payment notice with `refund_fee=0.00` and `gmt_close`, as in the channel's own sample.
    ZeroRefund,

    /// Well signed, one fen too much.
    WrongAmount,
    /// Well signed, another seller.
    WrongSeller,
    /// Well signed, another app.
    WrongApp,
    /// Signed with a key that nobody trusts.
    ForgedKey,
    /// The amount was changed after signing.
    Tampered,
    /// Has no signature.
    Unsigned,
    /// The signed parameters of the return page, posted as a notice.
    ReturnReplay,
    /// A second `total_amount` at the end of the body.
    DuplicateKey,
}

/// Which changes are told to the merchant, by product.
///
/// The defaults follow the channel's product pages; they differ, so a merchant must not rely on
/// any notice but the one of the payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PushTable {
    /// Trades made by `alipay.trade.precreate`.
    pub precreate: BTreeSet<Change>,
    /// Trades made by `alipay.trade.page.pay`.
    pub page: BTreeSet<Change>,
    /// Trades made by `alipay.trade.wap.pay`.
    pub wap: BTreeSet<Change>,
}

/// A change of a trade that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Scanned: `WAIT_BUYER_PAY`.
    Scanned,
    /// Paid: `TRADE_SUCCESS`.
    Paid,
    /// Refunded in part (`TRADE_SUCCESS`) or in full (`TRADE_CLOSED`).
    Refunded,
    /// Closed unpaid: `TRADE_CLOSED`.
    Closed,
    /// The refund window is over: `TRADE_FINISHED`.
    Finished,
}

impl NoticeRule {
    pub(super) fn check(&self) -> Result<(), String> {
        self.when.check()?;
        match self.fault {
            NoticeFault::Delay { ms }
            | NoticeFault::Reorder { wait_ms: ms }
            | NoticeFault::PastClose { wait_ms: ms } => check_wait(ms),
            NoticeFault::Duplicate { copies } if !(2..=COPIES_MAX).contains(&copies) => {
                Err(format!("copies must be from 2 to {COPIES_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

impl NoticeFault {
    /// The name under which `/_sim/truth` counts it.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::FirstOnly { .. } => "first_only",
            Self::Delay { .. } => "delay",
            Self::Reorder { .. } => "reorder",
            Self::PastClose { .. } => "past_close",
            Self::Dropped => "dropped",
            Self::Duplicate { .. } => "duplicate",
            Self::Gbk => "gbk",
            Self::SignTypeSigned => "sign_type_signed",
            Self::EmptySigned => "empty_signed",
            Self::EmptyUnsigned => "empty_unsigned",
            Self::PlusRaw => "plus_raw",
            Self::ExtraFields => "extra_fields",
            Self::ZeroRefund => "zero_refund",
            Self::WrongAmount => "wrong_amount",
            Self::WrongSeller => "wrong_seller",
            Self::WrongApp => "wrong_app",
            Self::ForgedKey => "forged_key",
            Self::Tampered => "tampered",
            Self::Unsigned => "unsigned",
            Self::ReturnReplay => "return_replay",
            Self::DuplicateKey => "duplicate_key",
        }
    }

    /// Whether it is drawn once for the whole notice.
    pub(crate) fn is_of_the_notice(&self) -> bool {
        matches!(
            self,
            Self::Lost
                | Self::FirstOnly { .. }
                | Self::Delay { .. }
                | Self::Reorder { .. }
                | Self::PastClose { .. }
        )
    }

    /// Whether it is one more, hostile request.
    pub(crate) fn is_hostile(&self) -> bool {
        matches!(
            self,
            Self::WrongAmount
                | Self::WrongSeller
                | Self::WrongApp
                | Self::ForgedKey
                | Self::Tampered
                | Self::Unsigned
                | Self::ReturnReplay
                | Self::DuplicateKey
        )
    }
}

impl Default for PushTable {
    fn default() -> Self {
        let usual = [Change::Paid, Change::Refunded, Change::Closed];
        Self {
            precreate: usual.into(),
            page: [Change::Paid, Change::Refunded].into(),
            wap: usual.into(),
        }
    }
}
