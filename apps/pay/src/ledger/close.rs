//! Closing: asked for, confirmed by the channel, and only then done.

use super::{Rules, apply, post};
use crate::{
    channel::PaymentNo,
    config::LateMoney,
    db::{
        Tx, conn, orders,
        payments::{self, Payment},
    },
    error::Error,
    payment::Fact,
};
use hapax::Timestamp;

/// Asks for an end: the slot stays taken until the channel confirms.
pub(crate) async fn ask(
    tx: &mut Tx,
    no: &PaymentNo,
    now: Timestamp,
) -> Result<Option<Payment>, Error> {
    let Some(payment) = payments::find(conn(tx), no).await? else { return Ok(None) };
    let moved = apply(tx, &payment, Fact::CloseAsked, Some(now), now).await?;
    Ok(Some(moved.unwrap_or(payment)))
}

/// The channel confirmed that nobody paid: the payment is closed, and the order with it if no
/// other attempt can be paid and none was.
pub(crate) async fn confirm(
    tx: &mut Tx,
    no: &PaymentNo,
    rules: &Rules,
    now: Timestamp,
) -> Result<Option<Payment>, Error> {
    let Some(payment) = payments::find(conn(tx), no).await? else { return Ok(None) };
    let next_look = Some(now.plus(rules.first_check));
    let Some(closed) = apply(tx, &payment, Fact::ClosedUnpaid, next_look, now).await? else {
        return Ok(Some(payment));
    };
    let is_fulfillable = rules.late_money == LateMoney::Reopen;
    orders::close(conn(tx), closed.at(), is_fulfillable, now).await?;
    post::payment_news(tx, "payment.closed", &closed, now).await?;
    Ok(Some(closed))
}
