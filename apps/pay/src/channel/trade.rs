//! What a channel tells about trades and refunds.

use std::fmt;

use crate::{
    beijing::Moment,
    money::{Amount, Sum},
};

/// What the buyer needs in order to pay. An address is signed, so it does not print.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayData {
    /// Text to draw as a QR code.
    Code(String),
    /// Address to send the buyer's browser to.
    Page(String),
}

impl fmt::Debug for PayData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "Code({code:?})"),
            Self::Page(page) => write!(f, "Page(*** {} bytes)", page.len()),
        }
    }
}

/// What a query found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TradeSeen {
    /// No trade yet: nobody scanned the code or logged in. It is *not* closed by that.
    Missing,
    /// A trade.
    Found(Trade),
}

/// A trade as the channel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The channel's own number.
    pub trade_no: String,
    /// Where the trade stands.
    pub status: TradeStatus,
    /// What the trade is about; compare it with what was asked for before acting.
    pub amount: Amount,
    /// When the buyer paid, if the channel tells it readably.
    pub paid_at: Option<Moment>,
}

/// Where a trade stands at the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TradeStatus {
    /// Seen by the buyer, not paid.
    Waiting,
    /// Paid; stays so on partial refunds.
    Paid,
    /// Paid and past refunding. Some products come here without passing `Paid`.
    Finished,
    /// Never paid, or refunded in full.
    Closed,
}

impl TradeStatus {
    /// Whether the buyer's money has arrived and is not fully given back.
    pub const fn is_paid(self) -> bool {
        match self {
            Self::Paid | Self::Finished => true,
            Self::Waiting | Self::Closed => false,
        }
    }
}

/// What the channel said to a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundTaken {
    /// This call moved the money.
    Moved {
        /// All that has been refunded of this trade so far.
        refunded: Sum,
    },
    /// This call moved nothing: a repeat, or the channel is not sure. Query the refund.
    Ask,
}

/// What a query for one refund found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundSeen {
    /// Not received, or failed: send the same refund again. Never "pending".
    Missing,
    /// The money was given back.
    Made {
        /// The amount of this one refund.
        amount: Amount,
        /// When it was made, if the channel tells it readably.
        made_at: Option<Moment>,
    },
}
