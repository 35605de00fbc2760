//! From a call to a decision: who leads asks the store, who follows waits for what it says.
//!
//! Invariant: a claim that was granted is never lost. If its caller goes away before it holds
//! the lease, the claim is taken back (`a_caller_that_goes_away_leaves_no_claim`).

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};

use super::{
    Shared,
    flight::{Follower, Place, Seat},
    lease::{Lease, Work},
    observe::Happening,
    operation::Call,
    policy::Busy,
};
#[cfg(doc)]
use crate::error::Kind;
use crate::{
    decide::{Decision, Grant, decide},
    error::Error,
    outcome::Outcome,
    record::{Fence, Nonce},
    store::{self, Answer, Claim, Found, Step},
};

/// How often a record may change, or be locked by somebody, under our hands before we call it busy.
const ROUNDS_MAX: u32 = 8;
/// First pause between two looks at a record that somebody else works on.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two looks: the worst delay of an answer whose hint was lost.
const POLL_MAX: Duration = Duration::from_millis(250);

/// What a call may do, with what it needs to do it.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "these are the moves; a new one must break callers")]
pub enum Begin {
    /// Do the work.
    Run(Lease),
    /// An earlier attempt died and its receiver can be asked: ask, seal, then complete, release
    /// or run.
    Verify(Lease),
    /// Done before: the stored answer.
    Replay(Outcome),
    /// Somebody works on it.
    Busy {
        /// When another look is worth it.
        retry_after: Duration,
    },
    /// The same key asked for something else before.
    Mismatch,
    /// Nobody may run it; it waits for the reconciler or a person.
    Held,
    /// Done before, and the answer is no longer kept.
    Expired,
}

impl Call {
    /// Claims the work, or says why it is not to be done.
    ///
    /// Waits for a running attempt if the policy or the caller says so. A repeat that waits holds
    /// no connection.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] and [`Kind::Full`]: nothing was claimed. [`Kind::Unsure`]: if
    /// something was claimed, it is taken back in the background.
    ///
    /// # Cancellation
    /// Safe: a claim that was granted to a caller who is gone is released.
    pub async fn begin(&self) -> Result<Begin, Error> {
        let begun = self.take_place().await;
        let shared = &self.operation.shared;
        let event = match &begun {
            Ok(Begin::Run(lease) | Begin::Verify(lease)) => {
                Happening::Began { attempt: lease.attempt(), class: lease.class() }
            }
            Ok(Begin::Replay(_)) => Happening::Replayed,
            Ok(Begin::Busy { .. }) => Happening::Busy,
            Ok(Begin::Mismatch) => Happening::Mismatched,
            Ok(Begin::Held) => Happening::Held,
            Ok(Begin::Expired) => Happening::Expired,
            Err(_) => Happening::StoreFailed,
        };
        shared.observer.observe(&self.operation.declared.name, self.id, &event);
        begun
    }

    async fn take_place(&self) -> Result<Begin, Error> {
        let shared = &self.operation.shared;
        let patience = match self.busy {
            Busy::Refuse => Duration::ZERO,
            Busy::Wait(longest) => longest,
        };
        let give_up_at = shared.clock.now() + patience;
        let mut attempt =
            Attempt { call: self, claim: Arc::new(self.claim(Nonce::random()?)), give_up_at };
        for _ in 0..ROUNDS_MAX {
            let begun = match shared.flights.join(self.id) {
                Place::Lead(seat) => return attempt.lead(seat).await,
                Place::Follow(follower) => attempt.follow(follower).await,
                Place::Crowded => Some(Begin::Busy { retry_after: POLL_MAX }),
            };
            if let Some(begun) = begun {
                return Ok(begun);
            }
        }
        Ok(Begin::Busy { retry_after: POLL_MAX })
    }
}

/// A call on its way, with its claim and its patience.
struct Attempt<'a> {
    call: &'a Call,
    claim: Arc<Claim>,
    give_up_at: std::time::Instant,
}

impl Attempt<'_> {
    fn shared(&self) -> &Arc<Shared> {
        &self.call.operation.shared
    }

    /// Asks the store for everybody who waits for this key.
    async fn lead(&mut self, seat: Seat) -> Result<Begin, Error> {
        let mut look_first = self.shared().reads_first;
        let mut rounds = 0;
        let mut pause = POLL_MIN;
        loop {
            let found = if look_first {
                self.shared().look(self.call.id).await?
            } else {
                let sent_at = self.shared().clock.now();
                match self.send().await? {
                    Sent::Granted(grant) => return Ok(self.hold(grant, seat, sent_at)),
                    Sent::Found(found) => found,
                }
            };
            let decision = decide(&found, &self.claim);
            seat.publish(found);
            match decision {
                Decision::Run(_) | Decision::Verify(_) | Decision::Spent => {
                    if !look_first {
                        rounds += 1;
                        Arc::make_mut(&mut self.claim).nonce = Nonce::random()?;
                    }
                    // The first time it has merely changed; after that somebody is at it.
                    if rounds > 1 {
                        self.wait_for_change(pause).await;
                        pause = std::cmp::min(pause * 2, POLL_MAX);
                    }
                    if rounds >= ROUNDS_MAX {
                        return Ok(Begin::Busy { retry_after: POLL_MAX });
                    }
                    look_first = false;
                }
                Decision::Busy { .. } if self.patience() > Duration::ZERO => {
                    self.wait_for_change(std::cmp::min(pause, self.patience())).await;
                    pause = std::cmp::min(pause * 2, POLL_MAX);
                    look_first = true;
                }
                Decision::Busy { retry_after } => return Ok(Begin::Busy { retry_after }),
                Decision::Replay(outcome) => return Ok(Begin::Replay(outcome)),
                Decision::Mismatch => return Ok(Begin::Mismatch),
                Decision::Held => return Ok(Begin::Held),
                Decision::Expired => return Ok(Begin::Expired),
            }
        }
    }

    /// Waits for what the leader sees. `None`: the flight ended without an answer for us.
    async fn follow(&self, follower: Follower) -> Option<Begin> {
        loop {
            let (sight, changed) = follower.sight();
            let decision = sight.found.as_ref().map(|found| decide(found, &self.claim));
            match decision {
                Some(Decision::Replay(outcome)) => return Some(Begin::Replay(outcome)),
                Some(Decision::Mismatch) => return Some(Begin::Mismatch),
                Some(Decision::Held) => return Some(Begin::Held),
                Some(Decision::Expired) => return Some(Begin::Expired),
                Some(Decision::Busy { retry_after }) if self.patience().is_zero() => {
                    return Some(Begin::Busy { retry_after });
                }
                _ if sight.has_ended => return None,
                Some(
                    Decision::Busy { .. }
                    | Decision::Run(_)
                    | Decision::Verify(_)
                    | Decision::Spent,
                )
                | None => {}
            }
            // Without a first sight even an impatient follower waits: the leader's call of the
            // store is bounded, and then it knows.
            let patience = match &sight.found {
                Some(_) => self.patience(),
                None => std::cmp::max(self.patience(), self.claim.lease),
            };
            let over = self.shared().clock.sleep(patience);
            // Both may be dropped: the sight is a value, not a queue.
            if let Either::Right(_) = select(pin!(changed), over).await {
                return Some(Begin::Busy { retry_after: POLL_MAX });
            }
        }
    }

    /// How long the caller still wants to wait.
    fn patience(&self) -> Duration {
        self.give_up_at.saturating_duration_since(self.shared().clock.now())
    }

    async fn wait_for_change(&self, longest: Duration) {
        let changed = self.shared().store.changed(self.call.id);
        // A hint and a timer: both may be dropped.
        drop(select(changed, self.shared().clock.sleep(longest)).await);
    }

    /// Sends the claim until the store answers, for half a lease: a nonce lives no longer than
    /// one lease, and the second half belongs to the answer.
    async fn send(&self) -> Result<Sent, Error> {
        let shared = self.shared();
        let mut pending = Pending { claim: Some(Arc::clone(&self.claim)), shared };
        let give_up_at = shared.clock.now() + self.claim.lease / 2;
        let mut pauses = super::backoff(self.claim.lease);
        let mut in_doubt = false;
        loop {
            let step = Step::Claim(Arc::clone(&self.claim));
            let fault = match super::only(shared.store.apply(vec![step]).await) {
                Answer::Granted(grant) => {
                    pending.claim = None;
                    return Ok(Sent::Granted(grant));
                }
                Answer::Found(found) => {
                    pending.claim = None;
                    return Ok(Sent::Found(found));
                }
                Answer::Away(fault) if !in_doubt => {
                    pending.claim = None;
                    return Err(Error::away("claim the record", fault));
                }
                // Surely not this time, but perhaps the time before.
                Answer::Away(fault) | Answer::Unsure(fault) => fault,
                Answer::Applied { .. } => super::no_answer(),
            };
            in_doubt = true;
            if shared.clock.now() >= give_up_at {
                return Err(Error::unsure("claim the record", fault));
            }
            shared.clock.sleep(pauses.next().unwrap_or_default()).await;
        }
    }

    fn hold(&self, grant: Grant, seat: Seat, sent_at: std::time::Instant) -> Begin {
        let must_verify = grant.must_verify();
        let fence = Fence { id: self.call.id, epoch: grant.epoch, nonce: self.claim.nonce };
        let record = store::granted(&self.claim, &grant);
        let declared = Arc::clone(&self.call.operation.declared);
        let work = Work::new(Arc::clone(self.shared()), declared, fence, grant);
        let lease = Lease::new(work, record, seat, sent_at);
        if must_verify { Begin::Verify(lease) } else { Begin::Run(lease) }
    }
}

enum Sent {
    Granted(Grant),
    Found(Found),
}

/// A claim whose answer has not come. Dropped like that, it is asked for again and released.
struct Pending<'a> {
    claim: Option<Arc<Claim>>,
    shared: &'a Arc<Shared>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            let shared = Arc::clone(self.shared);
            self.shared.tasks.spawn(async move { take_back(&shared, claim).await });
        }
    }
}

/// Nobody holds this claim and nobody began its work: if it was granted, it is released.
///
/// Tries for one lease; a claim that is left then lapses by itself, and its class decides.
async fn take_back(shared: &Shared, claim: Arc<Claim>) {
    let memory = claim.lease;
    let give_up_at = shared.clock.now() + claim.lease;
    for pause in super::backoff(claim.lease) {
        let step = Step::Claim(Arc::clone(&claim));
        match super::only(shared.store.apply(vec![step]).await) {
            Answer::Granted(grant) => {
                let fence = Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce };
                let release = match grant.attempt {
                    1 => Step::Release { fence, memory },
                    // Earlier attempts may have had effects: hand it on as it was found.
                    _ => Step::Renew { fence, lease: Duration::ZERO },
                };
                let answer = super::only(shared.store.apply(vec![release]).await);
                if !matches!(answer, Answer::Away(_) | Answer::Unsure(_)) {
                    return;
                }
            }
            Answer::Found(_) | Answer::Applied { .. } => return,
            Answer::Away(_) | Answer::Unsure(_) => {}
        }
        if shared.clock.now() >= give_up_at {
            return;
        }
        shared.clock.sleep(pause).await;
    }
}
