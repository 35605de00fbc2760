//! What a payment channel can be asked, and what its answers may mean.
//!
//! The words here belong to no channel; [`alipay`] is the first that speaks them.
//!
//! Invariant: only [`Call::Done`] and [`Call::Refused`] may move money or state, and both rest on
//! an answer that the channel signed. Everything else is [`Call::Unknown`]. Held by
//! `no_mutated_answer_is_believed` and by the tests of `alipay::verdict`.
//!
//! A call is made in two steps where it changes something: *freeze* the request, store the bytes,
//! *send* the bytes. After a crash the same bytes go out again under the same number.

pub mod alipay;
mod call;
mod notice;
mod number;
mod port;
mod request;
mod trade;

pub use call::{Call, Cause, Meaning, Refusal, Said};
pub use notice::{Event, Mismatch, Notice, Received, Refused, Untrusted};
pub use number::{MalformedNumber, PaymentNo, RefundNo};
pub use port::Channel;
pub use request::{Frozen, Purchase, Refund, Subject, Unfit, Way};
pub use trade::{PayData, RefundSeen, RefundTaken, Trade, TradeSeen, TradeStatus};
