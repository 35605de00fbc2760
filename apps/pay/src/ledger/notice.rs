//! A notice of the channel, from its bytes to the books.
//!
//! Invariant: only a notice whose content is in the books is settled; that its row exists says
//! nothing (`a_notice_that_came_before_its_payment_is_settled_later`).

use super::{
    Rules, close,
    paid::{self, Money, Settled},
    refunds,
};
use crate::{
    channel::{Event, Notice, PaymentNo, RefundNo},
    db::{
        Tx, conn,
        notices::{self, NoticeKey, Verdict},
        payments::{self, Payment},
    },
    error::Error,
};
use hapax::{Tenant, Timestamp};

/// Whose notice it is and how it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) channel: &'a str,
    pub(crate) account: &'a str,
    /// The bytes as they were received: evidence, and what a later judgement reads.
    pub(crate) body: &'a [u8],
}

/// Books a verified notice and says whether the channel may stop sending it.
pub(crate) async fn book(
    tx: &mut Tx,
    envelope: Envelope<'_>,
    notice: &Notice,
    rules: &Rules,
    now: Timestamp,
) -> Result<Verdict, Error> {
    let key = NoticeKey {
        channel: envelope.channel,
        account: envelope.account,
        notify_id: &notice.notify_id,
    };
    let no = Some(notice.payment_no.as_str());
    let known = notices::receive(conn(tx), envelope.tenant, key, no, envelope.body, now).await?;
    if known == Verdict::Settled {
        return Ok(Verdict::Settled);
    }
    let (verdict, reason) = match find(tx, envelope.tenant, &notice.payment_no).await? {
        None => (Verdict::Unmatched, "there is no such payment"),
        Some(payment) if payment.amount != notice.amount => {
            (Verdict::Quarantined, "the amount is not the one that was asked for")
        }
        Some(payment) => act(tx, &payment, notice, rules, now).await?,
    };
    notices::judge(conn(tx), key, verdict, reason, now).await?;
    Ok(verdict)
}

/// Keeps a notice that the channel signed and that does not fit its account.
pub(crate) async fn quarantine(
    tx: &mut Tx,
    envelope: Envelope<'_>,
    notify_id: &str,
    reason: &str,
    now: Timestamp,
) -> Result<Verdict, Error> {
    let Envelope { tenant, channel, account, body } = envelope;
    let key = NoticeKey { channel, account, notify_id };
    let known = notices::receive(conn(tx), tenant, key, None, body, now).await?;
    if known == Verdict::Settled {
        return Ok(known);
    }
    notices::judge(conn(tx), key, Verdict::Quarantined, reason, now).await?;
    Ok(Verdict::Quarantined)
}

async fn find(tx: &mut Tx, tenant: &Tenant, no: &str) -> Result<Option<Payment>, Error> {
    let Ok(no) = PaymentNo::parse(no) else { return Ok(None) };
    let payment = payments::find(conn(tx), &no).await?;
    Ok(payment.filter(|payment| payment.tenant == *tenant))
}

async fn act(
    tx: &mut Tx,
    payment: &Payment,
    notice: &Notice,
    rules: &Rules,
    now: Timestamp,
) -> Result<(Verdict, &'static str), Error> {
    match notice.event {
        Event::Waiting => {}
        Event::Paid | Event::Finished => {
            let paid_at = notice.paid_at.map(|moment| Timestamp::from_millis(moment.epoch_ms()));
            let trade_no = notice.trade_no.clone();
            let money = Money { trade_no, amount: notice.amount, paid_at };
            let settled = paid::settle(tx, &payment.payment_no, &money, now).await?;
            if settled == Settled::OtherAmount {
                return Ok((Verdict::Quarantined, "the amount is not the one asked for"));
            }
        }
        Event::RefundedInPart | Event::RefundedInFull => {
            if let Some(no) = notice.refund_no.as_deref().and_then(|no| RefundNo::parse(no).ok()) {
                refunds::noticed(tx, payment, &no, notice.refunded, now).await?;
            }
            refunds::given_back(tx, payment, notice.refunded, now).await?;
        }
        Event::Closed => {
            close::confirm(tx, &payment.payment_no, rules, now).await?;
        }
    }
    Ok((Verdict::Settled, ""))
}
