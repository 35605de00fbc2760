//! Renews leases at one third of their length and tells a holder that has lost its lease.
//!
//! One task for all leases of the process: a fresh call that is over before its first renewal
//! costs an insertion and a removal and no timer.
//!
//! Invariant: nothing is renewed after its lease was given up, and the loss of a lease cancels
//! the holder's token and frees those who wait for it (`nothing_is_renewed_after_the_end`,
//! `a_holder_that_was_taken_over_is_told`, `a_holder_that_cannot_renew_is_told_in_time`,
//! `a_lost_lease_frees_those_who_wait_for_it`).

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    flight::Exit,
    observe::{Happening, Observer},
};
use crate::{
    id::OperationName,
    record::Fence,
    store::{Answer, Step, Store},
    time::Clock,
};

/// Renewals in one call of the store.
const BATCH_MAX: usize = 256;
/// Without leases the task sleeps until it is called; this only bounds a timer.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// Names a lease under watch.
pub(super) type Ticket = u64;

/// One lease under watch.
pub(super) struct Watched {
    pub(super) operation: OperationName,
    pub(super) fence: Fence,
    pub(super) lease: Duration,
    /// When the claim or the last good renewal was sent, by the local clock.
    pub(super) sent_at: Instant,
    /// Cancelled when the lease is lost.
    pub(super) lost: CancellationToken,
    /// Left when the lease is lost: those who wait in this process must ask the store.
    pub(super) exit: Option<Exit>,
}

impl Watched {
    /// The store's lease began after we asked for it, so by then it still stands; a tenth is kept
    /// for clocks that run at different speeds.
    fn trusted_until(&self) -> Instant {
        self.sent_at + (self.lease - self.lease / 10)
    }
}

pub(super) struct Watchdog {
    watch: Mutex<Watch>,
    called: Arc<Notify>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Watch {
    serial: Ticket,
    leases: HashMap<Ticket, Watched>,
    /// What to look at when; entries of leases that were given up are passed over.
    due: BTreeSet<(Instant, Ticket)>,
    /// When the task wakes by itself; `None` until it was started.
    wakes_at: Option<Instant>,
}

impl Watchdog {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            watch: Mutex::default(),
            called: Arc::default(),
            store,
            clock,
            observer,
            tasks: TaskTracker::new(),
        }
    }

    /// Watches a lease until it is forgotten or lost.
    pub(super) fn watch(self: &Arc<Self>, lease: Watched) -> Ticket {
        let first_look = lease.sent_at + lease.lease / 3;
        let mut watch = self.lock();
        watch.serial += 1;
        let ticket = watch.serial;
        watch.leases.insert(ticket, lease);
        watch.due.insert((first_look, ticket));
        match watch.wakes_at {
            None => {
                watch.wakes_at = Some(first_look);
                drop(watch);
                self.tasks.spawn(run(Arc::downgrade(self)));
            }
            Some(wakes_at) if first_look < wakes_at => {
                drop(watch);
                self.called.notify_one();
            }
            Some(_) => {}
        }
        ticket
    }

    /// Gives a lease up; a renewal that is on its way is the last one.
    pub(super) fn forget(&self, ticket: Ticket) {
        let mut watch = self.lock();
        watch.leases.remove(&ticket);
        // The set of passed-over entries stays as small as the number of live leases.
        if watch.due.len() > 64 && watch.due.len() > 2 * watch.leases.len() {
            let Watch { leases, due, .. } = &mut *watch;
            due.retain(|(_, ticket)| leases.contains_key(ticket));
        }
    }

    /// Every change under this lock is complete when it is let go.
    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what is due and says how long to sleep.
    fn look(self: &Arc<Self>) -> Duration {
        let now = self.clock.now();
        let mut renewals = Vec::new();
        let mut lost = Vec::new();
        let mut watch = self.lock();
        while renewals.len() < BATCH_MAX {
            let Some(&(at, ticket)) = watch.due.first() else { break };
            if at > now {
                break;
            }
            watch.due.pop_first();
            let Some(lease) = watch.leases.get(&ticket) else { continue };
            let trusted_until = lease.trusted_until();
            if trusted_until <= now {
                lost.extend(watch.leases.remove(&ticket));
                continue;
            }
            renewals.push((ticket, lease.fence, lease.lease));
            // If no answer has come by then, the lease is lost.
            watch.due.insert((trusted_until, ticket));
        }
        let next = watch.due.first().map_or(now + FAR, |(at, _)| *at);
        watch.wakes_at = Some(next);
        drop(watch);
        for lease in lost {
            self.tell(&lease);
        }
        if !renewals.is_empty() {
            self.tasks.spawn(Arc::clone(self).renew(renewals, now));
        }
        next.saturating_duration_since(now)
    }

    async fn renew(
        self: Arc<Self>,
        mut renewals: Vec<(Ticket, Fence, Duration)>,
        sent_at: Instant,
    ) {
        renewals.sort_by_key(|(_, fence, _)| fence.id);
        let steps = renewals.iter().map(|&(_, fence, lease)| Step::Renew { fence, lease });
        let answers = self.store.apply(steps.collect()).await;
        let now = self.clock.now();
        for ((ticket, _, length), answer) in renewals.into_iter().zip(answers) {
            let mut watch = self.lock();
            let Watch { leases, due, .. } = &mut *watch;
            let Some(lease) = leases.get_mut(&ticket) else { continue };
            match answer {
                Answer::Applied { .. } | Answer::Granted(_) => {
                    due.remove(&(lease.trusted_until(), ticket));
                    lease.sent_at = sent_at;
                    due.insert((sent_at + length / 3, ticket));
                }
                Answer::Found(_) => {
                    let lease = leases.remove(&ticket);
                    drop(watch);
                    lease.iter().for_each(|lease| self.tell(lease));
                }
                // Ask again soon; the look at `trusted_until` stays.
                Answer::Away(_) | Answer::Unsure(_) => {
                    due.insert((now + length / 12, ticket));
                }
            }
        }
        self.called.notify_one();
    }

    fn tell(&self, lease: &Watched) {
        lease.lost.cancel();
        lease.exit.iter().for_each(Exit::leave);
        self.observer.observe(&lease.operation, lease.fence.id, &Happening::LeaseLost);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.called.notify_one();
    }
}

/// Lives as long as the watchdog does.
async fn run(dog: Weak<Watchdog>) {
    loop {
        let Some(watchdog) = dog.upgrade() else { return };
        let sleep = watchdog.look();
        let (clock, called) = (Arc::clone(&watchdog.clock), Arc::clone(&watchdog.called));
        drop(watchdog);
        // Both sides may be dropped: a missed call leaves its permit for the next round.
        match select(clock.sleep(sleep), std::pin::pin!(called.notified())).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }
}
