//! Opening an order or an attempt: one slot, one live attempt, whoever asks how often.

use super::{Rules, apply};
use crate::{
    channel::{Frozen, PayData, PaymentNo, Way},
    db::{
        Conn, Tx, conn,
        orders::{self, Order, Round},
        payments::{self, NewPayment, Payment},
    },
    error::{Error, Kind},
    order::{ChannelKind, Conflict, Content, OrderId, way_word},
    payment::Fact,
};
use hapax::{Tenant, Timestamp};

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) tenant: Tenant,
    pub(crate) order_id: OrderId,
    pub(crate) content: Content,
    pub(crate) channel: ChannelKind,
    pub(crate) way: Way,
    /// Whether a paid order is to be bought again.
    pub(crate) is_repurchase: bool,
    /// The round that was paid when this was first asked, if another one is to follow it.
    pub(crate) again_after: Option<u32>,
}

impl Wanted {
    /// Whether this asks for another purchase than the newest one, `order`. A later round than the
    /// one that was paid when it was first asked is what was asked for, whoever opened it.
    pub(crate) fn is_after(&self, order: &Order) -> bool {
        self.again_after == Some(order.round)
    }
}

/// An attempt that is ready to be written down if the order has none.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) payment_no: PaymentNo,
    pub(crate) frozen: Frozen,
    pub(crate) expires_at: Timestamp,
}

/// What was found or made.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// The draft is written down now.
    Fresh(Box<Payment>),
    /// The order has an attempt that can be paid, for the same content.
    Open(Box<Payment>),
    /// The order is paid, for the same content.
    Paid(Box<Payment>),
    /// The order has other content.
    Conflict(Vec<Conflict>),
    /// An attempt of an earlier round is being closed and holds the slot until then.
    Taken,
}

/// Finds the attempt for an order, or writes `draft` down as its next one.
///
/// The unique slot decides between two that come at once; the loser is answered with the
/// winner's attempt.
pub(crate) async fn open(
    tx: &mut Tx,
    wanted: &Wanted,
    draft: &Draft,
    rules: &Rules,
    now: Timestamp,
) -> Result<Opened, Error> {
    let newest = orders::newest(conn(tx), &wanted.tenant, &wanted.order_id).await?;
    let round = match &newest {
        None => 1,
        Some(order) if wanted.is_after(order) => {
            let (tenant, order_id) = (&wanted.tenant, &wanted.order_id);
            if payments::live(conn(tx), tenant, order_id).await?.is_some() {
                return Ok(Opened::Taken);
            }
            order.round + 1
        }
        Some(order) => {
            if let Some(answer) = existing(conn(tx), wanted, order).await? {
                return Ok(answer);
            }
            order.round
        }
    };
    let at = Round { tenant: &wanted.tenant, order_id: &wanted.order_id, round };
    orders::insert(conn(tx), at, &wanted.content, now).await?;
    let attempt = orders::next_attempt(conn(tx), at, now).await?;
    let attempt = attempt.ok_or_else(|| Error::new(Kind::Changed, "number an attempt"))?;
    let new = NewPayment {
        payment_no: &draft.payment_no,
        at,
        attempt,
        channel: wanted.channel,
        way: wanted.way,
        amount: wanted.content.amount,
        currency: wanted.content.currency,
        subject: &wanted.content.subject,
        frozen: &draft.frozen,
        expires_at: draft.expires_at,
        next_check_at: now.plus(rules.first_check),
    };
    if !payments::insert(conn(tx), &new, now).await? {
        return Err(Error::new(Kind::Changed, "take the slot of an order"));
    }
    let written = payments::find(conn(tx), &draft.payment_no).await?;
    let written = written.ok_or_else(|| Error::new(Kind::Changed, "write an attempt down"))?;
    Ok(Opened::Fresh(Box::new(written)))
}

/// What an order that is there says to a request. `None`: it has no attempt that counts.
pub(crate) async fn existing(
    conn: &mut Conn,
    wanted: &Wanted,
    order: &Order,
) -> Result<Option<Opened>, Error> {
    let mut conflicts = order.content.conflicts(&wanted.content);
    if !conflicts.is_empty() {
        return Ok(Some(Opened::Conflict(conflicts)));
    }
    if let Some(no) = &order.paid_by {
        let paid = payments::find(conn, no).await?;
        let paid = paid.ok_or_else(|| Error::corrupt("an order paid by no payment"))?;
        return Ok(Some(Opened::Paid(Box::new(paid))));
    }
    let Some(live) = payments::live(conn, &wanted.tenant, &wanted.order_id).await? else {
        return Ok(None);
    };
    if live.way != wanted.way {
        let (stored, given) = (way_word(live.way).to_owned(), way_word(wanted.way).to_owned());
        conflicts.push(Conflict { field: "way", stored, given });
        return Ok(Some(Opened::Conflict(conflicts)));
    }
    Ok(Some(Opened::Open(Box::new(live))))
}

/// The channel is ready: what the buyer needs is kept, once, and only if nobody asked for an end
/// meanwhile.
pub(crate) async fn prepared(
    tx: &mut Tx,
    no: &PaymentNo,
    data: &PayData,
    rules: &Rules,
    now: Timestamp,
) -> Result<Option<Payment>, Error> {
    let Some(payment) = payments::find(conn(tx), no).await? else { return Ok(None) };
    let first_check = Some(now.plus(rules.first_check));
    if apply(tx, &payment, Fact::Prepared, first_check, now).await?.is_some() {
        payments::store_pay_data(conn(tx), no, data).await?;
    }
    payments::find(conn(tx), no).await
}

/// The channel surely will not take it: the slot is free.
pub(crate) async fn refused(
    tx: &mut Tx,
    no: &PaymentNo,
    why: &str,
    now: Timestamp,
) -> Result<Option<Payment>, Error> {
    let Some(payment) = payments::find(conn(tx), no).await? else { return Ok(None) };
    if apply(tx, &payment, Fact::Refused, None, now).await?.is_some() {
        payments::store_failure(conn(tx), no, why).await?;
    }
    payments::find(conn(tx), no).await
}
