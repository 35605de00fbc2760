//! Creating a payment: written down, prepared at the channel, kept for the buyer.
//!
//! Invariant: the number and the bytes of a request to the channel are written down before they
//! are sent, and a repeat sends the same (`a_kill_after_the_channel_was_asked_leaves_one_attempt`);
//! a request opens an attempt only while its claim is its own
//! (`a_request_that_was_taken_over_opens_nothing`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    Desk, check, notify, on,
    point::{Asked, Point, asked_before},
};
use crate::{
    channel::{Call, Cause, Frozen, Meaning, Purchase, Refusal, Unfit},
    db::{
        claims, conn, moment, orders,
        payments::{self, Payment},
    },
    error::{Error, Kind},
    ledger::create::{self, Draft, Opened, Wanted},
    number,
    order::Conflict,
    payment::Status,
};
use hapax::{
    Timestamp, Work,
    lock::{LockName, Once},
};

/// Times that the channel is asked within one request before the sweep goes on with it.
const PREPARE_TRIES: u32 = 3;
/// Pause between two tries: long enough for a connection to come back.
const PREPARE_PAUSE: Duration = Duration::from_millis(50);

/// What a request for a payment came to.
#[derive(Clone, Debug)]
pub(crate) enum Created {
    /// It can be paid, or is paid.
    Ready {
        payment: Box<Payment>,
        /// Whether this request opened the attempt.
        is_fresh: bool,
    },
    /// The order has other content.
    Conflict(Vec<Conflict>),
    /// The channel will not take it.
    Refused(Box<Payment>),
    /// The channel cannot be asked for this.
    Unfit(Unfit),
    /// Somebody works on it, or the channel has not answered: not a failure.
    Processing {
        /// When another look is worth it.
        retry_after: Duration,
    },
}

impl Desk {
    /// Opens or finds the attempt for an order and gets it ready to be paid.
    ///
    /// One caller per order works at a time; the others wait a little, look again, and are told
    /// "processing" if it takes longer. `request` is what the completer needs to ask the same.
    pub(crate) async fn create(
        self: &Arc<Self>,
        mut wanted: Wanted,
        expires_in: Duration,
        request: &Bytes,
        work: &Work,
    ) -> Result<Created, Error> {
        wanted.again_after = self.again_after(&wanted, work).await?;
        let asked = Asked { again_after: wanted.again_after, request: request.clone() };
        let name = LockName::of(&wanted.tenant, "order", wanted.order_id.as_str());
        let wait = self.config.periods.wait.0;
        let look = async || self.find_ready(&wanted, work).await;
        let drive = async |_| self.open_and_prepare(&wanted, expires_in, &asked, work).await;
        let created = match self.turnstile.once(name, wait, look, drive).await? {
            Once::Worked(created) | Once::Found(created) => created,
            Once::Processing { retry_after } => Created::Processing { retry_after },
        };
        if let Created::Processing { .. } = created {
            self.adopt(&wanted, &asked, work).await?;
        }
        Ok(created)
    }

    /// Before a request is told to wait: the attempt that it waits for is its answer, also if the
    /// order is bought, closed or bought again before it asks. If there is none yet, or only one
    /// that is being closed, the request itself is kept, and the completer goes on with it.
    async fn adopt(&self, wanted: &Wanted, asked: &Asked, work: &Work) -> Result<(), Error> {
        if self.pointed(work).await?.is_some() || asked_before(work)?.is_some() {
            return Ok(());
        }
        let point = match self.existing(wanted).await? {
            Some(Opened::Open(payment) | Opened::Paid(payment))
                if payment.status != Status::Closing =>
            {
                Point::Adopted(payment.payment_no)
            }
            _ => Point::Asked(asked.clone()),
        };
        Ok(work.checkpoint(point.to_bytes()).await?)
    }

    /// The round that a purchase again follows: the one that was paid when it was first asked.
    async fn again_after(&self, wanted: &Wanted, work: &Work) -> Result<Option<u32>, Error> {
        if let Some(asked) = asked_before(work)? {
            return Ok(asked.again_after);
        }
        if !wanted.is_repurchase {
            return Ok(None);
        }
        let mut reader = self.reader().await?;
        let newest = orders::newest(on(&mut reader), &wanted.tenant, &wanted.order_id).await?;
        Ok(newest.filter(|order| order.paid_by.is_some()).map(|order| order.round))
    }

    /// What the order says to a request. `None`: it has no attempt that counts.
    async fn existing(&self, wanted: &Wanted) -> Result<Option<Opened>, Error> {
        let mut reader = self.reader().await?;
        let newest = orders::newest(on(&mut reader), &wanted.tenant, &wanted.order_id).await?;
        match newest {
            Some(order) if !wanted.is_after(&order) => {
                create::existing(on(&mut reader), wanted, &order).await
            }
            _ => Ok(None),
        }
    }

    /// What can be answered without any work.
    async fn find_ready(&self, wanted: &Wanted, work: &Work) -> Result<Option<Created>, Error> {
        if let Some((point, payment)) = self.pointed(work).await? {
            let told = self.told(Some(payment), matches!(point, Point::Own(..)));
            return Ok((!matches!(told, Created::Processing { .. })).then_some(told));
        }
        match self.existing(wanted).await? {
            Some(Opened::Conflict(conflicts)) => Ok(Some(Created::Conflict(conflicts))),
            Some(Opened::Paid(payment) | Opened::Open(payment)) if payment.pay_data.is_some() => {
                Ok(Some(Created::Ready { payment, is_fresh: false }))
            }
            _ => Ok(None),
        }
    }

    async fn open_and_prepare(
        self: &Arc<Self>,
        wanted: &Wanted,
        expires_in: Duration,
        asked: &Asked,
        work: &Work,
    ) -> Result<Created, Error> {
        // An earlier try of this very request opened it, or was told to wait for it.
        if let Some((point, payment)) = self.pointed(work).await? {
            return self.drive(payment, matches!(point, Point::Own(..))).await;
        }
        let now = self.now().await?;
        let draft = match self.draft(wanted, expires_in, asked, work, now).await? {
            Ok(draft) => draft,
            Err(why) => return Ok(Created::Unfit(why)),
        };
        let (rules, asked, fence) = (self.rules(), wanted.clone(), work.fence());
        let opened = self
            .sql
            .write("payment.open", async move |mut tx| {
                // Whoever took the request over may have ruled that it did nothing.
                if !claims::is_held(conn(&mut tx), &fence).await? {
                    return Err(Error::new(Kind::Changed, "open an attempt for a request"));
                }
                create::open(&mut tx, &asked, &draft, &rules, now).await
            })
            .await?;
        match opened {
            Opened::Fresh(payment) => {
                notify::judge_again(self, &payment.payment_no).await?;
                self.prepare(*payment, true).await
            }
            Opened::Open(payment) if payment.status == Status::Created => {
                self.prepare(*payment, false).await
            }
            Opened::Open(payment) if payment.status == Status::Closing => Ok(self.processing()),
            Opened::Taken => Ok(self.processing()),
            Opened::Open(payment) | Opened::Paid(payment) => {
                Ok(Created::Ready { payment, is_fresh: false })
            }
            Opened::Conflict(conflicts) => Ok(Created::Conflict(conflicts)),
        }
    }

    /// The number and the bytes for a new attempt. A request that was begun before goes on with
    /// the number that its recovery point holds.
    async fn draft(
        &self,
        wanted: &Wanted,
        expires_in: Duration,
        asked: &Asked,
        work: &Work,
        now: Timestamp,
    ) -> Result<Result<Draft, Unfit>, Error> {
        let point = Point::of(work)?;
        let payment_no = match point {
            Some(Point::Own(payment_no, _)) => payment_no,
            Some(Point::Adopted(_) | Point::Asked(_)) | None => {
                let fresh = number::payment_no()?;
                // Who was told to wait, or asked for more than the order says, is not forgotten
                // before its attempt is written down.
                let is_owed = matches!(point, Some(Point::Asked(_))) || wanted.is_repurchase;
                let point = Point::Own(fresh.clone(), is_owed.then(|| asked.clone()));
                work.checkpoint(point.to_bytes()).await?;
                fresh
            }
        };
        let expires_at = now.plus(expires_in);
        let purchase = Purchase {
            payment_no: payment_no.clone(),
            amount: wanted.content.amount,
            currency: wanted.content.currency,
            subject: wanted.content.subject.clone(),
            expires_at: moment(expires_at)?,
            way: wanted.way,
        };
        let channel = self.channel(&wanted.tenant, wanted.channel)?;
        let frozen = channel.freeze_purchase(&purchase, moment(now)?);
        Ok(frozen.map(|frozen| Draft { payment_no, frozen, expires_at }))
    }

    /// Asks the channel to take the money, with the bytes that were written down.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        payment: Payment,
        is_fresh: bool,
    ) -> Result<Created, Error> {
        let channel = self.channel(&payment.tenant, payment.channel)?;
        let no = payment.payment_no.clone();
        let mut frozen = payment.frozen.clone();
        for attempt in 1..=PREPARE_TRIES {
            match channel.prepare(&frozen).await {
                Call::Done(data) => {
                    let (rules, now) = (self.rules(), self.now().await?);
                    let kept = self
                        .sql
                        .write("payment.prepared", async move |mut tx| {
                            create::prepared(&mut tx, &no, &data, &rules, now).await
                        })
                        .await?;
                    return Ok(self.told(kept, is_fresh));
                }
                // Turned away at the door, perhaps because the signed time has aged: the same
                // content is signed anew.
                Call::Refused(refusal)
                    if refusal.meaning == Meaning::Misconfigured && attempt < PREPARE_TRIES =>
                {
                    frozen = self.freeze_again(&payment).await?;
                }
                Call::Unknown(Cause::TurnedAway(_) | Cause::Unsigned(_)) => {
                    frozen = self.freeze_again(&payment).await?;
                }
                Call::Refused(refusal) => {
                    return self.refused(payment, is_fresh, &refusal).await;
                }
                Call::Unknown(cause) => {
                    tracing::info!(
                        payment = %no,
                        error = &cause as &dyn std::error::Error,
                        "the channel did not confirm"
                    );
                }
            }
            if attempt < PREPARE_TRIES {
                self.pause(PREPARE_PAUSE).await;
            }
        }
        Ok(self.processing())
    }

    async fn freeze_again(&self, payment: &Payment) -> Result<Frozen, Error> {
        let now = self.now().await?;
        let purchase = Purchase {
            payment_no: payment.payment_no.clone(),
            amount: payment.amount,
            currency: payment.currency,
            subject: payment.subject.clone(),
            expires_at: moment(payment.expires_at)?,
            way: payment.way,
        };
        let channel = self.channel(&payment.tenant, payment.channel)?;
        // Past its expiry it cannot be prepared any more; the sweep closes it.
        Ok(channel
            .freeze_purchase(&purchase, moment(now)?)
            .unwrap_or_else(|_| payment.frozen.clone()))
    }

    /// Goes on with an attempt that was written down, whatever state it is in.
    pub(crate) async fn drive(
        self: &Arc<Self>,
        payment: Payment,
        is_fresh: bool,
    ) -> Result<Created, Error> {
        match payment.status {
            Status::Created => self.prepare(payment, is_fresh).await,
            Status::Waiting | Status::Closing | Status::Closed | Status::Paid | Status::Failed => {
                Ok(self.told(Some(payment), is_fresh))
            }
        }
    }

    async fn refused(
        self: &Arc<Self>,
        payment: Payment,
        is_fresh: bool,
        refusal: &Refusal,
    ) -> Result<Created, Error> {
        let said = refusal.said.to_string();
        tracing::warn!(payment = %payment.payment_no, said, "the channel refused a payment");
        match refusal.meaning {
            Meaning::Final | Meaning::Conflict | Meaning::AlreadyClosed => {
                let (no, now) = (payment.payment_no.clone(), self.now().await?);
                let kept = self
                    .sql
                    .write("payment.refused", async move |mut tx| {
                        create::refused(&mut tx, &no, &said, now).await
                    })
                    .await?;
                Ok(self.told(kept, is_fresh))
            }
            Meaning::AlreadyPaid | Meaning::Ask => {
                let no = payment.payment_no.clone();
                check::ask_channel(self, &payment).await?;
                let mut reader = self.reader().await?;
                Ok(self.told(payments::find(on(&mut reader), &no).await?, is_fresh))
            }
            // Nothing is wrong with the request: the sweep sends the same bytes again.
            Meaning::NotSeen | Meaning::Later | Meaning::Blocked | Meaning::Misconfigured => {
                Ok(self.processing())
            }
        }
    }

    fn processing(&self) -> Created {
        Created::Processing { retry_after: self.config.periods.wait.0 }
    }

    /// What the state of an attempt says to whoever asked for it.
    pub(crate) fn told(&self, payment: Option<Payment>, is_fresh: bool) -> Created {
        let Some(payment) = payment.map(Box::new) else { return self.processing() };
        match payment.status {
            Status::Failed => Created::Refused(payment),
            Status::Created => self.processing(),
            Status::Waiting | Status::Closing | Status::Closed | Status::Paid => {
                Created::Ready { payment, is_fresh }
            }
        }
    }
}
