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
    TakesRubbish,
    NeverCloses,
    ForgedNotices,
    OvertakingNotices,
    NewEventPerDelivery,
    SilentToMerchants,
}
