//! What must hold over the whole database, as statements that select what breaks it.

mod records;
mod sql;

pub(crate) use self::records::{Promise, Stored, page, unknown_payments};

/// Each invariant with the statement that finds what breaks it; `?1` bounds the examples.
pub(crate) const CHECKS: &[(&str, &str)] = &[
    ("an order has at most one attempt that can still be paid", sql::TWO_LIVE_ATTEMPTS),
    ("a paid order is paid by exactly one attempt, which is no surplus", sql::PAID_BY_NO_ATTEMPT),
    ("a paid attempt pays its order or is surplus", sql::PAID_FOR_NOTHING),
    ("an order is closed only when no attempt can be paid any more", sql::CLOSED_TOO_EARLY),
    ("surplus money has exactly one refund of its own, which is not refused", sql::SURPLUS_KEPT),
    ("what is set aside is the sum of the refunds that are not over", sql::RESERVE_DIFFERS),
    ("what went back is the sum of the refunds that are done", sql::REFUNDED_DIFFERS),
    ("money that is kept has its benefits", sql::BENEFIT_MISSING),
    ("money that went back has no benefit", sql::BENEFIT_WITHOUT_MONEY),
    ("each benefit was granted at most once", sql::GRANTED_TWICE),
    (
        "each benefit was taken away at most once, and only after it was granted",
        sql::REVOKED_WRONGLY,
    ),
    ("the ledger of effects agrees with the benefits", sql::EFFECTS_DIFFER),
    ("the journal of a payment ends where the payment is", sql::JOURNAL_DIFFERS),
    ("the journal of a payment has no gap", sql::JOURNAL_GAP),
    ("a completed record has an answer", sql::COMPLETED_WITHOUT_OUTCOME),
];
