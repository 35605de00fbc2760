//! What a service is held to, one rule at a time.

use serde::Serialize;

/// A promise of the payment API that the attack tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// One purchase has one payment, whatever key or token asks for it.
    OnePayment,
    /// One key or token has one answer, byte for byte.
    SameAnswer,
    /// Of all answers of a key, at most one is not marked as a replay.
    ReplayMarked,
    /// An answer tells of what was asked: order, amount, currency.
    AnswerFits,
    /// A key is refused for another request.
    KeyBound,
    /// Other content for a known order is refused and its fields are named.
    ConflictNamed,
    /// A tenant gets nothing that is another tenant's.
    TenantsApart,
    /// Each request gets a final answer before the deadline.
    AnswersInTheEnd,
    /// What is right is not refused.
    NoFalseFailure,
    /// What was answered is still there.
    NothingLost,
    /// A paid payment stays paid.
    PaidStays,
    /// Paid and refunded here is what was paid and refunded at the channel.
    MoneyAgrees,
    /// A benefit is live exactly while money for it is here.
    BenefitFollowsMoney,
    /// One refund number is one refund.
    RefundOnce,
    /// No more is refunded than was paid.
    RefundWithin,
    /// The status by key tells what became of the key, and a 202 leads to it.
    StatusByKey,
    /// A bad request is refused and leaves nothing behind.
    BadRequestRefused,
    /// Every order comes to rest before the deadline.
    Settles,
    /// A notice is signed by the service and tells of its tenant.
    NoticeGenuine,
    /// The notices of one order arrive in order.
    NoticeInOrder,
    /// One fact is one event, however often it is delivered.
    NoticeOnce,
    /// The merchant is told of every payment.
    NoticeArrives,
}

impl Rule {
    /// Every rule, in the order of the report.
    pub const ALL: [Self; 22] = [
        Self::OnePayment,
        Self::SameAnswer,
        Self::ReplayMarked,
        Self::AnswerFits,
        Self::KeyBound,
        Self::ConflictNamed,
        Self::TenantsApart,
        Self::AnswersInTheEnd,
        Self::NoFalseFailure,
        Self::NothingLost,
        Self::PaidStays,
        Self::MoneyAgrees,
        Self::BenefitFollowsMoney,
        Self::RefundOnce,
        Self::RefundWithin,
        Self::StatusByKey,
        Self::BadRequestRefused,
        Self::Settles,
        Self::NoticeGenuine,
        Self::NoticeInOrder,
        Self::NoticeOnce,
        Self::NoticeArrives,
    ];

    /// The promise in one sentence.
    #[must_use]
    pub fn promise(self) -> &'static str {
        match self {
            Self::OnePayment => "one purchase has one payment, whatever key or token asks for it",
            Self::SameAnswer => "one key or token has one answer, byte for byte",
            Self::ReplayMarked => "of all answers of a key, at most one is not marked as a replay",
            Self::AnswerFits => "an answer tells of what was asked: order, amount, currency",
            Self::KeyBound => "a key is refused for another request",
            Self::ConflictNamed => "other content for a known order is refused, its fields named",
            Self::TenantsApart => "a tenant gets nothing that is another tenant's",
            Self::AnswersInTheEnd => "each request gets a final answer before the deadline",
            Self::NoFalseFailure => "what is right is not refused",
            Self::NothingLost => "what was answered is still there",
            Self::PaidStays => "a paid payment stays paid",
            Self::MoneyAgrees => "paid and refunded here is what was paid and refunded there",
            Self::BenefitFollowsMoney => "a benefit is live exactly while money for it is here",
            Self::RefundOnce => "one refund number is one refund",
            Self::RefundWithin => "no more is refunded than was paid",
            Self::StatusByKey => "the status by key tells what became of the key",
            Self::BadRequestRefused => "a bad request is refused and leaves nothing behind",
            Self::Settles => "every order comes to rest before the deadline",
            Self::NoticeGenuine => "a notice is signed by the service and tells of its tenant",
            Self::NoticeInOrder => "the notices of one order arrive in order",
            Self::NoticeOnce => "one fact is one event, however often it is delivered",
            Self::NoticeArrives => "the merchant is told of every payment",
        }
    }
}

impl Rule {
    /// Whether each delivery at the merchant's endpoint is a look at the rule.
    pub(crate) fn is_of_notices(self) -> bool {
        matches!(self, Self::NoticeGenuine | Self::NoticeInOrder | Self::NoticeOnce)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_is_listed_once_with_a_promise_of_its_own() {
        let rules: BTreeSet<Rule> = Rule::ALL.into_iter().collect();
        let promises: BTreeSet<&str> = Rule::ALL.into_iter().map(Rule::promise).collect();
        assert_eq!((rules.len(), promises.len()), (Rule::ALL.len(), Rule::ALL.len()));
        // The last variant: a rule that is added behind it must be listed too.
        assert_eq!(Rule::ALL.last(), Some(&Rule::NoticeArrives));
    }
}
