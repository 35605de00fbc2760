//! Locks in the memory of this process: the reference, and enough for one instance.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;

use super::hold::{Hold, LockName, Locks};
use crate::{
    record::{Epoch, Nonce},
    store::{Fault, FaultKind},
    time::{Clock, SystemClock, Timestamp},
};

/// Locks that are held at once; as many as there are records in a memory store.
pub const LOCKS_MAX: usize = 1_000_000;

/// Channels for hints: few enough to keep, enough that unrelated waiters seldom wake.
const BELLS: usize = 64;

/// A place of locks in the memory of this process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct MemoryLocks(Arc<Shared>);

struct Shared {
    held: Mutex<Held>,
    bells: Vec<watch::Sender<()>>,
    clock: Arc<dyn Clock>,
}

struct Held {
    cells: HashMap<LockName, Cell>,
    /// When which lease ends, so that what is over is forgotten.
    ends: BTreeSet<(Timestamp, LockName)>,
    /// The last fence of any lock: one counter rises for all of them and needs no tombstones.
    fence: Option<Epoch>,
    /// The store's clock never goes back.
    latest: Timestamp,
}

#[derive(Clone, Copy)]
struct Cell {
    owner: Nonce,
    fence: Epoch,
    until: Timestamp,
}

impl MemoryLocks {
    /// A place on the machine's clock.
    pub fn new() -> Self {
        Self::on(Arc::new(SystemClock))
    }

    /// A place on `clock`.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        let held = Held {
            cells: HashMap::new(),
            ends: BTreeSet::new(),
            fence: None,
            latest: Timestamp::default(),
        };
        let bells = std::iter::repeat_with(|| watch::Sender::new(())).take(BELLS).collect();
        Self(Arc::new(Shared { held: Mutex::new(held), bells, clock }))
    }
}

impl Default for MemoryLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = self.0.held().cells.len();
        f.debug_struct("MemoryLocks").field("held", &held).finish_non_exhaustive()
    }
}

impl Shared {
    /// Every change under this lock is complete when it is let go.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state at the store's now, without what is over.
    fn now(&self) -> (MutexGuard<'_, Held>, Timestamp) {
        let mut held = self.held();
        held.latest = std::cmp::max(held.latest, self.clock.wall());
        let now = held.latest;
        while let Some(&(until, name)) = held.ends.first()
            && until <= now
        {
            held.ends.pop_first();
            held.cells.remove(&name);
        }
        (held, now)
    }

    fn bell(&self, name: LockName) -> Option<&watch::Sender<()>> {
        let [first, ..] = name.as_bytes();
        self.bells.get(usize::from(*first) % BELLS)
    }
}

impl Held {
    fn put(&mut self, name: LockName, cell: Cell) {
        if let Some(before) = self.cells.insert(name, cell) {
            self.ends.remove(&(before.until, name));
        }
        self.ends.insert((cell.until, name));
    }
}

impl Locks for MemoryLocks {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let (mut held, now) = self.0.now();
        let answer = match held.cells.get(&name).copied() {
            Some(cell) if cell.owner != owner => Ok(Hold::Taken { until: cell.until, now }),
            None if held.cells.len() >= LOCKS_MAX => {
                Err(Fault::new(FaultKind::Full, "the memory holds its maximum of locks"))
            }
            mine => {
                let fence = mine.map_or_else(|| Epoch::after(held.fence, now), |cell| cell.fence);
                held.fence = std::cmp::max(held.fence, Some(fence));
                held.put(name, Cell { owner, fence, until: now.plus(lease) });
                Ok(Hold::Mine { fence })
            }
        };
        Box::pin(ready(answer))
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let (mut held, now) = self.0.now();
        let answer = match held.cells.get(&name).copied() {
            Some(cell) if cell.owner == owner => {
                held.put(name, Cell { until: now.plus(lease), ..cell });
                Hold::Mine { fence: cell.fence }
            }
            Some(cell) => Hold::Taken { until: cell.until, now },
            None => Hold::Taken { until: now, now },
        };
        Box::pin(ready(Ok(answer)))
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let (mut held, _) = self.0.now();
        let owned = held.cells.get(&name).filter(|cell| cell.owner == owner).copied();
        if let Some(cell) = owned {
            held.cells.remove(&name);
            held.ends.remove(&(cell.until, name));
            drop(held);
            if let Some(bell) = self.0.bell(name) {
                bell.send_replace(());
            }
        }
        Box::pin(ready(Ok(owned.is_some())))
    }

    fn freed(&self, name: LockName) -> BoxFuture<'static, ()> {
        let bell = self.0.bell(name).map(watch::Sender::subscribe);
        Box::pin(async move {
            let rung = match bell {
                Some(mut bell) => bell.changed().await.is_ok(),
                None => false,
            };
            // Without a bell nothing is ever freed: this place is gone.
            if !rung {
                std::future::pending::<()>().await;
            }
        })
    }
}
