//! Ownership of the work, and the ways to end it.
//!
//! Invariant: a lease that is dropped is handed on by its class and never silently released
//! (`a_dropped_lease_is_handed_on_by_its_class`).

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    flight::Seat,
    observe::Happening,
    operation::Declared,
    watchdog::{Ticket, Watched},
};
use crate::{
    decide::Grant,
    error::{Error, Kind},
    outcome::Outcome,
    record::{Class, Epoch, Fence, Record, Retention, State},
    store::{self, Answer, Found, Step},
    time::Timestamp,
};

/// What a holder knows about its attempt. Cheap to clone; the work may keep it.
///
/// It proves nothing by itself: every write through it is tied to the fence.
#[derive(Clone)]
pub struct Work(Arc<Attempt>);

struct Attempt {
    shared: Arc<Shared>,
    declared: Arc<Declared>,
    fence: Fence,
    grant: Grant,
    lost: CancellationToken,
    point: Mutex<Option<Bytes>>,
}

impl Work {
    pub(super) fn new(
        shared: Arc<Shared>,
        declared: Arc<Declared>,
        fence: Fence,
        grant: Grant,
    ) -> Self {
        let (lost, point) = (CancellationToken::new(), Mutex::new(grant.checkpoint.clone()));
        Self(Arc::new(Attempt { shared, declared, fence, grant, lost, point }))
    }

    /// The proof of ownership, for conditional writes of your own.
    pub fn fence(&self) -> Fence {
        self.0.fence
    }

    /// 1 for a first attempt; more when earlier ones were abandoned.
    pub fn attempt(&self) -> u32 {
        self.0.grant.attempt
    }

    /// The class that governs this attempt: the declared one, or a stricter one from the record.
    pub fn class(&self) -> Class {
        self.0.grant.class
    }

    /// When the first attempt began, by the store's clock.
    pub fn since(&self) -> Timestamp {
        self.0.grant.since
    }

    /// The last recovery point, of this attempt or of an earlier one.
    pub fn point(&self) -> Option<Bytes> {
        self.kept().clone()
    }

    /// A key for a downstream receiver: the same in every attempt, another for every step.
    pub fn child_key(&self, step: &str) -> String {
        self.0.fence.id.child_key(step)
    }

    /// Cancelled when the lease is lost. Work that has not begun its effect should stop then.
    pub fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// Keeps a recovery point that the next attempt would find.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if another attempt has taken over: stop. [`Kind::Unavailable`] and
    /// [`Kind::Unsure`]: the point may or may not be kept; do not begin what depends on it.
    pub async fn checkpoint(&self, point: Bytes) -> Result<(), Error> {
        let op = "keep the recovery point";
        let step = Step::Checkpoint { fence: self.0.fence, point: point.clone() };
        match super::only(self.0.shared.store.apply(vec![step]).await) {
            Answer::Applied { .. } | Answer::Granted(_) => {}
            Answer::Found(_) => return Err(self.fenced(op)),
            Answer::Away(fault) => return Err(Error::away(op, fault)),
            Answer::Unsure(fault) => return Err(Error::unsure(op, fault)),
        }
        *self.kept() = Some(point);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Option<Bytes>> {
        // Assigning leaves nothing half done.
        self.0.point.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fenced(&self, op: &'static str) -> Error {
        self.observe(&Happening::Fenced);
        Error::new(Kind::Fenced, op)
    }

    fn observe(&self, event: &Happening) {
        self.0.shared.observer.observe(&self.0.declared.name, self.0.fence.id, event);
    }

    /// How long the attempt lives without a renewal.
    pub fn lease(&self) -> Duration {
        self.0.declared.policy.lease
    }

    /// The answer as the operation keeps it: whole, or above its bound only as a tombstone.
    pub fn bounded(&self, answer: Bytes) -> Outcome {
        Outcome::bounded(answer, b"", self.0.declared.policy.outcome_bytes_max)
    }

    fn retention(&self) -> Retention {
        self.0.declared.policy.retention
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = &self.0;
        write!(f, "Work({:?}, attempt {})", attempt.fence, attempt.grant.attempt)
    }
}

/// The right to do the work, until it is ended, lost or dropped.
///
/// # Cancellation
/// Each way to end it stores its word even if the future is dropped half-way. A lease that is
/// dropped unended is given back for take-over under the rules of its class; an opaque one is
/// held for a person, since nobody can know what was done.
#[must_use = "a lease that is dropped is handed on as if its holder had died"]
pub struct Lease {
    held: Box<Held>,
}

/// What makes a lease live. Dropped while it is live, it hands the attempt on.
pub(super) struct Held {
    work: Work,
    /// The record as it was granted, for those who wait in this process.
    record: Arc<Record>,
    seat: Option<Seat>,
    /// The watch over it. Without one it is not live: its last word is being said elsewhere.
    ticket: Option<Ticket>,
    granted_at: Instant,
}

impl Lease {
    /// Takes the grant under watch and shows it to those who wait in this process.
    pub(super) fn new(work: Work, record: Record, seat: Seat, sent_at: Instant) -> Self {
        let now = work.0.grant.now;
        let record = Arc::new(record);
        seat.publish(Found { record: Some(Arc::clone(&record)), now });
        let granted_at = work.0.shared.clock.now();
        let seat = Some(seat);
        let mut held = Box::new(Held { work, record, seat, ticket: None, granted_at });
        held.watch(sent_at);
        Self { held }
    }

    /// What the work needs to know; it may keep it while the lease is elsewhere.
    pub fn work(&self) -> Work {
        self.held.work.clone()
    }

    /// Stores the outcome and closes the record.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if another attempt has taken over; the outcome is then discarded.
    /// [`Kind::Unsure`] if the store did not confirm in time; it is tried on in the background.
    pub fn complete(self, outcome: Outcome) -> impl Future<Output = Result<(), Error>> + Send {
        let (fence, retention) = (self.fence(), self.held.work.retention());
        self.end(Step::Complete { fence, outcome, retention })
    }

    /// Gives the work back: surely no effect. The same key may come with another request.
    ///
    /// A later attempt of a keyed operation can't speak for the earlier ones, whose requests the
    /// receiver may have: it [hands on](Self::hand_on) instead, and the window and the request
    /// stay known. After a `Verify`, release only if the receiver was asked and sealed.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn release(self) -> Result<(), Error> {
        let (fence, memory) = (self.fence(), self.held.work.lease());
        let step = match (self.class(), self.attempt()) {
            (Class::Keyed, 2..) => hand_on(&self),
            _ => Step::Release { fence, memory },
        };
        self.end(step).await
    }

    /// Says that the outcome is unknown; `why` is for the operator.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn doubt(self, why: impl Into<String>) -> Result<(), Error> {
        let fence = self.fence();
        self.end(Step::Doubt { fence, why: why.into() }).await
    }

    /// Ends the lease now, so that the next attempt need not wait for it to lapse.
    ///
    /// The class decides what the next attempt may do, as if this one had died.
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn hand_on(self) -> Result<(), Error> {
        let step = hand_on(&self);
        self.end(step).await
    }

    /// Ends an attempt whose effect nobody knows, as its class says; `why` is for the operator.
    ///
    /// What can safely be done again is [handed on](Self::hand_on), everything else is in
    /// [doubt](Self::doubt).
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    pub async fn unknown(self, why: impl Into<String>) -> Result<(), Error> {
        match self.class() {
            Class::Transactional | Class::Keyed => self.hand_on().await,
            Class::Queryable | Class::Opaque => self.doubt(why).await,
        }
    }

    /// Stops the renewals: the transaction at hand ends with the fenced write.
    pub fn seal(mut self) -> Sealing {
        self.held.unwatch();
        Sealing { held: self.held }
    }

    fn end(mut self, step: Step) -> impl Future<Output = Result<(), Error>> + Send {
        self.held.unwatch();
        Ending { work: Some((self.held, step)) }.run()
    }
}

impl std::ops::Deref for Lease {
    type Target = Work;

    fn deref(&self) -> &Work {
        &self.held.work
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?})", self.held.work)
    }
}

/// What a holder leaves that gives up without a word of its own.
fn hand_on(work: &Work) -> Step {
    let fence = work.fence();
    match work.class() {
        Class::Transactional | Class::Keyed | Class::Queryable => {
            Step::Renew { fence, lease: Duration::ZERO }
        }
        Class::Opaque => Step::Doubt { fence, why: "the holder gave up".to_owned() },
    }
}

impl Held {
    fn shared(&self) -> &Arc<Shared> {
        &self.work.0.shared
    }

    fn watch(&mut self, sent_at: Instant) {
        self.ticket = Some(self.shared().watchdog.watch(Watched {
            operation: self.work.0.declared.name.clone(),
            fence: self.work.fence(),
            lease: self.work.lease(),
            sent_at,
            lost: self.work.lost().clone(),
            exit: self.seat.as_ref().map(Seat::exit),
        }));
    }

    /// Whether it was live until now.
    fn unwatch(&mut self) -> bool {
        let ticket = self.ticket.take();
        ticket.iter().for_each(|ticket| self.shared().watchdog.forget(*ticket));
        ticket.is_some()
    }

    /// Tells those who wait in this process what a transaction committed.
    fn sealed(&mut self, outcome: Outcome, now: Timestamp) {
        let (fence, retention) = (self.work.fence(), self.work.retention());
        self.publish(&Step::Complete { fence, outcome, retention }, fence.epoch, now);
    }

    /// Tells those who wait in this process how it ended.
    fn publish(&mut self, step: &Step, epoch: Epoch, now: Timestamp) {
        let event = match step {
            Step::Complete { .. } => {
                let took = self.shared().clock.now().duration_since(self.granted_at);
                Happening::Completed { took }
            }
            Step::Release { .. } => Happening::Released,
            Step::Doubt { .. } => Happening::Doubted,
            Step::Claim(_) | Step::Renew { .. } | Step::Checkpoint { .. } | Step::Settle { .. } => {
                return;
            }
        };
        self.work.observe(&event);
        let Some(seat) = self.seat.take().filter(Seat::has_followers) else { return };
        if let Step::Complete { outcome, retention, .. } = step {
            let mut record = Record { epoch, ..Record::clone(&self.record) };
            store::complete(&mut record, outcome, *retention, now);
            seat.publish(Found { record: Some(Arc::new(record)), now });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.unwatch() {
            let step = hand_on(&self.work);
            let held = Self {
                work: self.work.clone(),
                record: Arc::clone(&self.record),
                seat: self.seat.take(),
                ticket: None,
                granted_at: self.granted_at,
            };
            drop(Ending { work: Some((Box::new(held), step)) });
        }
    }
}

/// A last word on its way to the store. If its caller goes away, it goes on by itself.
struct Ending {
    work: Option<(Box<Held>, Step)>,
}

impl Ending {
    async fn run(mut self) -> Result<(), Error> {
        let Some((held, step)) = &self.work else { return Ok(()) };
        // Dropped here, `self` sends the word again from its own task; the fence makes it one.
        let answer = super::only(held.shared().store.apply(vec![step.clone()]).await);
        let Some((mut held, step)) = self.work.take() else { return Ok(()) };
        match answer {
            Answer::Applied { epoch, now } => {
                held.publish(&step, epoch, now);
                Ok(())
            }
            Answer::Granted(_) => Ok(()),
            Answer::Found(_) => Err(held.work.fenced("end the attempt")),
            Answer::Away(fault) | Answer::Unsure(fault) => {
                held.work.observe(&Happening::StoreFailed);
                let tasks = held.shared().tasks.clone();
                let (sender, receiver) = tokio::sync::oneshot::channel();
                tasks.spawn(async move {
                    // The caller may be gone; the word is kept all the same.
                    drop(sender.send(persist(held, step).await));
                });
                let lost = || Err(Error::unsure("end the attempt", fault));
                receiver.await.unwrap_or_else(|_| lost())
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some((held, step)) = self.work.take() {
            let tasks = held.shared().tasks.clone();
            // Outside a runtime nothing can be sent; the lease then lapses by itself.
            if tokio::runtime::Handle::try_current().is_ok() {
                tasks.spawn(async move { persist(held, step).await });
            }
        }
    }
}

/// Sends the last word until the store takes it or refuses it, for one lease.
///
/// After that the record is as if the holder had died, and its class says what may happen.
async fn persist(mut held: Box<Held>, step: Step) -> Result<(), Error> {
    let clock = Arc::clone(&held.shared().clock);
    let give_up_at = clock.now() + held.work.lease();
    let mut pauses = super::backoff(held.work.lease());
    loop {
        let fault = match super::only(held.shared().store.apply(vec![step.clone()]).await) {
            Answer::Applied { epoch, now } => {
                held.publish(&step, epoch, now);
                return Ok(());
            }
            Answer::Granted(_) => return Ok(()),
            Answer::Found(_) => return Err(held.work.fenced("end the attempt")),
            Answer::Away(fault) | Answer::Unsure(fault) => fault,
        };
        if clock.now() >= give_up_at {
            let record = held.work.fence().id.short();
            tracing::error!(%record, "gave up storing how an attempt ended");
            return Err(Error::unsure("end the attempt", fault));
        }
        clock.sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// A lease whose last word is part of a database transaction.
///
/// Dropped without a word about the transaction, it leaves the record as it is: the lease lapses
/// and the class decides. It is never blindly released.
#[must_use = "say whether the transaction committed"]
pub struct Sealing {
    held: Box<Held>,
}

impl Sealing {
    /// The fence that the conditional write compares.
    pub fn fence(&self) -> Fence {
        self.held.work.fence()
    }

    /// How long the outcome answers repeats.
    pub fn retention(&self) -> Retention {
        self.held.work.retention()
    }

    /// The transaction committed with this outcome at the store's `now`.
    pub fn committed(mut self, outcome: Outcome, now: Timestamp) {
        self.held.sealed(outcome, now);
    }

    /// The conditional write found another attempt's fence.
    pub fn fenced(self) -> Error {
        self.held.work.fenced("seal the transaction")
    }

    /// The transaction surely did not commit: the lease goes on, if it has not lapsed.
    pub fn rolled_back(mut self) -> Lease {
        let sent_at = self.held.shared().clock.now();
        // The lease is renewed at once, since no renewal ran while the transaction did.
        self.held.watch(sent_at.checked_sub(self.held.work.lease() / 2).unwrap_or(sent_at));
        Lease { held: self.held }
    }

    /// The answer to COMMIT was lost: asks the record by its fence.
    ///
    /// It renews the lease, which waits for whoever still writes to the record: a look would not
    /// see a commit that is under way, and would call it rolled back.
    ///
    /// # Errors
    /// [`Kind::Unsure`] if the store does not tell within one lease.
    pub async fn resolve(self) -> Result<Resolved, Error> {
        let mut held = self.held;
        let clock = Arc::clone(&held.shared().clock);
        let give_up_at = clock.now() + held.work.lease();
        let mut pauses = super::backoff(held.work.lease());
        loop {
            let (fence, lease) = (held.work.fence(), held.work.lease());
            let step = Step::Renew { fence, lease };
            let sent_at = clock.now();
            let fault = match super::only(held.shared().store.apply(vec![step]).await) {
                Answer::Applied { .. } => {
                    held.watch(sent_at);
                    return Ok(Resolved::RolledBack(Lease { held }));
                }
                Answer::Found(found) => return Ok(judge(&mut held, found)),
                Answer::Away(fault) | Answer::Unsure(fault) => fault,
                Answer::Granted(_) => super::no_answer(),
            };
            if clock.now() >= give_up_at {
                return Err(Error::unsure("read the commit back", fault));
            }
            clock.sleep(pauses.next().unwrap_or_default()).await;
        }
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing").field("fence", &self.fence()).finish_non_exhaustive()
    }
}

/// What became of a transaction whose COMMIT was not answered.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it committed, it did not, or it is not ours")]
pub enum Resolved {
    /// It committed.
    Committed(Outcome),
    /// It did not, and the work is still ours.
    RolledBack(Lease),
    /// Another attempt has taken over.
    Fenced(Error),
}

fn judge(held: &mut Held, found: Found) -> Resolved {
    let ours = found
        .record
        .filter(|record| record.is_held_by(&held.work.fence()) && record.state == State::Completed);
    match ours.and_then(|record| record.outcome.clone()) {
        Some(outcome) => {
            held.sealed(outcome.clone(), found.now);
            Resolved::Committed(outcome)
        }
        None => Resolved::Fenced(held.work.fenced("read the commit back")),
    }
}
