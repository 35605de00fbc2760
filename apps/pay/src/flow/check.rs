//! Asking the channel where a payment stands, and following what it says.
//!
//! One place for the sweep, for a close and for whoever was told "ask". Invariant: "the channel
//! has no such trade" is not "closed" before the expiry and its grace
//! (`a_code_that_nobody_scanned_is_not_closed_before_its_time`), and only a signed answer moves
//! anything or ends the watch over a closed payment
//! (`the_watch_over_a_closed_payment_does_not_end_without_an_answer`).

use std::{sync::Arc, time::Duration};

use super::Desk;
use crate::{
    channel::{Call, Meaning, PaymentNo, Trade, TradeSeen, TradeStatus},
    db::{moment, payments::Payment},
    error::Error,
    ledger::{
        close,
        paid::{self, Money, Settled},
        refunds,
    },
    money::Sum,
    payment::Status,
};
use hapax::Timestamp;

/// When to ask about a payment again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// By the steps of the configuration, or at this moment if it is earlier.
    Step {
        /// A moment that must not be missed, such as the expiry.
        no_later_than: Option<Timestamp>,
    },
    /// Never: nothing more can happen.
    Never,
    /// At once: its state changed and the next question is due.
    Now,
}

const STEP: Next = Next::Step { no_later_than: None };

impl Desk {
    /// Does what is due for a payment.
    pub(crate) async fn check(self: &Arc<Self>, payment: &Payment) -> Result<Next, Error> {
        let now = self.now().await?;
        match payment.status {
            Status::Created if now < payment.expires_at => {
                self.prepare(payment.clone(), false).await?;
                Ok(Next::Step { no_later_than: Some(payment.expires_at) })
            }
            Status::Created => {
                self.ask_to_close(&payment.payment_no).await?;
                Ok(Next::Now)
            }
            Status::Waiting => self.check_waiting(payment, now).await,
            Status::Closing => self.try_close(payment, now).await,
            Status::Closed => {
                let is_watched = now.since(payment.expires_at) < self.config.periods.watch.0;
                match ask_channel(self, payment).await? {
                    Asked::Unpaid | Asked::Missing | Asked::Booked if !is_watched => {
                        Ok(Next::Never)
                    }
                    // Late money may be there as long as the channel does not tell.
                    Asked::Unpaid | Asked::Missing | Asked::Booked | Asked::Unknown => Ok(STEP),
                }
            }
            Status::Paid | Status::Failed => Ok(Next::Never),
        }
    }

    async fn check_waiting(
        self: &Arc<Self>,
        payment: &Payment,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let is_expired = now >= payment.expires_at;
        match ask_channel(self, payment).await? {
            Asked::Unpaid | Asked::Missing if is_expired => {
                self.ask_to_close(&payment.payment_no).await?;
                Ok(Next::Now)
            }
            Asked::Unpaid | Asked::Missing => {
                Ok(Next::Step { no_later_than: Some(payment.expires_at) })
            }
            Asked::Booked => Ok(Next::Never),
            Asked::Unknown => Ok(STEP),
        }
    }

    /// Marks a payment as to be closed. The slot stays taken until the channel confirms.
    pub(crate) async fn ask_to_close(&self, no: &PaymentNo) -> Result<Option<Payment>, Error> {
        let (no, now) = (no.clone(), self.now().await?);
        self.sql
            .write("payment.close_asked", async move |mut tx| close::ask(&mut tx, &no, now).await)
            .await
    }

    /// Closes a payment at the channel and, once that is confirmed, in the books.
    pub(crate) async fn try_close(
        self: &Arc<Self>,
        payment: &Payment,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let channel = self.channel(&payment.tenant, payment.channel)?;
        let refusal = match channel.close(&payment.payment_no, moment(now)?).await {
            Call::Done(()) => {
                self.confirm_closed(&payment.payment_no).await?;
                return Ok(STEP);
            }
            Call::Unknown(cause) => {
                let payment = &payment.payment_no;
                tracing::info!(
                    %payment,
                    error = &cause as &dyn std::error::Error,
                    "a close is not confirmed"
                );
                return Ok(STEP);
            }
            Call::Refused(refusal) => refusal,
        };
        match refusal.meaning {
            Meaning::NotSeen => self.close_unseen(payment, now).await,
            Meaning::Ask | Meaning::AlreadyPaid | Meaning::AlreadyClosed => {
                match ask_channel(self, payment).await? {
                    Asked::Booked => Ok(Next::Never),
                    Asked::Missing => self.close_unseen(payment, now).await,
                    Asked::Unpaid | Asked::Unknown => Ok(STEP),
                }
            }
            Meaning::Conflict
            | Meaning::Final
            | Meaning::Later
            | Meaning::Blocked
            | Meaning::Misconfigured => {
                let said = refusal.said.to_string();
                tracing::warn!(payment = %payment.payment_no, said, "the channel refused a close");
                Ok(STEP)
            }
        }
    }

    /// Nobody has scanned the code yet. It may still be paid until it expires, and a little later
    /// by the channel's clock.
    async fn close_unseen(
        self: &Arc<Self>,
        payment: &Payment,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let gone_at = payment.expires_at.plus(self.config.periods.expiry_grace.0);
        if now < gone_at {
            return Ok(Next::Step { no_later_than: Some(gone_at) });
        }
        match ask_channel(self, payment).await? {
            Asked::Missing => {
                self.confirm_closed(&payment.payment_no).await?;
                Ok(STEP)
            }
            Asked::Booked => Ok(Next::Never),
            Asked::Unpaid | Asked::Unknown => Ok(STEP),
        }
    }

    async fn confirm_closed(&self, no: &PaymentNo) -> Result<(), Error> {
        let (no, rules, now) = (no.clone(), self.rules(), self.now().await?);
        self.sql
            .write("payment.closed", async move |mut tx| {
                close::confirm(&mut tx, &no, &rules, now).await
            })
            .await?;
        Ok(())
    }

    /// When to ask next, given how often it was asked before this time.
    pub(crate) fn next_check(&self, next: Next, checks: u32, now: Timestamp) -> Option<Timestamp> {
        let step = now.plus(self.config.periods.check_after(checks.saturating_add(1)));
        match next {
            Next::Never => None,
            Next::Now => Some(now),
            Next::Step { no_later_than: None } => Some(step),
            Next::Step { no_later_than: Some(limit) } => {
                // A limit that has passed must not make a loop without pauses.
                let soonest = now.plus(Duration::from_millis(1));
                Some(std::cmp::min(step, std::cmp::max(limit, soonest)))
            }
        }
    }
}

/// What the channel said, after the books followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Seen by the buyer, unpaid.
    Unpaid,
    /// Not seen by the buyer yet.
    Missing,
    /// Money that came, or a close, is in the books now.
    Booked,
    /// No answer that can be believed.
    Unknown,
}

/// Asks the channel about a payment and books what it says.
pub(crate) async fn ask_channel(desk: &Arc<Desk>, payment: &Payment) -> Result<Asked, Error> {
    let channel = desk.channel(&payment.tenant, payment.channel)?;
    let now = desk.now().await?;
    match channel.query(&payment.payment_no, moment(now)?).await {
        Call::Done(TradeSeen::Missing) => Ok(Asked::Missing),
        Call::Done(TradeSeen::Found(trade)) => book(desk, payment, &trade).await,
        Call::Refused(refusal) => {
            let said = refusal.said.to_string();
            tracing::warn!(payment = %payment.payment_no, said, "the channel refused a question");
            Ok(Asked::Unknown)
        }
        Call::Unknown(cause) => {
            let payment = &payment.payment_no;
            tracing::info!(
                %payment,
                error = &cause as &dyn std::error::Error,
                "the channel did not tell"
            );
            Ok(Asked::Unknown)
        }
    }
}

async fn book(desk: &Arc<Desk>, payment: &Payment, trade: &Trade) -> Result<Asked, Error> {
    let came = match trade.status {
        TradeStatus::Waiting => return Ok(Asked::Unpaid),
        TradeStatus::Paid | TradeStatus::Finished => true,
        // Closed after it was paid: all of the money went back.
        TradeStatus::Closed => trade.paid_at.is_some(),
    };
    if !came {
        desk.confirm_closed(&payment.payment_no).await?;
        return Ok(Asked::Booked);
    }
    let money = Money {
        trade_no: trade.trade_no.clone(),
        amount: trade.amount,
        paid_at: trade.paid_at.map(|at| Timestamp::from_millis(at.epoch_ms())),
    };
    let went_back = (trade.status == TradeStatus::Closed).then(|| Sum::from(trade.amount));
    let (no, now) = (payment.payment_no.clone(), desk.now().await?);
    let settled = desk
        .sql
        .write("payment.paid", async move |mut tx| {
            let settled = paid::settle(&mut tx, &no, &money, now).await?;
            match (settled, went_back) {
                (Settled::Paid | Settled::Surplus | Settled::Already, Some(total)) => {
                    refunds::went_back(&mut tx, &no, total, now).await?;
                }
                (Settled::OtherAmount | Settled::Missing, _) | (_, None) => {}
            }
            Ok::<_, Error>(settled)
        })
        .await?;
    if settled == Settled::OtherAmount {
        tracing::error!(
            payment = %payment.payment_no,
            "the channel has another amount for this payment; nothing was booked"
        );
        return Ok(Asked::Unknown);
    }
    Ok(Asked::Booked)
}
