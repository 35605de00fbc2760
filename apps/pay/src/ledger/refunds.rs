//! Refunds: money is set aside first, then the channel is asked, then the books follow.
//!
//! Invariant: what is set aside and what went back never exceed what was paid
//! (`fifty_refunds_at_once_never_exceed_the_payment`).

use super::{benefits, post};
use crate::{
    channel::{Frozen, PaymentNo, RefundNo},
    db::{
        Tx, conn,
        payments::{self, Payment},
        refunds::{self, Moved, NewRefund, Refund},
    },
    error::{Error, Kind},
    money::{Amount, Currency, Sum},
    payment,
    refund::{self, Fact, Origin},
};
use hapax::{Tenant, Timestamp};

/// What a request for a refund came to.
#[derive(Clone, Debug)]
pub(crate) enum Requested {
    /// Written down now; its money is set aside.
    New(Box<Refund>),
    /// The number was used for this very refund before.
    Known(Box<Refund>),
    /// The number was used for another payment or amount.
    Conflict,
    /// The payment is not paid.
    NotPaid,
    /// Whether that is left shows when the channel has told of the refunds under way.
    Undecided,
    /// Less than that is left.
    TooMuch {
        /// What is left.
        left: Sum,
        /// What it is counted in.
        currency: Currency,
    },
}

/// Writes a merchant's refund down and sets its money aside.
pub(crate) async fn request(
    tx: &mut Tx,
    payment: &Payment,
    new: &NewRefund,
    now: Timestamp,
) -> Result<Requested, Error> {
    if let Some(known) = refunds::find(conn(tx), &new.tenant, &new.refund_no).await? {
        let same = known.payment_no == new.payment_no && known.amount == new.amount;
        return Ok(if same { Requested::Known(Box::new(known)) } else { Requested::Conflict });
    }
    if payment.status != payment::Status::Paid {
        return Ok(Requested::NotPaid);
    }
    if !payments::reserve(conn(tx), &new.payment_no, new.amount, now).await? {
        // What the channel gave back may be what is still set aside here.
        let booked = payment.refunded.minor() + payment.reserved.minor();
        if payment.reserved > Sum::ZERO && booked + new.amount.minor() <= payment.amount.minor() {
            return Ok(Requested::Undecided);
        }
        let taken = payment.amount.minor() - payment.net_minor() + payment.reserved.minor();
        let left = Sum::from_minor(payment.amount.minor() - taken).unwrap_or(Sum::ZERO);
        return Ok(Requested::TooMuch { left, currency: payment.currency });
    }
    refunds::insert(conn(tx), new, now).await?;
    let refund = refunds::find(conn(tx), &new.tenant, &new.refund_no).await?;
    let refund = refund.ok_or_else(|| Error::new(Kind::Changed, "write a refund down"))?;
    Ok(Requested::New(Box::new(refund)))
}

/// The number of the refund that gives surplus money back. One payment has one.
pub(crate) fn auto_no(payment_no: &PaymentNo) -> Result<RefundNo, Error> {
    RefundNo::parse(&format!("auto_{}", payment_no.as_str())).map_err(Error::corrupt)
}

/// Writes down that surplus money goes back, once.
pub(super) async fn give_back(tx: &mut Tx, payment: &Payment, now: Timestamp) -> Result<(), Error> {
    let Ok(amount) = Amount::from_minor(payment.net_minor() - payment.reserved.minor()) else {
        return Ok(());
    };
    let new = NewRefund {
        tenant: payment.tenant.clone(),
        refund_no: auto_no(&payment.payment_no)?,
        payment_no: payment.payment_no.clone(),
        amount,
        currency: payment.currency,
        reason: "the order was paid or closed before this money came".to_owned(),
        origin: Origin::Auto,
    };
    if refunds::insert(conn(tx), &new, now).await?
        && !payments::reserve(conn(tx), &payment.payment_no, amount, now).await?
    {
        return Err(Error::new(Kind::Changed, "set surplus money aside"));
    }
    Ok(())
}

/// The channel is about to be asked with these very bytes. `None`: somebody else asks, or asked.
pub(crate) async fn asked(
    tx: &mut Tx,
    (tenant, no): (&Tenant, &RefundNo),
    frozen: &Frozen,
    ask_again_at: Timestamp,
    now: Timestamp,
) -> Result<Option<Refund>, Error> {
    let Some(refund) = refunds::find(conn(tx), tenant, no).await? else { return Ok(None) };
    let moved = Moved { next_check_at: Some(ask_again_at), frozen: Some(frozen), failure: None };
    Ok(advance(tx, &refund, Fact::Asked, moved, now).await?.map(|refund| Refund {
        frozen: Some(frozen.clone()),
        sent_at: Some(now),
        ..refund
    }))
}

/// The money went back. `false`: that was in the books.
pub(crate) async fn done(
    tx: &mut Tx,
    tenant: &Tenant,
    no: &RefundNo,
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(refund) = refunds::find(conn(tx), tenant, no).await? else { return Ok(false) };
    let Some(refund) = advance(tx, &refund, Fact::Done, Moved::default(), now).await? else {
        return Ok(false);
    };
    if !payments::spend_reserve(conn(tx), &refund.payment_no, refund.amount, now).await? {
        return Err(Error::new(Kind::Changed, "book a refund"));
    }
    let payment = payments::find(conn(tx), &refund.payment_no).await?;
    let payment = payment.ok_or_else(|| Error::corrupt("a refund without its payment"))?;
    post::refund_news(tx, "refund.done", &payment, &refund, now).await?;
    if payment.net_minor() == 0 {
        benefits::money_is_gone(tx, &payment, now).await?;
    }
    Ok(true)
}

/// A notice about `payment` names a refund as made.
///
/// The number alone proves nothing: whoever refunds at the channel by hand may choose one that is
/// in use here. `false`: it is not about a refund of this payment that `total` covers besides those
/// that are booked; one that was made all the same is asked about.
pub(super) async fn noticed(
    tx: &mut Tx,
    payment: &Payment,
    no: &RefundNo,
    total: Sum,
    now: Timestamp,
) -> Result<bool, Error> {
    let named = refunds::find(conn(tx), &payment.tenant, no).await?;
    let is_told_of = named.is_some_and(|refund| {
        let with_it = payment.refunded.minor() + refund.amount.minor();
        refund.payment_no == payment.payment_no && with_it <= total.minor()
    });
    if is_told_of { done(tx, &payment.tenant, no, now).await } else { Ok(false) }
}

/// The channel surely will not do it: the money that was set aside is free again.
pub(crate) async fn refused(
    tx: &mut Tx,
    tenant: &Tenant,
    no: &RefundNo,
    why: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(refund) = refunds::find(conn(tx), tenant, no).await? else { return Ok(false) };
    let moved = Moved { failure: Some(why), ..Moved::default() };
    let Some(refund) = advance(tx, &refund, Fact::Refused, moved, now).await? else {
        return Ok(false);
    };
    if !payments::free_reserve(conn(tx), &refund.payment_no, refund.amount, now).await? {
        return Err(Error::new(Kind::Changed, "free the money of a refused refund"));
    }
    let payment = payments::find(conn(tx), &refund.payment_no).await?;
    let payment = payment.ok_or_else(|| Error::corrupt("a refund without its payment"))?;
    post::refund_news(tx, "refund.refused", &payment, &refund, now).await?;
    Ok(true)
}

/// What the channel says it gave back of a payment in all. Never a reason to call it paid.
pub(super) async fn given_back(
    tx: &mut Tx,
    payment: &Payment,
    total: Sum,
    now: Timestamp,
) -> Result<(), Error> {
    if !payments::raise_given_back(conn(tx), &payment.payment_no, total, now).await? {
        return Ok(());
    }
    let payment = payments::find(conn(tx), &payment.payment_no).await?;
    if let Some(payment) = payment.filter(|payment| payment.net_minor() == 0) {
        benefits::money_is_gone(tx, &payment, now).await?;
    }
    Ok(())
}

/// What went back of a payment in all, by whoever's hand, as an answer of the channel says.
pub(crate) async fn went_back(
    tx: &mut Tx,
    no: &PaymentNo,
    total: Sum,
    now: Timestamp,
) -> Result<(), Error> {
    match payments::find(conn(tx), no).await? {
        Some(payment) => given_back(tx, &payment, total, now).await,
        None => Ok(()),
    }
}

async fn advance(
    tx: &mut Tx,
    refund: &Refund,
    fact: Fact,
    moved: Moved<'_>,
    now: Timestamp,
) -> Result<Option<Refund>, Error> {
    let Some(status) = refund::apply(refund.status, fact) else { return Ok(None) };
    if !refunds::advance(conn(tx), refund, status, moved, now).await? {
        return Err(Error::new(Kind::Changed, "move a refund"));
    }
    let entity = format!("{}/{}", refund.tenant.as_str(), refund.refund_no.as_str());
    post::journal(tx, &refund::MACHINE, &entity, refund.version, refund.status, fact).await?;
    Ok(Some(Refund { status, version: refund.version + 1, ..refund.clone() }))
}
