//! What can be wrong, and which figure of the account counts it.

use super::sql;

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    PaidTwice,
    LiveTwice,
    TradePaidTwice,
    PurchasePaidTwice,
    EffectTwice,
    GrantedTwice,
    RefundedTwice,
    RefundDiffers,
    PaidUnbooked,
    BookedUnpaid,
    StatusDiffers,
    AmountDiffers,
    RefundedDiffers,
    BenefitMissing,
    BenefitWithoutMoney,
    SurplusKept,
    RefundOpen,
    PaymentOpen,
    BenefitOpen,
    MessageWaits,
    MessageBuried,
    RecordUnfinished,
    ForgedAccepted,
}

/// A figure of the account that must be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    DuplicatePayments,
    DuplicateEffects,
    DuplicateBenefits,
    DuplicateRefunds,
    Lost,
    ForgedAccepted,
}

/// The checks that the books alone answer, each with the statement that names what breaks it.
pub(super) const IN_BOOKS: &[(Check, &str)] = &[
    (Check::PaidTwice, sql::PAID_TWICE),
    (Check::LiveTwice, sql::LIVE_TWICE),
    (Check::EffectTwice, sql::EFFECT_TWICE),
    (Check::GrantedTwice, sql::GRANTED_TWICE),
    (Check::BenefitMissing, sql::BENEFIT_MISSING),
    (Check::BenefitWithoutMoney, sql::BENEFIT_WITHOUT_MONEY),
    (Check::SurplusKept, sql::SURPLUS_KEPT),
    (Check::RefundOpen, sql::REFUND_OPEN),
    (Check::PaymentOpen, sql::PAYMENT_OPEN),
    (Check::BenefitOpen, sql::BENEFIT_OPEN),
    (Check::MessageWaits, sql::MESSAGE_WAITS),
    (Check::MessageBuried, sql::MESSAGE_BURIED),
    (Check::RecordUnfinished, sql::RECORD_UNFINISHED),
];

impl Check {
    /// Where it is counted.
    pub(super) fn figure(self) -> Figure {
        match self {
            Self::PaidTwice | Self::LiveTwice | Self::TradePaidTwice | Self::PurchasePaidTwice => {
                Figure::DuplicatePayments
            }
            Self::EffectTwice => Figure::DuplicateEffects,
            Self::GrantedTwice => Figure::DuplicateBenefits,
            Self::RefundedTwice | Self::RefundDiffers => Figure::DuplicateRefunds,
            Self::PaidUnbooked
            | Self::BookedUnpaid
            | Self::StatusDiffers
            | Self::AmountDiffers
            | Self::RefundedDiffers
            | Self::BenefitMissing
            | Self::BenefitWithoutMoney
            | Self::SurplusKept
            | Self::RefundOpen
            | Self::PaymentOpen
            | Self::BenefitOpen
            | Self::MessageWaits
            | Self::MessageBuried
            | Self::RecordUnfinished => Figure::Lost,
            Self::ForgedAccepted => Figure::ForgedAccepted,
        }
    }

    /// Whether time alone may mend it: it is wrong only if it lasts.
    pub(super) fn is_of_time(self) -> bool {
        matches!(
            self,
            Self::RefundOpen
                | Self::PaymentOpen
                | Self::BenefitOpen
                | Self::MessageWaits
                | Self::RecordUnfinished
        )
    }

    /// What is wrong, in words that a name follows.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::PaidTwice => "two attempts pay for one purchase",
            Self::LiveTwice => "two attempts of one order can be paid",
            Self::TradePaidTwice => "a trade was paid more than once at the channel",
            Self::PurchasePaidTwice => "the channel kept the money of two trades for one purchase",
            Self::EffectTwice => "an effect stands twice in the ledger",
            Self::GrantedTwice => "a benefit was granted twice",
            Self::RefundedTwice => "the channel paid twice under one refund number",
            Self::RefundDiffers => "a refund differs from the channel's",
            Self::PaidUnbooked => "paid at the channel and not in the books",
            Self::BookedUnpaid => "paid in the books and unknown at the channel",
            Self::StatusDiffers => "paid on one side only",
            Self::AmountDiffers => "the channel got another amount than the books say",
            Self::RefundedDiffers => "what went back differs from the channel's",
            Self::BenefitMissing => "money was kept without its benefit",
            Self::BenefitWithoutMoney => "a benefit was kept without its money",
            Self::SurplusKept => "surplus money stayed",
            Self::RefundOpen => "a refund has no end",
            Self::PaymentOpen => "a payment is still being made or closed",
            Self::BenefitOpen => "a benefit is due",
            Self::MessageWaits => "a message has not arrived",
            Self::MessageBuried => "a message was given up",
            Self::RecordUnfinished => "a record was left unfinished",
            Self::ForgedAccepted => "the service acknowledged forged callbacks",
        }
    }
}

/// What is wrong, each with a readable name of what breaks it.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<(Check, String)>);

impl Findings {
    pub(super) fn add(&mut self, check: Check, evidence: impl Into<String>) {
        self.0.push((check, evidence.into()));
    }

    /// Adds how many forged callbacks were acknowledged.
    pub(super) fn forged(&mut self, accepted: u64) {
        if accepted > 0 {
            self.add(Check::ForgedAccepted, accepted.to_string());
        }
    }

    /// How many findings a figure counts.
    pub(super) fn count(&self, figure: Figure) -> u64 {
        let counted = self.0.iter().filter(|(check, _)| check.figure() == figure).count();
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Each finding in words.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(check, evidence)| format!("{}: {evidence}", check.words()))
    }
}
