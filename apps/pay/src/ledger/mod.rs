//! The books: what each fact changes, in one transaction.
//!
//! Every function here runs inside the caller's transaction, which holds the order's lock
//! (`BEGIN IMMEDIATE` on SQLite). Nothing here talks to a channel, a broker or the network.
//!
//! Invariant: there is one path to "paid", [`paid::settle`], whoever brings the news
//! (`callback_query_and_sweep_at_once_pay_once`).

pub(crate) mod benefits;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod notice;
pub(crate) mod paid;
mod post;
pub(crate) mod refunds;

pub(crate) use self::post::{BENEFIT, BenefitMessage, MERCHANT_NOTICE};
use crate::{
    db::{
        Tx, conn,
        payments::{self, Payment},
    },
    error::{Error, Kind},
    payment::{self, Fact},
};
use hapax::Timestamp;

/// What the books need to know of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Whether an order that was closed unpaid may still be paid by late money.
    pub(crate) late_money: crate::config::LateMoney,
    /// The pause before the first question about a payment or refund.
    pub(crate) first_check: std::time::Duration,
}

/// Moves a payment by a fact and journals it. `None`: the fact changes nothing.
async fn apply(
    tx: &mut Tx,
    payment: &Payment,
    fact: Fact,
    next_check_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Payment>, Error> {
    let Some(status) = payment::apply(payment.status, fact) else { return Ok(None) };
    if !payments::advance(conn(tx), payment, status, next_check_at, now).await? {
        return Err(Error::new(Kind::Changed, "move a payment"));
    }
    let moved = Payment { status, version: payment.version + 1, ..payment.clone() };
    let entity = payment.payment_no.as_str();
    post::journal(tx, &payment::MACHINE, entity, payment.version, payment.status, fact).await?;
    Ok(Some(moved))
}
