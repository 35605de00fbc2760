//! One at a time: acquiring with patience, and the look again that belongs to it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, select};
use tokio_util::task::TaskTracker;

use super::{
    guard::{Bond, Guard, Turn, keep},
    hold::{Hold, LockName, Locks},
};
use crate::{
    engine::Unobserved,
    error::Error,
    record::Nonce,
    rest::LEASE_MIN,
    store::Fault,
    time::{Clock, SystemClock},
    witness::Witness,
};

/// A lock lives this long without a renewal: as long as a claim does.
pub const LEASE: Duration = Duration::from_secs(15);

/// First pause between two looks at a lock that somebody else has.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two looks: the worst delay of a turn whose hint was lost.
const POLL_MAX: Duration = Duration::from_millis(250);
/// A caller is not told to stay away longer than this: most holders give the lock back early.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Lets one at a time through to each object. Cheap to clone; all clones are one.
#[derive(Clone)]
#[must_use]
pub struct Turnstile {
    locks: Arc<dyn Locks>,
    clock: Arc<dyn Clock>,
    witness: Arc<dyn Witness<Happening>>,
    lease: Duration,
    /// Renewals of the locks that are held.
    renewals: TaskTracker,
}

/// What happened to a lock, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// Ours.
    Gained {
        /// Since it was asked for.
        waited: Duration,
    },
    /// Somebody else had it when it was asked for. Counted once per caller.
    Contended,
    /// The caller's patience ended before its turn came.
    GaveUp,
    /// Given back.
    Released {
        /// Since it was gained.
        held: Duration,
    },
    /// A holder lost it while it worked.
    Lost,
    /// The place of locks did not answer.
    Failed,
}

/// Whether the lock was gained.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it is ours or it is not")]
pub enum Acquired {
    /// Ours. Look at the state again before the work: somebody may have just done it.
    Mine(Guard),
    /// Somebody else's, to the end of our patience. Look at the state again before answering.
    Taken {
        /// When another try is worth it.
        retry_after: Duration,
    },
}

/// What became of work that is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it was done now, before, or is being done")]
pub enum Once<T> {
    /// We did it now.
    Worked(T),
    /// It was done, before us or while we waited.
    Found(T),
    /// Somebody works on it. Not a failure: ask again.
    Processing {
        /// When another look is worth it.
        retry_after: Duration,
    },
}

impl Turnstile {
    /// A turnstile before `locks`, on the machine's clock, unobserved.
    pub fn new(locks: Arc<dyn Locks>) -> Self {
        Self {
            locks,
            clock: Arc::new(SystemClock),
            witness: Arc::new(Unobserved),
            lease: LEASE,
            renewals: TaskTracker::new(),
        }
    }

    /// How long a lock lives without a renewal, at least 30 ms; it is renewed at one third.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: std::cmp::max(lease, LEASE_MIN), ..self }
    }

    /// The clock of this process.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Who counts contention.
    pub fn witness(self, witness: impl Witness<Happening>) -> Self {
        Self { witness: Arc::new(witness), ..self }
    }

    /// Takes the lock, waiting for it at most `wait`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) and [`Kind::Full`](crate::Kind::Full) if
    /// the place of locks does not answer until then.
    ///
    /// # Cancellation
    /// Safe: a lock that was gained for a caller who is gone is given back.
    pub async fn acquire(&self, name: LockName, wait: Duration) -> Result<Acquired, Error> {
        let mut queue = Queue::enter(self, name, wait)?;
        loop {
            match queue.ask().await? {
                Asked::Mine(guard) => return Ok(Acquired::Mine(guard)),
                Asked::Taken { .. } if queue.wait().await => {}
                Asked::Taken { retry_after } => return Ok(Acquired::Taken { retry_after }),
            }
        }
    }

    /// Does `work` if it is not done, one caller at a time.
    ///
    /// `look` reads the state: `Some` if the work is done. It is asked again after the lock was
    /// gained, while waiting, and before "processing" is answered. A caller that loses the race
    /// waits at most `wait` and gets what the winner did. The work is dropped where it stands if
    /// the lock is lost under it; the state is then read again.
    ///
    /// ```
    /// # use std::{sync::{Arc, Mutex}, time::Duration};
    /// # use hapax_core::{Error, Tenant, lock::{LockName, MemoryLocks, Once, Turnstile}};
    /// # let mut runtime = tokio::runtime::Builder::new_current_thread();
    /// # runtime.enable_time().build().unwrap().block_on(async {
    /// let turnstile = Turnstile::new(Arc::new(MemoryLocks::new()));
    /// let name = LockName::of(&Tenant::parse("shop")?, "order", "1001");
    /// let paid = Mutex::new(None);
    ///
    /// let look = async || Ok::<_, Error>(*paid.lock().unwrap());
    /// let work = async |_turn| {
    ///     *paid.lock().unwrap() = Some(7);
    ///     Ok(7)
    /// };
    /// let first = turnstile.once(name, Duration::from_secs(1), look, work).await?;
    /// let again = turnstile.once(name, Duration::from_secs(1), look, work).await?;
    /// assert_eq!((first, again), (Once::Worked(7), Once::Found(7)));
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `look` and `work`, and of [`acquire`](Self::acquire).
    ///
    /// # Cancellation
    /// Dropping it drops the work with it. Work that must go on is run on a task of its owner.
    pub async fn once<T, E, L, Looked, W, Worked>(
        &self,
        name: LockName,
        wait: Duration,
        look: L,
        work: W,
    ) -> Result<Once<T>, E>
    where
        E: From<Error>,
        L: Fn() -> Looked,
        Looked: Future<Output = Result<Option<T>, E>>,
        W: FnOnce(Turn) -> Worked,
        Worked: Future<Output = Result<T, E>>,
    {
        let mut queue = Queue::enter(self, name, wait)?;
        let guard = loop {
            let retry_after = match queue.ask().await? {
                Asked::Mine(guard) => break guard,
                Asked::Taken { retry_after } => retry_after,
            };
            let is_patient = queue.wait().await;
            if let Some(done) = look().await? {
                return Ok(Once::Found(done));
            }
            if !is_patient {
                return Ok(Once::Processing { retry_after });
            }
        };
        if let Some(done) = look().await? {
            give_back(guard).await;
            return Ok(Once::Found(done));
        }
        match guard.protect(work(guard.turn())).await {
            Some(worked) => {
                give_back(guard).await;
                worked.map(Once::Worked)
            }
            // Lost: whoever has the lock now does the rest.
            None => match look().await? {
                Some(done) => Ok(Once::Found(done)),
                None => Ok(Once::Processing { retry_after: POLL_MAX }),
            },
        }
    }

    /// Waits until no lock is held any more. Call it at shutdown.
    pub async fn drain(&self) {
        self.renewals.close();
        self.renewals.wait().await;
        self.renewals.reopen();
    }
}

impl fmt::Debug for Turnstile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.renewals.len();
        f.debug_struct("Turnstile").field("held", &held).finish_non_exhaustive()
    }
}

/// The work is done and its result stands, whatever becomes of the lock: it ends by itself.
async fn give_back(guard: Guard) {
    if let Err(error) = guard.release().await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "a lock was not given back and ends by itself"
        );
    }
}

/// A caller that waits for its turn.
struct Queue<'a> {
    stile: &'a Turnstile,
    name: LockName,
    owner: Nonce,
    entered_at: Instant,
    give_up_at: Instant,
    pause: Duration,
    /// Rings from before the lock was asked for, so that no release falls in between.
    freed: Option<BoxFuture<'static, ()>>,
    /// Asked for and not answered: perhaps ours.
    is_unanswered: bool,
    is_contended: bool,
}

enum Asked {
    Mine(Guard),
    Taken { retry_after: Duration },
}

impl<'a> Queue<'a> {
    fn enter(stile: &'a Turnstile, name: LockName, wait: Duration) -> Result<Self, Error> {
        let entered_at = stile.clock.now();
        Ok(Self {
            stile,
            name,
            owner: Nonce::random()?,
            entered_at,
            give_up_at: entered_at + wait,
            pause: POLL_MIN,
            freed: None,
            is_unanswered: false,
            is_contended: false,
        })
    }

    /// Asks for the lock; a place that does not answer is asked again while patience lasts.
    async fn ask(&mut self) -> Result<Asked, Error> {
        loop {
            self.freed = Some(self.stile.locks.freed(self.name));
            self.is_unanswered = true;
            let sent_at = self.stile.clock.now();
            let fault = match self.send().await {
                Ok(Hold::Mine { fence }) => {
                    self.is_unanswered = false;
                    let waited = self.stile.clock.now().duration_since(self.entered_at);
                    self.stile.witness.see(&Happening::Gained { waited });
                    return Ok(Asked::Mine(self.hold(fence, sent_at)));
                }
                Ok(Hold::Taken { until, now }) => {
                    self.is_unanswered = false;
                    if !std::mem::replace(&mut self.is_contended, true) {
                        self.stile.witness.see(&Happening::Contended);
                    }
                    let lasts = std::cmp::max(until.since(now), POLL_MIN);
                    return Ok(Asked::Taken { retry_after: std::cmp::min(lasts, RETRY_MAX) });
                }
                Err(fault) => fault,
            };
            self.stile.witness.see(&Happening::Failed);
            if !self.wait().await {
                return Err(Error::away("acquire the lock", fault));
            }
        }
    }

    fn send(&self) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.stile.locks.acquire(self.name, self.owner, self.stile.lease)
    }

    fn hold(&self, fence: crate::Epoch, sent_at: Instant) -> Guard {
        let stile = self.stile;
        let bond = Arc::new(Bond::new(
            (self.name, self.owner, stile.lease),
            Arc::clone(&stile.locks),
            Arc::clone(&stile.clock),
            Arc::clone(&stile.witness),
        ));
        stile.renewals.spawn(keep(Arc::clone(&bond), sent_at));
        Guard::new(bond, fence)
    }

    /// Waits for a hint or a while. `false`: the patience had ended before.
    async fn wait(&mut self) -> bool {
        let left = self.give_up_at.saturating_duration_since(self.stile.clock.now());
        if left.is_zero() {
            self.stile.witness.see(&Happening::GaveUp);
            return false;
        }
        let over = self.stile.clock.sleep(std::cmp::min(self.pause, left));
        match self.freed.take() {
            // A hint and a timer: both may be dropped.
            Some(freed) => drop(select(freed, over).await),
            None => over.await,
        }
        self.pause = std::cmp::min(self.pause * 2, POLL_MAX);
        true
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // The caller is gone, or never had an answer: the lock may be ours without a guard.
        if self.is_unanswered && tokio::runtime::Handle::try_current().is_ok() {
            drop(self.stile.locks.release(self.name, self.owner));
        }
    }
}
