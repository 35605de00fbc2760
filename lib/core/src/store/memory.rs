//! The reference: a map, [`apply`](super::apply()), and nothing else.
//!
//! It is what every other store is compared with, and a store of its own right for tests and for
//! operations that need not outlive the process.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use futures_util::future::{BoxFuture, ready};
use tokio::sync::Notify;

use super::{
    Answer, Capabilities, Durability, Entry, Fault, FaultKind, Found, Page, Reading, Scan, Sharing,
    Step, Store, apply,
};
use crate::{
    id::Id,
    record::Record,
    time::{Clock, SystemClock, Timestamp},
};

/// Shards of the map: enough that two cores seldom meet, few enough to scan.
const SHARDS: usize = 64;
/// Journal lines kept per shard; the oldest go first. Memory is no archive.
const JOURNAL_LINES_MAX: usize = 256;
/// Records kept by default. A full store refuses new claims and never evicts.
pub const RECORDS_MAX: usize = 1_000_000;
/// Steps in one call; as much as one scan of the shards is worth.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// A store in the memory of this process.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shards>);

struct Shards {
    shards: Vec<Shard>,
    clock: Arc<dyn Clock>,
    /// The latest time that was given out: the store's clock never goes back.
    latest: AtomicI64,
    records: AtomicUsize,
    records_max: usize,
}

struct Shard {
    cells: Mutex<Cells>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Cells {
    records: HashMap<Id, Arc<Record>>,
    reusable: BTreeSet<(Timestamp, Id)>,
    journal: VecDeque<(Id, Entry)>,
}

impl MemoryStore {
    /// An empty store on the machine's clock, for at most [`RECORDS_MAX`] records.
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock), RECORDS_MAX)
    }

    /// An empty store on `clock`, for at most `records_max` records.
    pub fn with(clock: Arc<dyn Clock>, records_max: usize) -> Self {
        let shard = || Shard { cells: Mutex::default(), changed: Arc::default() };
        Self(Arc::new(Shards {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            clock,
            latest: AtomicI64::new(0),
            records: AtomicUsize::new(0),
            records_max,
        }))
    }

    /// How many records there are, reusable ones included.
    pub fn len(&self) -> usize {
        self.0.records.load(Ordering::Relaxed)
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("records", &self.len()).finish_non_exhaustive()
    }
}

impl Shards {
    fn now(&self) -> Timestamp {
        let wall = self.clock.wall().as_millis();
        let latest = self.latest.fetch_max(wall, Ordering::Relaxed);
        Timestamp::from_millis(std::cmp::max(wall, latest))
    }

    fn shard(&self, id: Id) -> &Shard {
        let [first, ..] = id.as_bytes();
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
        &self.shards[usize::from(*first) % self.shards.len()]
    }

    fn take(&self, step: &Step) -> Answer {
        let id = step.id();
        let shard = self.shard(id);
        let mut cells = shard.lock();
        let now = self.now();
        let before = cells.records.remove(&id);
        if before.is_none() && matches!(step, Step::Claim(_)) && self.is_full() {
            return Answer::Away(Fault::new(FaultKind::Full, "the memory store holds its maximum"));
        }
        let old_reuse = before.as_ref().and_then(|record| record.reuse_at);
        let existed = before.is_some();
        let (record, entry, answer) = apply(before, step, now);
        if let Some(record) = record {
            cells.index(id, old_reuse, record.reuse_at);
            cells.records.insert(id, record);
            if !existed {
                self.records.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(entry) = entry {
            cells.write(id, entry);
            drop(cells);
            shard.changed.notify_waiters();
        }
        answer
    }

    fn is_full(&self) -> bool {
        self.records.load(Ordering::Relaxed) >= self.records_max
    }

    fn look(&self, id: Id) -> Found {
        let record = self.shard(id).lock().records.get(&id).cloned();
        Found { record, now: self.now() }
    }

    fn scan(&self, scan: &Scan) -> Page {
        let now = self.now();
        let wanted = |record: &Record| {
            scan.status.is_none_or(|status| record.status(now) == status)
                && scan.operation.as_ref().is_none_or(|name| record.identity.operation() == name)
        };
        let mut records = std::collections::BTreeMap::new();
        for shard in &self.shards {
            for (id, record) in &shard.lock().records {
                if scan.after.is_none_or(|after| *id > after) && wanted(record) {
                    records.insert(*id, Record::clone(record));
                }
            }
        }
        let limit = usize::from(scan.limit);
        let more = records.len() > limit;
        let (ids, records): (Vec<_>, Vec<_>) = records.into_iter().take(limit).unzip();
        Page { records, now, next: ids.last().copied().filter(|_| more) }
    }

    fn purge(&self, rows: u16) -> u16 {
        let now = self.now();
        let mut purged = 0;
        for shard in &self.shards {
            let mut cells = shard.lock();
            while purged < rows {
                let Some((reuse_at, id)) = cells.reusable.first().copied() else { break };
                if reuse_at > now {
                    break;
                }
                cells.reusable.pop_first();
                cells.records.remove(&id);
                self.records.fetch_sub(1, Ordering::Relaxed);
                purged += 1;
            }
        }
        purged
    }
}

impl Shard {
    /// Every change under this lock is complete when it is let go, so a panic elsewhere in the
    /// holder's thread leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Cells> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cells {
    fn index(&mut self, id: Id, old: Option<Timestamp>, new: Option<Timestamp>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.reusable.remove(&(old, id));
        }
        if let Some(new) = new {
            self.reusable.insert((new, id));
        }
    }

    fn write(&mut self, id: Id, entry: Entry) {
        if self.journal.len() >= JOURNAL_LINES_MAX {
            self.journal.pop_front();
        }
        self.journal.push_back((id, entry));
    }
}

impl Store for MemoryStore {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let answers = steps.iter().map(|step| self.0.take(step)).collect();
        Box::pin(ready(answers))
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        let found = ids.into_iter().map(|id| Ok(self.0.look(id))).collect();
        Box::pin(ready(found))
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        Box::pin(Arc::clone(&self.0.shard(id).changed).notified_owned())
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        Box::pin(ready(Ok(self.0.scan(&scan))))
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        let cells = self.0.shard(id).lock();
        let lines = cells.journal.iter().filter(|(line, _)| *line == id);
        Box::pin(ready(Ok(lines.map(|(_, entry)| entry.clone()).collect())))
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        Box::pin(ready(Ok(self.0.purge(rows))))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: None,
            batch_max: BATCH_MAX,
            durability: Durability::Process,
            sharing: Sharing::Private,
            reading: Reading::Never,
        }
    }
}
