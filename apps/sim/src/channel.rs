//! The running simulator: the world behind its lock, and what the shell around it needs.
//!
//! Invariant: the lock is held for one step only, never over an await; notices made in a step are
//! sent after it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::{Clock, until};
use crate::config::Merchants;
use crate::keys::Signer;
use crate::notify;
use crate::world::World;

/// How long the timekeeper sleeps when nothing is due.
const IDLE: Duration = Duration::from_secs(60 * 60);

/// Deliveries in flight; more than a storm on one machine keeps open at once.
const IN_FLIGHT_MAX: usize = 256;

/// A handle on the running simulator.
#[derive(Clone)]
pub(crate) struct Channel(Arc<Inner>);

struct Inner {
    world: Mutex<World>,
    /// Counts the steps, for those who wait for the world to change.
    steps: watch::Sender<u64>,
    /// Wakes the timekeeper when something earlier is due.
    earlier: Notify,
    parts: Parts,
}

/// What does not change while the simulator runs.
pub(crate) struct Parts {
    pub(crate) merchants: Merchants,
    pub(crate) signer: Signer,
    /// Signs forgeries.
    pub(crate) stranger: Signer,
    pub(crate) gaps: Vec<Duration>,
    pub(crate) notify_timeout: Duration,
    pub(crate) timestamp_tolerance: Option<Duration>,
    pub(crate) http: reqwest::Client,
    pub(crate) in_flight: Semaphore,
    pub(crate) clock: Clock,
    /// Owns every task of the simulator.
    pub(crate) tasks: TaskTracker,
    /// Asks everything to end.
    pub(crate) stop: CancellationToken,
    /// Cuts the requests that did not end in time.
    pub(crate) cut: CancellationToken,
}

impl Channel {
    pub(crate) fn new(world: World, parts: Parts) -> Self {
        let steps = watch::Sender::new(0);
        Self(Arc::new(Inner { world: Mutex::new(world), steps, earlier: Notify::new(), parts }))
    }

    pub(crate) fn in_flight() -> Semaphore {
        Semaphore::new(IN_FLIGHT_MAX)
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0.parts
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.parts().clock.now()
    }

    /// Takes one step in the world, and sends the notices that it made.
    pub(crate) fn step<T>(&self, work: impl FnOnce(&mut World, Timestamp) -> T) -> T {
        let (made, fresh, earlier) = {
            let mut world = self.lock();
            let due = world.next_due();
            // Read under the lock, so that the order of steps is the order of their times.
            let made = work(&mut world, self.now());
            (made, world.take_fresh(), world.next_due() != due)
        };
        for notice in fresh {
            let channel = self.clone();
            self.parts().tasks.spawn(notify::carry(channel, notice));
        }
        self.0.steps.send_modify(|steps| *steps += 1);
        if earlier {
            self.0.earlier.notify_one();
        }
        made
    }

    /// Looks at the world without changing it.
    pub(crate) fn look<T>(&self, work: impl FnOnce(&World) -> T) -> T {
        work(&self.lock())
    }

    /// Waits until the world is so, for at most `wait`; tells whether it came to be.
    pub(crate) async fn wait_until(&self, wait: Duration, ready: impl Fn(&World) -> bool) -> bool {
        let mut steps = self.0.steps.subscribe();
        let watching = async {
            while !self.look(&ready) {
                if steps.changed().await.is_err() {
                    return;
                }
            }
        };
        self.parts().clock.within(wait, watching).await.is_some()
    }

    /// Does what is due when it is due, until the simulator stops.
    pub(crate) async fn keep_time(self) {
        let parts = self.parts();
        let keeping = async {
            loop {
                let next = self.step(World::run_due);
                let wait = next.map_or(IDLE, |next| until(self.now(), next));
                // Whichever comes first: the time, or something earlier.
                parts.clock.within(wait, self.0.earlier.notified()).await;
            }
        };
        // Every step is complete in itself, so it does no harm to stop between two.
        parts.stop.run_until_cancelled(keeping).await;
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        // A step that panicked left a world that is odd but whole; auditors still want to see it.
        self.0.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}
