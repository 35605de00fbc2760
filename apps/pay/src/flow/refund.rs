//! Giving money back: set aside, ask under one number until it is known, then follow.
//!
//! Invariant: a refund keeps its number and its bytes for ever; "unknown" stays
//! ([`Status::Sent`]) and is asked about, never tried under a new number
//! (`an_unanswered_refund_is_made_once`).

use std::sync::Arc;

use super::{Desk, check::Next, on};
use crate::{
    channel::{self, Call, Cause, Channel, Frozen, Meaning, RefundSeen, RefundTaken},
    db::{
        moment,
        payments::{self, Payment},
        refunds::{self, NewRefund, Refund},
    },
    error::{Error, Kind},
    ledger::refunds::{self as books, Requested},
    money::Sum,
    refund::Status,
};

const STEP: Next = Next::Step { no_later_than: None };

/// Which copy of a refund's request is sent: it decides what a refusal proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    /// Nothing was sent before.
    First,
    /// One more, after the channel said that it has none.
    Again,
    /// The same content once more, signed as of now.
    SignedAnew,
}

impl Desk {
    /// Writes a merchant's refund down and asks the channel for it.
    pub(crate) async fn refund(
        self: &Arc<Self>,
        payment: &Payment,
        new: NewRefund,
    ) -> Result<Requested, Error> {
        let (payment, now) = (payment.clone(), self.now().await?);
        let requested = self
            .sql
            .write("refund.request", async move |mut tx| {
                let fresh = payments::find(crate::db::conn(&mut tx), &payment.payment_no).await?;
                books::request(&mut tx, &fresh.unwrap_or(payment), &new, now).await
            })
            .await?;
        match requested {
            Requested::New(written) => {
                Ok(Requested::New(Box::new(self.drive_and_look(&written).await?)))
            }
            Requested::Known(written) if !written.status.is_final() => {
                Ok(Requested::Known(Box::new(self.drive_and_look(&written).await?)))
            }
            settled @ (Requested::Known(_)
            | Requested::Conflict
            | Requested::NotPaid
            | Requested::Undecided
            | Requested::TooMuch { .. }) => Ok(settled),
        }
    }

    async fn drive_and_look(self: &Arc<Self>, written: &Refund) -> Result<Refund, Error> {
        match self.drive_refund(written).await {
            // A repeat of the request, or the sweep, was faster: what it did is looked at.
            Err(error) if error.kind() == Kind::Changed => {}
            driven => drop(driven?),
        }
        let mut reader = self.reader().await?;
        let found = refunds::find(on(&mut reader), &written.tenant, &written.refund_no).await?;
        Ok(found.unwrap_or_else(|| written.clone()))
    }

    /// Does what is due for a refund.
    pub(crate) async fn drive_refund(self: &Arc<Self>, refund: &Refund) -> Result<Next, Error> {
        match refund.status {
            Status::Reserved => self.send_refund(refund).await,
            Status::Sent => self.ask_refund(refund).await,
            Status::Done | Status::Refused => Ok(Next::Never),
        }
    }

    /// Sends a refund for the first time: the bytes are written down before they leave.
    async fn send_refund(self: &Arc<Self>, refund: &Refund) -> Result<Next, Error> {
        let now = self.now().await?;
        let payment = self.payment_of(refund).await?;
        let frozen = self.freeze_refund(&payment, refund).await?;
        let (written, bytes) = (refund.clone(), frozen.clone());
        let ask_again_at = now.plus(self.config.periods.refund_ask_after.0);
        let sent = self
            .sql
            .write("refund.asked", async move |mut tx| {
                let refund = (&written.tenant, &written.refund_no);
                books::asked(&mut tx, refund, &bytes, ask_again_at, now).await
            })
            .await?;
        match sent {
            Some(sent) => self.call_refund(&payment, &sent, &frozen, Copy::First).await,
            None => Ok(Next::Now),
        }
    }

    async fn freeze_refund(&self, payment: &Payment, refund: &Refund) -> Result<Frozen, Error> {
        let request = channel::Refund {
            payment_no: refund.payment_no.clone(),
            refund_no: refund.refund_no.clone(),
            amount: refund.amount,
            currency: refund.currency,
        };
        let now = moment(self.now().await?)?;
        let channel = self.channel(&refund.tenant, payment.channel)?;
        channel
            .freeze_refund(&request, now)
            .map_err(|why| Error::caused(Kind::Config, "freeze the refund", why))
    }

    /// Asks about a refund whose end is not known, and sends the same bytes again if the channel
    /// does not have it.
    async fn ask_refund(self: &Arc<Self>, refund: &Refund) -> Result<Next, Error> {
        let now = self.now().await?;
        let ask_from = refund.sent_at.unwrap_or(now).plus(self.config.periods.refund_ask_after.0);
        if now < ask_from {
            return Ok(Next::Step { no_later_than: Some(ask_from) });
        }
        let payment = self.payment_of(refund).await?;
        let channel = self.channel(&refund.tenant, payment.channel)?;
        match channel.query_refund(&refund.payment_no, &refund.refund_no, moment(now)?).await {
            Call::Done(RefundSeen::Made { amount, .. }) if amount == refund.amount => {
                self.refund_done(refund, None).await
            }
            Call::Done(RefundSeen::Made { .. }) => {
                let refund = &refund.refund_no;
                tracing::error!(%refund, "the channel has another amount for this refund");
                Ok(STEP)
            }
            Call::Done(RefundSeen::Missing) => match &refund.frozen {
                Some(frozen) => self.call_refund(&payment, refund, frozen, Copy::Again).await,
                None => Err(Error::corrupt("a sent refund without its bytes")),
            },
            Call::Refused(refusal) => {
                let said = refusal.said.to_string();
                tracing::warn!(refund = %refund.refund_no, said, "the channel refused a question");
                Ok(STEP)
            }
            Call::Unknown(cause) => {
                let refund = &refund.refund_no;
                tracing::info!(
                    %refund,
                    error = &cause as &dyn std::error::Error,
                    "the channel did not tell"
                );
                Ok(STEP)
            }
        }
    }

    async fn call_refund(
        self: &Arc<Self>,
        payment: &Payment,
        refund: &Refund,
        frozen: &Frozen,
        copy: Copy,
    ) -> Result<Next, Error> {
        let channel = self.channel(&refund.tenant, payment.channel)?;
        match channel.refund(frozen).await {
            Call::Done(RefundTaken::Moved { refunded }) => {
                let total = (refunded <= Sum::from(payment.amount)).then_some(refunded);
                if total.is_none() {
                    let refund = &refund.refund_no;
                    tracing::error!(%refund, "the channel gave back more than was paid");
                }
                self.refund_done(refund, total).await
            }
            Call::Done(RefundTaken::Ask) => Ok(STEP),
            Call::Refused(refusal) => {
                let said = refusal.said.to_string();
                tracing::warn!(refund = %refund.refund_no, said, "the channel refused a refund");
                match (refusal.meaning, copy) {
                    (Meaning::Final, Copy::First) => self.refund_refused(refund, &said).await,
                    (Meaning::Final, Copy::Again | Copy::SignedAnew) => {
                        self.refused_or_made(channel.as_ref(), refund, &said).await
                    }
                    _ => Ok(STEP),
                }
            }
            Call::Unknown(cause) => {
                let number = &refund.refund_no;
                tracing::info!(
                    refund = %number,
                    error = &cause as &dyn std::error::Error,
                    "a refund is not confirmed"
                );
                if let (Cause::TurnedAway(_) | Cause::Unsigned(_), Copy::Again) = (cause, copy) {
                    // The signed time has aged: the same content is signed anew, under one number.
                    let fresh = self.freeze_refund(payment, refund).await?;
                    let again = self.call_refund(payment, refund, &fresh, Copy::SignedAnew);
                    return Box::pin(again).await;
                }
                Ok(STEP)
            }
        }
    }

    /// A copy was refused for good, and an earlier one may have arrived meanwhile. If the channel
    /// still has none, none will ever be taken: what refused this one refuses that one too.
    async fn refused_or_made(
        self: &Arc<Self>,
        channel: &dyn Channel,
        refund: &Refund,
        said: &str,
    ) -> Result<Next, Error> {
        let now = moment(self.now().await?)?;
        match channel.query_refund(&refund.payment_no, &refund.refund_no, now).await {
            Call::Done(RefundSeen::Missing) => self.refund_refused(refund, said).await,
            Call::Done(RefundSeen::Made { amount, .. }) if amount == refund.amount => {
                self.refund_done(refund, None).await
            }
            Call::Done(RefundSeen::Made { .. }) | Call::Refused(_) | Call::Unknown(_) => Ok(STEP),
        }
    }

    /// Books a refund that was made, and `total`, what went back of its payment in all: a part of
    /// that may have gone by hand, and no notice may ever tell of it.
    async fn refund_done(&self, refund: &Refund, total: Option<Sum>) -> Result<Next, Error> {
        let (refund, now) = (refund.clone(), self.now().await?);
        self.sql
            .write("refund.done", async move |mut tx| {
                books::done(&mut tx, &refund.tenant, &refund.refund_no, now).await?;
                match total {
                    Some(total) => books::went_back(&mut tx, &refund.payment_no, total, now).await,
                    None => Ok(()),
                }
            })
            .await?;
        Ok(Next::Never)
    }

    async fn refund_refused(&self, refund: &Refund, why: &str) -> Result<Next, Error> {
        let (refund, why, now) = (refund.clone(), why.to_owned(), self.now().await?);
        self.sql
            .write("refund.refused", async move |mut tx| {
                books::refused(&mut tx, &refund.tenant, &refund.refund_no, &why, now).await
            })
            .await?;
        Ok(Next::Never)
    }

    async fn payment_of(&self, refund: &Refund) -> Result<Payment, Error> {
        let mut reader = self.reader().await?;
        let payment = payments::find(on(&mut reader), &refund.payment_no).await?;
        payment.ok_or_else(|| Error::corrupt("a refund without its payment"))
    }
}
