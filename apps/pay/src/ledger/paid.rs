//! The one success flow: callback, query, sweep and operator all end here.

use super::{apply, benefits, post, refunds};
use crate::{
    channel::PaymentNo,
    db::{Tx, conn, orders, payments},
    error::Error,
    money::Amount,
    payment::{Fact, Status},
};
use hapax::Timestamp;

/// What the channel says about money that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Money {
    /// The channel's number of the trade.
    pub(crate) trade_no: String,
    /// What the trade is about.
    pub(crate) amount: Amount,
    /// When the buyer paid, if the channel tells.
    pub(crate) paid_at: Option<Timestamp>,
}

/// What the news came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It pays for its order.
    Paid,
    /// It pays for nothing, because it came late or twice, and goes back.
    Surplus,
    /// It was in the books.
    Already,
    /// The amount is not the one that was asked for: nothing was changed.
    OtherAmount,
    /// There is no such payment.
    Missing,
}

/// Books money that came for a payment.
///
/// In one transaction: the payment is paid; the order takes it if nothing else paid for it, and
/// its benefits become due; else the money is surplus and its refund is written down.
pub(crate) async fn settle(
    tx: &mut Tx,
    no: &PaymentNo,
    money: &Money,
    now: Timestamp,
) -> Result<Settled, Error> {
    let Some(payment) = payments::find(conn(tx), no).await? else { return Ok(Settled::Missing) };
    if payment.amount != money.amount {
        return Ok(Settled::OtherAmount);
    }
    let Some(paid) = apply(tx, &payment, Fact::Paid, None, now).await? else {
        return Ok(Settled::Already);
    };
    let paid_at = money.paid_at.unwrap_or(now);
    payments::store_trade(conn(tx), no, &money.trade_no, paid_at).await?;
    if orders::pay(conn(tx), paid.at(), no, now).await? {
        benefits::fall_due(tx, &paid, now).await?;
        end_other_attempts(tx, &paid, now).await?;
        post::payment_news(tx, "payment.paid", &paid, now).await?;
        if paid.net_minor() == 0 {
            benefits::money_is_gone(tx, &paid, now).await?;
        }
        return Ok(Settled::Paid);
    }
    payments::mark_surplus(conn(tx), no).await?;
    refunds::give_back(tx, &paid, now).await?;
    post::payment_news(tx, "payment.surplus", &paid, now).await?;
    Ok(Settled::Surplus)
}

/// The order is paid: whatever else could still be paid for it is to be closed.
async fn end_other_attempts(
    tx: &mut Tx,
    paid: &payments::Payment,
    now: Timestamp,
) -> Result<(), Error> {
    let live = payments::live(conn(tx), &paid.tenant, &paid.order_id).await?;
    if let Some(other) = live.filter(|other| other.status != Status::Closing) {
        apply(tx, &other, Fact::CloseAsked, Some(now), now).await?;
    }
    Ok(())
}
