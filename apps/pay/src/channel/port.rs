//! The one door to every payment channel.

use futures_util::future::BoxFuture;

use crate::{
    beijing::Moment,
    channel::{
        Call, Frozen, Notice, PayData, PaymentNo, Purchase, Received, Refund, RefundNo, RefundSeen,
        RefundTaken, Refused, TradeSeen, Unfit,
    },
};

/// A payment channel, for one merchant account.
///
/// Every call is safe to repeat: the channel knows payments and refunds by their numbers.
///
/// # Cancellation
///
/// A dropped call may have been sent. Treat it as [`Call::Unknown`].
pub trait Channel: Send + Sync + 'static {
    /// Freezes the request that prepares `purchase`, signed as of `now`.
    fn freeze_purchase(&self, purchase: &Purchase, now: Moment) -> Result<Frozen, Unfit>;

    /// Sends a frozen purchase and returns what the buyer needs in order to pay.
    fn prepare<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Call<PayData>>;

    /// Asks where a payment stands.
    fn query<'a>(
        &'a self,
        payment_no: &'a PaymentNo,
        now: Moment,
    ) -> BoxFuture<'a, Call<TradeSeen>>;

    /// Closes an unpaid payment; refused, never refunded, if it has been paid.
    fn close<'a>(&'a self, payment_no: &'a PaymentNo, now: Moment) -> BoxFuture<'a, Call<()>>;

    /// Freezes the request that makes `refund`, signed as of `now`.
    fn freeze_refund(&self, refund: &Refund, now: Moment) -> Result<Frozen, Unfit>;

    /// Sends a frozen refund.
    fn refund<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Call<RefundTaken>>;

    /// Asks for one refund, no earlier than ten seconds after it was sent: before that the answer
    /// may not have the refund although it was made (Alipay, refund query).
    fn query_refund<'a>(
        &'a self,
        payment_no: &'a PaymentNo,
        refund_no: &'a RefundNo,
        now: Moment,
    ) -> BoxFuture<'a, Call<RefundSeen>>;

    /// Reads a notice from the bytes received, and only after its signature has been verified.
    ///
    /// Pure: a stored notice gives the same verdict again, also after the configuration was fixed.
    fn verify_notice(&self, received: Received<'_>) -> Result<Notice, Refused>;
}

#[cfg(test)]
fn _object_safe(_: &dyn Channel) {}
