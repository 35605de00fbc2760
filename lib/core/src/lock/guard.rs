//! A held lock: renewed while it is held, told when it is lost, given back when dropped.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;

use super::{
    hold::{Hold, LockName, Locks},
    turnstile::Happening,
};
use crate::{
    error::Error,
    record::{Epoch, Nonce},
    rest::stopped_within,
    store::Fault,
    time::Clock,
    witness::Witness,
};

/// The right to work on one object, until it is released, lost or dropped.
///
/// It keeps others away as long as everybody is awake, and no longer: a write that must not be
/// done twice compares the [`fence`](Turn::fence) or stands on a unique constraint.
///
/// # Cancellation
/// Dropping it, also in a panic, ends the renewal and gives the lock back in the background.
#[must_use = "a lock that is dropped is given back"]
pub struct Guard {
    bond: Arc<Bond>,
    turn: Turn,
    released: bool,
}

/// What the holder's work needs to know. Cheap to clone; the work may keep it.
#[derive(Clone, Debug)]
pub struct Turn {
    fence: Epoch,
    lost: CancellationToken,
}

impl Turn {
    /// Rises with every new holder: compare it where the effect is written.
    pub fn fence(&self) -> Epoch {
        self.fence
    }

    /// Cancelled when the lock is lost. Work that has not begun its effect should stop then.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }
}

/// What ties an owner to a lock: the guard and its renewal share it.
pub(super) struct Bond {
    pub(super) name: LockName,
    pub(super) owner: Nonce,
    pub(super) lease: Duration,
    pub(super) locks: Arc<dyn Locks>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) witness: Arc<dyn Witness<Happening>>,
    pub(super) gained_at: Instant,
    lost: CancellationToken,
    /// Ends the renewal's sleep.
    ended: CancellationToken,
    /// No renewal begins once this says so.
    is_over: Mutex<bool>,
}

impl Bond {
    pub(super) fn new(
        (name, owner, lease): (LockName, Nonce, Duration),
        locks: Arc<dyn Locks>,
        clock: Arc<dyn Clock>,
        witness: Arc<dyn Witness<Happening>>,
    ) -> Self {
        Self {
            name,
            owner,
            lease,
            locks,
            gained_at: clock.now(),
            clock,
            witness,
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
            is_over: Mutex::new(false),
        }
    }

    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.cancel();
    }

    /// Begins a renewal unless the lock was given back: the two calls never change places.
    fn renew(&self) -> Option<BoxFuture<'static, Result<Hold, Fault>>> {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        (!*is_over).then(|| self.locks.renew(self.name, self.owner, self.lease))
    }

    /// The store's lease began after we asked for it, so by then it still stands; a tenth is kept
    /// for clocks that run at different speeds.
    fn trusted_until(&self, sent_at: Instant) -> Instant {
        sent_at + (self.lease - self.lease / 10)
    }
}

impl Guard {
    pub(super) fn new(bond: Arc<Bond>, fence: Epoch) -> Self {
        let turn = Turn { fence, lost: bond.lost.clone() };
        Self { bond, turn, released: false }
    }

    /// Which lock it is.
    pub fn name(&self) -> LockName {
        self.bond.name
    }

    /// What the work needs to know; it may keep it while the guard is elsewhere.
    pub fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// Runs `work` until it ends or the lock is lost. `None`: lost; the work was dropped where it
    /// stood and its effect is unknown.
    pub async fn protect<F: Future>(&self, work: F) -> Option<F::Output> {
        // Only the work may have effects, and it is dropped only when the lock is lost.
        match select(pin!(work), pin!(self.turn.lost.cancelled())).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    /// Gives the lock back. `false`: it was not ours any more.
    ///
    /// # Errors
    /// [`Kind::Unsure`](crate::Kind::Unsure) if the place did not answer: the lease then ends by
    /// itself.
    ///
    /// # Cancellation
    /// The lock is given back even if the future is dropped.
    pub async fn release(mut self) -> Result<bool, Error> {
        let answer = self.give_back().await;
        let was_ours = answer.map_err(|fault| Error::unsure("give the lock back", fault))?;
        let held = self.bond.clock.now().duration_since(self.bond.gained_at);
        self.bond.witness.see(&Happening::Released { held });
        Ok(was_ours)
    }

    fn give_back(&mut self) -> BoxFuture<'static, Result<bool, Fault>> {
        self.released = true;
        self.bond.end();
        self.bond.locks.release(self.bond.name, self.bond.owner)
    }
}

impl std::ops::Deref for Guard {
    type Target = Turn;

    fn deref(&self) -> &Turn {
        &self.turn
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard(fence {}, lost {})", self.turn.fence.get(), self.turn.lost.is_cancelled())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.bond.end();
        // Outside a runtime nothing can be sent; the lease then ends by itself.
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(self.give_back());
        }
    }
}

/// Renews until the guard is gone or the lock is lost. `sent_at`: when the lock was asked for.
pub(super) async fn keep(bond: Arc<Bond>, sent_at: Instant) {
    // Also tells the holder if this task dies with its runtime.
    let telling = bond.lost.clone().drop_guard();
    match watch(&bond, sent_at).await {
        Watched::GivenBack => {
            telling.disarm();
        }
        Watched::Lost => bond.witness.see(&Happening::Lost),
    }
}

enum Watched {
    GivenBack,
    Lost,
}

async fn watch(bond: &Bond, mut sent_at: Instant) -> Watched {
    let clock = bond.clock.as_ref();
    let mut renew_at = sent_at + bond.lease / 3;
    loop {
        let trusted_until = bond.trusted_until(sent_at);
        let wake_at = std::cmp::min(renew_at, trusted_until);
        let nap = wake_at.saturating_duration_since(clock.now());
        if stopped_within(&bond.ended, clock, nap).await {
            return Watched::GivenBack;
        }
        let asked_at = clock.now();
        if asked_at >= trusted_until {
            return Watched::Lost;
        }
        if asked_at < renew_at {
            continue;
        }
        let Some(renewal) = bond.renew() else { return Watched::GivenBack };
        let trust = clock.sleep(trusted_until.saturating_duration_since(asked_at));
        let ended = pin!(bond.ended.cancelled());
        // A renewal whose answer is dropped has begun all the same and compares the owner.
        match select(select(renewal, trust), ended).await {
            Either::Left((Either::Left((Ok(Hold::Mine { .. }), _)), _)) => {
                sent_at = asked_at;
                renew_at = asked_at + bond.lease / 3;
            }
            Either::Left((Either::Left((Err(_), _)), _)) => {
                renew_at = clock.now() + bond.lease / 12;
            }
            Either::Left((Either::Left((Ok(Hold::Taken { .. }), _)) | Either::Right(_), _)) => {
                return Watched::Lost;
            }
            Either::Right(_) => return Watched::GivenBack,
        }
    }
}
