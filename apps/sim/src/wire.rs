//! The JSON of `/_sim/…`: what it takes and what it tells.
//!
//! Amounts are whole fen, times are milliseconds since 1970. A body with an unknown member is
//! refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Body of `POST /_sim/scan`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// The merchant's number of the trade.
    pub out_trade_no: String,
    /// Needed only if two apps use the same number.
    #[serde(default)]
    pub app_id: Option<String>,
    /// Who scans; without it, the simulator's standard buyer.
    #[serde(default)]
    pub buyer_id: Option<String>,
}

/// Body of `POST /_sim/pay`. An unscanned code is scanned first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pay {
    /// The merchant's number of the trade.
    pub out_trade_no: String,
    /// Needed only if two apps use the same number.
    #[serde(default)]
    pub app_id: Option<String>,
    /// Who pays; without it, who scanned, or the simulator's standard buyer.
    #[serde(default)]
    pub buyer_id: Option<String>,
    /// Pays although the time is over, as a buyer who already stood at the password step.
    #[serde(default)]
    pub late: bool,
}

/// Body of `POST /_sim/finish` (ends the refund window) and of `POST /_sim/expire`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// The merchant's number of the trade.
    pub out_trade_no: String,
    /// Needed only if two apps use the same number.
    #[serde(default)]
    pub app_id: Option<String>,
}

/// Body of `POST /_sim/notify/resend`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resend {
    /// The notice to deliver once more, at once.
    pub notify_id: String,
}

/// Answer of `POST /_sim/notify/resend`, once the delivery is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resent {
    /// Whether the merchant has acknowledged the notice, now or earlier.
    pub acknowledged: bool,
}

/// What any refused control call answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// One sentence: what is wrong and what to do.
    pub error: String,
}

/// Answer of `GET /_sim/faults`, and of setting them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultsInForce {
    /// The rules.
    pub faults: crate::faults::Faults,
    /// How often each fault really happened, over the life of the simulator.
    pub happened: BTreeMap<String, u64>,
}

/// Answer of `GET /_sim/truth`: what really happened at the channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// The channel's time.
    pub now_ms: i64,
    /// The seed of this run.
    pub seed: u64,
    /// Counts over the life of the simulator, whatever part of it is listed.
    pub totals: Totals,
    /// The trades, oldest first.
    pub trades: Vec<Trade>,
    /// The deliveries that are still kept, oldest first; empty with `?deliveries=false`.
    pub deliveries: Vec<Delivery>,
    /// Deliveries that were dropped from the list to keep it bounded.
    pub deliveries_forgotten: u64,
}

/// Counts over the life of a simulator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Trades, scanned or not.
    pub trades: u64,
    /// Payments that came in.
    pub payments: u64,
    /// Their sum.
    pub money_in_fen: i64,
    /// Refunds that were done.
    pub refunds: u64,
    /// Their sum.
    pub money_out_fen: i64,
    /// Refund calls that repeated a known `out_request_no` with the same amount.
    pub refund_repeats: u64,
    /// Payments that were refused: too late, already paid, closed, another buyer.
    pub payments_refused: u64,
    /// Unscanned trades whose content the merchant replaced.
    pub repriced: u64,
    /// Payments that came between a query answered "not paid" and the close that found it paid.
    pub paid_between_query_and_close: u64,
    /// Closes refused because the trade was paid.
    pub closes_refused_as_paid: u64,
    /// Payments that came after a close was answered `ACQ.TRADE_NOT_EXIST`.
    pub paid_after_close_not_exist: u64,
    /// Payments that came after the time that the merchant had set.
    pub paid_after_expiry: u64,
    /// Notices that were due by the push table.
    pub notices: u64,
    /// Notices of which no delivery was ever sent, by the fault `lost`.
    pub notices_lost: u64,
    /// Notices that the merchant answered with `success`.
    pub notices_acked: u64,
    /// Notices whose schedule ran out without `success`.
    pub notices_given_up: u64,
    /// Genuine deliveries that were sent.
    pub deliveries: u64,
    /// Genuine deliveries that a fault kept from being sent.
    pub deliveries_dropped: u64,
    /// Genuine deliveries sent after the first one of the same notice.
    pub duplicate_deliveries: u64,
    /// Times that copies of one delivery were in flight together.
    pub parallel_sends: u64,
    /// Hostile deliveries that were sent.
    pub hostile: u64,
    /// Hostile deliveries that the merchant answered with `success`; each one is a hole.
    pub hostile_acked: u64,
    /// Calls by method.
    pub calls: BTreeMap<String, u64>,
    /// Faults and races that really happened, by name.
    pub faults: BTreeMap<String, u64>,
}

/// One trade as the channel knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trade {
    /// The app.
    pub app_id: String,
    /// The merchant's number.
    pub out_trade_no: String,
    /// The channel's number; absent until the code is scanned.
    pub trade_no: Option<String>,
    /// `precreate`, `page` or `wap`.
    pub product: String,
    /// `INTENT` until scanned, then the `trade_status`.
    pub status: String,
    /// Why it is closed: `close`, `cancel`, `expiry` or `refund`.
    pub closed_by: Option<String>,
    /// The amount to pay.
    pub total_fen: i64,
    /// Who scanned.
    pub buyer_id: Option<String>,
    /// Until when it can be paid.
    pub expires_at_ms: i64,
    /// Money in, added up from `movements`.
    pub paid_fen: i64,
    /// How many payments came in.
    pub payments: u64,
    /// Money back, added up from `movements`.
    pub refunded_fen: i64,
    /// Refunds by `out_request_no`.
    pub refunds: Vec<Refund>,
    /// Whether a payment came after the merchant's time was over.
    pub paid_late: bool,
    /// Whether a close was ever answered `ACQ.TRADE_NOT_EXIST`.
    pub close_missed: bool,
    /// The page with the code.
    pub page: String,
    /// Everything that happened, in order; only ever added to.
    pub movements: Vec<Movement>,
}

/// Refunds under one number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refund {
    /// The merchant's number of the refund; `*cancel` for the refund that a cancel made.
    pub out_request_no: String,
    /// What was given back under this number.
    pub refunded_fen: i64,
    /// How many refunds were done under this number; more than one is a fault of the simulator.
    pub times: u64,
    /// Whether it was accepted and is still to be done.
    pub pending: bool,
}

/// Something that happened to a trade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Movement {
    /// When.
    pub at_ms: i64,
    /// What.
    pub kind: MovementKind,
    /// The amount, for money that moves.
    pub amount_fen: i64,
    /// The merchant's number of the refund, for refunds.
    pub out_request_no: Option<String>,
}

/// What happened to a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MovementKind {
    /// A code or page was made.
    Opened,
    /// A buyer scanned it.
    Scanned,
    /// Money came in.
    Paid,
    /// The refund window is over.
    Finished,
    /// Unpaid, or refunded in full.
    Closed,
    /// A refund is promised.
    RefundAccepted,
    /// Money went back.
    Refunded,
}

/// One attempt to tell the merchant something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Delivery {
    /// The notice.
    pub notify_id: String,
    /// The app.
    pub app_id: String,
    /// The merchant's number of the trade.
    pub out_trade_no: String,
    /// The status that was told.
    pub trade_status: String,
    /// Which delivery of the notice this is, from 1.
    pub attempt: u32,
    /// `plain`, or the faults that shaped it.
    pub form: String,
    /// Whether it was a forgery, to which `success` is the wrong answer.
    pub hostile: bool,
    /// When it was sent.
    pub at_ms: i64,
    /// How long the merchant took.
    pub took_ms: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// The HTTP status, if there was an answer.
    pub http_status: Option<u16>,
    /// The head of the answer's body, or why there was none.
    pub answer: String,
}

/// What came of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// HTTP 200 and exactly the seven bytes `success`.
    Success,
    /// Any other answer.
    Refused,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// Not sent, by a fault.
    NotSent,
}

/// Answer of `GET /_sim/log`: the latest gateway requests, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log {
    /// The requests.
    pub requests: Vec<Request>,
}

/// One request to the gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// When it came.
    pub at_ms: i64,
    /// How long it took.
    pub took_ms: u64,
    /// From where.
    pub peer: String,
    /// The method, if it got so far.
    pub method: Option<String>,
    /// The merchant's number of the trade, if it was sent.
    pub out_trade_no: Option<String>,
    /// The code of the answer that was made, whether or not it was sent.
    pub code: Option<String>,
    /// Its `sub_code`.
    pub sub_code: Option<String>,
    /// The fault that struck.
    pub fault: Option<String>,
}
