//! What a channel notifies, once it is sure that the channel said it.

use std::fmt;

use crate::{
    beijing::Moment,
    money::{Amount, Sum},
};

/// A notification as it came in. The body holds a signature, so it does not print.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    /// The query string of the request; a real notification has none.
    pub query: Option<&'a str>,
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl fmt::Debug for Received<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received(*** {} bytes)", self.body.len())
    }
}

/// A notification that the channel signed, about the account that received it.
///
/// Whether it is about a payment of ours, and about the right amount, is for the ledger to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The same in every delivery of one event; dedupe by it, never by body or signature.
    pub notify_id: String,
    /// The number that the channel has for the payment; it need not be one of ours.
    pub payment_no: String,
    /// The channel's own number of the trade.
    pub trade_no: String,
    /// What happened.
    pub event: Event,
    /// What the trade is about; compare it with what was asked for before acting.
    pub amount: Amount,
    /// All that has been refunded of the trade so far.
    pub refunded: Sum,
    /// The refund that the notice is about, if the channel names one.
    pub refund_no: Option<String>,
    /// When the buyer paid, if the channel tells it readably.
    pub paid_at: Option<Moment>,
    /// What the buyer read, for people: characters that cannot be decoded are replaced.
    pub subject: String,
}

/// What happened to a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The buyer has seen the trade and not paid.
    Waiting,
    /// The buyer paid.
    Paid,
    /// The trade is past refunding; it has been paid, whether or not `Paid` was ever told.
    Finished,
    /// Some of the money went back. Never a reason to enter the pay path.
    RefundedInPart,
    /// All of the money went back.
    RefundedInFull,
    /// The trade ended unpaid.
    Closed,
}

/// Why a notification is not acted upon. Answer with failure so that the channel sends it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Anybody could have sent it. Keep nothing.
    #[error(transparent)]
    Untrusted(Untrusted),
    /// The channel sent it, yet it must not be acted upon. Keep it, alert, judge it again later.
    #[error("{mismatch}")]
    Quarantined {
        /// The id under which the channel will send it again.
        notify_id: String,
        /// What does not fit.
        mismatch: Mismatch,
    },
}

/// Why a notification cannot be taken as the channel's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// Parameters came beside the body, where no signature covers them.
    #[error(
        "the notification has a query string, which no signature covers: configure a notify \
         address without one"
    )]
    QueryString,
    /// The body is longer than any real one.
    #[error("the notification is too long to be real")]
    TooLong,
    /// The body is not a form; the text names the place.
    #[error("the notification has {0}")]
    NotAForm(&'static str),
    /// A parameter occurs twice, so that two readers could see two notices.
    #[error("the notification has a parameter twice")]
    Duplicate,
    /// The notice names a charset in which the channel writes nothing.
    #[error("the notification is in a charset other than UTF-8 and GBK")]
    ForeignCharset,
    /// The notice asks to be verified in another way than the configured one.
    #[error("the notification is not signed with RSA2")]
    OtherAlgorithm,
    /// The notice names a certificate that is not the pinned one.
    #[error(
        "the notification names a certificate that is not the pinned one: install the \
         channel's new certificate"
    )]
    OtherCertificate,
    /// The signature is missing or not the channel's.
    #[error("the notification is not signed by the channel")]
    Forged,
    /// Signed, but no notification: the buyer's browser carries such parameters too.
    #[error(
        "the parameters are signed but no notification: they lack notify_id, notify_type or \
         trade_status"
    )]
    NotANotice,
}

/// What does not fit in a notification that the channel did sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// It is for another app.
    #[error("the notice is for another app: check app_id")]
    App,
    /// The money went to another seller.
    #[error("the notice is for another seller: check seller_id")]
    Seller,
    /// It is of a kind that is not about trades.
    #[error("the notice has a notify_type that is not about trades")]
    Kind,
    /// It has a trade status that is not known here.
    #[error("the notice has a trade_status that is not known here")]
    Status,
    /// The parameter that is named is missing or cannot be read.
    #[error("the notice has no readable {0}")]
    Field(&'static str),
    /// A value holds the text of the parameter that is named, so the signature fits two readings.
    #[error("the notice has {0} hidden inside another value")]
    Hidden(&'static str),
    /// It speaks of a refund and not of how much.
    #[error("the notice has a refund without refund_fee")]
    RefundWithoutAmount,
    /// More was refunded than was ever paid.
    #[error("the notice refunds more than was paid")]
    RefundAbovePayment,
}
