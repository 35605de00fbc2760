//! What may be wrong with the toy.

/// One way to break the contract; each breaks one rule above all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// No flaw: it answers 202 first and finishes a moment later.
    Slow,
    PaymentPerKey,
    OtherBytes,
    UnmarkedReplay,
    OtherOrder,
    IgnoresFingerprint,
    IgnoresConflict,
    UnnamedConflict,
    KeyOfAnyTenant,
    ReadableByAll,
    AlwaysFails,
    RefusesOtherKeys,
    ForgetsPayments,
    Unpays,
    DeafToCallbacks,
    BenefitStays,
    RefundsAgain,
    RefundsTooMuch,
    LiesAboutKeys,
    /// Slow, and the place that its 202 names does not know of the request.
    LeadsNowhere,
    TakesRubbish,
    NeverCloses,
    ForgedNotices,
    OvertakingNotices,
    NewEventPerDelivery,
    SilentToMerchants,
}
