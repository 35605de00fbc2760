//! Joins steps that meet at a busy store into one batch.
//!
//! A free lane goes at once, so a quiet store waits for nothing. While all lanes are busy, steps
//! queue, and the next free lane takes the whole queue. On SQLite, with its one lane, this is
//! group commit.
//!
//! Invariant: every step that was queued is answered, also when its caller is gone or a lane dies
//! (`a_lane_that_dies_leaves_its_callers_unsure`).

use std::{
    collections::{BTreeMap, VecDeque, btree_map},
    num::NonZeroUsize,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use super::{Answer, Capabilities, Entry, Fault, FaultKind, Found, Page, Scan, Step, Store};
use crate::id::Id;

/// Steps that may wait for a lane. Beyond this the store is overloaded and says so at once.
const QUEUE_MAX: usize = 65_536;
/// Largest batch: rows of one statement beyond this gain nothing and delay everybody in it.
const BATCH_MAX: usize = 256;

type Waiting = (Step, oneshot::Sender<Answer>);

/// A store that is given its steps in batches.
#[derive(Clone)]
pub struct Coalesce(Arc<Lanes>);

struct Lanes {
    inner: Arc<dyn Store>,
    free: Arc<Semaphore>,
    batch_max: usize,
    queue: Mutex<Queue>,
    tasks: TaskTracker,
}

/// Steps of holders go first: a renewal that waits behind claims on its own record is lost.
#[derive(Default)]
struct Queue {
    holders: VecDeque<Waiting>,
    claims: VecDeque<Waiting>,
}

impl Coalesce {
    /// Puts the lanes that `inner` asks for before it; without lanes `inner` is used as it is.
    pub fn before(inner: Arc<dyn Store>) -> Arc<dyn Store> {
        let capabilities = inner.capabilities();
        let Some(lanes) = capabilities.lanes else { return inner };
        Arc::new(Self(Arc::new(Lanes {
            inner,
            free: Arc::new(Semaphore::new(lanes.get())),
            batch_max: std::cmp::min(capabilities.batch_max.get(), BATCH_MAX),
            queue: Mutex::default(),
            tasks: TaskTracker::new(),
        })))
    }
}

impl std::fmt::Debug for Coalesce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coalesce").field("free_lanes", &self.0.free.available_permits()).finish()
    }
}

impl Lanes {
    /// Every change under this lock is complete when it is let go.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, steps: Vec<Step>) -> Vec<oneshot::Receiver<Answer>> {
        let mut queue = self.queue();
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            let (sender, receiver) = oneshot::channel();
            answers.push(receiver);
            if queue.holders.len() + queue.claims.len() >= QUEUE_MAX {
                let fault = Fault::new(FaultKind::Full, "too many steps wait for the store");
                // The receiver is in our hands, so somebody listens.
                drop(sender.send(Answer::Away(fault)));
            } else if matches!(step, Step::Claim(_)) {
                queue.claims.push_back((step, sender));
            } else {
                queue.holders.push_back((step, sender));
            }
        }
        answers
    }

    /// Starts a lane if one is free. If none is, the lane that comes free takes what we queued.
    fn dispatch(self: &Arc<Self>) {
        if let Ok(lane) = Arc::clone(&self.free).try_acquire_owned() {
            let lanes = Arc::clone(self);
            self.tasks.spawn(async move { lanes.drive(lane).await });
        }
    }

    /// Works until the queue is empty. Owned by the tracker: no caller can drop it half-way.
    async fn drive(self: Arc<Self>, mut lane: OwnedSemaphorePermit) {
        loop {
            let batch = self.queue().batch(self.batch_max);
            if batch.is_empty() {
                // A step may have been queued after the look and before the lane is free again,
                // and found no free lane: look once more with the lane given back.
                drop(lane);
                if self.queue().is_empty() {
                    return;
                }
                let Ok(again) = Arc::clone(&self.free).try_acquire_owned() else { return };
                lane = again;
                continue;
            }
            let (steps, callers): (Vec<_>, Vec<_>) = batch.into_values().unzip();
            let inner = Arc::clone(&self.inner);
            // Nothing of ours is inside: a store that panicked has merely said nothing.
            let answers = AssertUnwindSafe(async move { inner.apply(steps).await }).catch_unwind();
            let Ok(answers) = answers.await else {
                tracing::error!("the store panicked; the callers of its batch are unsure");
                continue;
            };
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that is gone needs no answer.
                drop(caller.send(answer));
            }
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.claims.is_empty()
    }

    /// At most `max` steps on distinct ids, holders first; a second step on an id waits.
    fn batch(&mut self, max: usize) -> BTreeMap<Id, Waiting> {
        let mut batch = BTreeMap::new();
        for queue in [&mut self.holders, &mut self.claims] {
            let mut later = VecDeque::new();
            while batch.len() < max {
                let Some((step, caller)) = queue.pop_front() else { break };
                match batch.entry(step.id()) {
                    btree_map::Entry::Occupied(_) => later.push_back((step, caller)),
                    btree_map::Entry::Vacant(place) => {
                        place.insert((step, caller));
                    }
                }
            }
            later.append(queue);
            *queue = later;
        }
        batch
    }
}

impl Store for Coalesce {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let waiting = self.0.enqueue(steps);
        self.0.dispatch();
        Box::pin(async move {
            let mut answers = Vec::with_capacity(waiting.len());
            for answer in waiting {
                answers.push(answer.await.unwrap_or_else(|_| {
                    let fault = Fault::new(FaultKind::Unavailable, "the store's lane died");
                    Answer::Unsure(fault)
                }));
            }
            answers
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.0.inner.look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.0.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.0.inner.scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.0.inner.history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.0.inner.purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        let batch_max = NonZeroUsize::new(QUEUE_MAX).unwrap_or(NonZeroUsize::MIN);
        Capabilities { lanes: None, batch_max, ..self.0.inner.capabilities() }
    }
}
