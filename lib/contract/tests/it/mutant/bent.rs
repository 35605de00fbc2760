//! A small store of its own whose rule can be bent in one place.

use std::{
    collections::BTreeMap,
    future::ready,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hapax_contract::{BoxFuture, Subject};
use hapax_core::{
    Clock, Id, Record, TestClock, Timestamp,
    store::{
        self, Answer, Capabilities, Durability, Entry, Fault, Found, Page, Reading, Scan, Sharing,
        Step, Store,
    },
};

/// What a step leaves, what is told about it, and the answer.
pub(super) type Taken = (Option<Arc<Record>>, Option<Entry>, Answer);

/// The one place in which a store is wrong.
#[derive(Clone, Copy)]
pub(super) enum Bend {
    /// Nothing is wrong.
    None,
    /// A step does something else.
    Take(fn(Option<Arc<Record>>, &Step, Timestamp) -> Taken),
    /// A purge takes something else.
    Purge(fn(&Record, Timestamp) -> bool),
    /// A purge takes more than it is told.
    PurgeAll,
    /// A page shows something else.
    Scan(fn(Page) -> Page),
    /// A scan decides otherwise whether a record has a status.
    Status(fn(&Record, Timestamp, hapax_core::Status) -> bool),
    /// The answers of a call are something else.
    Answers(fn(Vec<Answer>) -> Vec<Answer>),
    /// A record is read, and written when others had a chance to read it too.
    Torn,
    /// Nothing is done before the answer is awaited.
    Lazy,
    /// The clock goes back now and then.
    ClockBack,
}

/// A bent store and its clock.
pub(super) struct Bent {
    clock: Arc<TestClock>,
    bend: Bend,
}

impl Bent {
    pub(super) fn new(bend: Bend) -> Self {
        Self { clock: Arc::new(TestClock::at(Timestamp::from_millis(1_790_000_000_000))), bend }
    }
}

impl Subject for Bent {
    fn name(&self) -> &'static str {
        "bent"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        let cells = Arc::new(Cells {
            clock: Arc::clone(&self.clock),
            bend: self.bend,
            kept: Mutex::default(),
            ticks: AtomicBool::default(),
        });
        Box::pin(ready(Arc::new(Shop(cells)) as Arc<dyn Store>))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.clock.advance(span);
        Box::pin(ready(()))
    }

    fn beat(&self) -> Duration {
        Duration::from_secs(60)
    }
}

struct Shop(Arc<Cells>);

struct Cells {
    clock: Arc<TestClock>,
    bend: Bend,
    kept: Mutex<Kept>,
    ticks: AtomicBool,
}

#[derive(Default)]
struct Kept {
    records: BTreeMap<Id, Arc<Record>>,
    journal: Vec<(Id, Entry)>,
}

impl Cells {
    fn now(&self) -> Timestamp {
        let wall = self.clock.wall();
        let back =
            matches!(self.bend, Bend::ClockBack) && self.ticks.fetch_xor(true, Ordering::SeqCst);
        if back { Timestamp::from_millis(wall.as_millis() - 1) } else { wall }
    }

    fn read(&self, id: Id) -> Option<Arc<Record>> {
        self.kept.lock().unwrap().records.get(&id).cloned()
    }

    /// Takes a step on what was read, whatever became of it since.
    fn take(&self, kept: &mut Kept, before: Option<Arc<Record>>, step: &Step) -> Answer {
        let now = self.now();
        let (record, entry, answer) = match self.bend {
            Bend::Take(bent) => bent(before, step, now),
            _ => store::apply(before, step, now),
        };
        match record {
            Some(record) => drop(kept.records.insert(step.id(), record)),
            None => drop(kept.records.remove(&step.id())),
        }
        kept.journal.extend(entry.map(|entry| (step.id(), entry)));
        answer
    }

    fn all(&self, steps: &[Step]) -> Vec<Answer> {
        let mut kept = self.kept.lock().unwrap();
        let take = |step: &Step| {
            let before = kept.records.get(&step.id()).cloned();
            self.take(&mut kept, before, step)
        };
        let answers = steps.iter().map(take).collect();
        drop(kept);
        match self.bend {
            Bend::Answers(bent) => bent(answers),
            _ => answers,
        }
    }

    fn page(&self, scan: &Scan) -> Page {
        let now = self.now();
        let shows = |record: &Record, status| match self.bend {
            Bend::Status(bent) => bent(record, now, status),
            _ => record.status(now) == status,
        };
        let kept = self.kept.lock().unwrap();
        let mut records: Vec<_> = kept
            .records
            .iter()
            .filter(|(id, _)| scan.after.is_none_or(|after| **id > after))
            .map(|(_, record)| Record::clone(record))
            .filter(|record| scan.status.is_none_or(|status| shows(record, status)))
            .filter(|record| {
                scan.operation.as_ref().is_none_or(|name| record.identity.operation() == name)
            })
            .collect();
        let limit = usize::from(scan.limit);
        let more = records.len() > limit;
        records.truncate(limit);
        let last = records.last().map(|record| record.identity.id());
        let page = Page { next: last.filter(|_| more), records, now };
        match self.bend {
            Bend::Scan(bent) => bent(page),
            _ => page,
        }
    }

    fn purge(&self, rows: u16) -> u16 {
        let now = self.now();
        let mut kept = self.kept.lock().unwrap();
        let gone = |record: &Record| match self.bend {
            Bend::Purge(bent) => bent(record, now),
            _ => record.is_reusable(now),
        };
        let rows = if matches!(self.bend, Bend::PurgeAll) { usize::MAX } else { rows.into() };
        let reusable: Vec<Id> =
            kept.records.iter().filter(|(_, record)| gone(record)).map(|(id, _)| *id).collect();
        let purged: Vec<_> = reusable.into_iter().take(rows).collect();
        purged.iter().for_each(|id| drop(kept.records.remove(id)));
        u16::try_from(purged.len()).unwrap()
    }
}

impl Store for Shop {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let cells = Arc::clone(&self.0);
        match cells.bend {
            Bend::Lazy => Box::pin(async move { cells.all(&steps) }),
            Bend::Torn => Box::pin(async move {
                let read: Vec<_> = steps.iter().map(|step| cells.read(step.id())).collect();
                tokio::task::yield_now().await;
                read.into_iter()
                    .zip(&steps)
                    .map(|(record, step)| cells.take(&mut cells.kept.lock().unwrap(), record, step))
                    .collect()
            }),
            _ => Box::pin(ready(cells.all(&steps))),
        }
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        let now = self.0.now();
        let found = ids.into_iter().map(|id| Ok(Found { record: self.0.read(id), now }));
        Box::pin(ready(found.collect()))
    }

    fn changed(&self, _: Id) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        Box::pin(ready(Ok(self.0.page(&scan))))
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        let kept = self.0.kept.lock().unwrap();
        let lines = kept.journal.iter().filter(|(line, _)| *line == id);
        Box::pin(ready(Ok(lines.map(|(_, entry)| entry.clone()).collect())))
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        Box::pin(ready(Ok(self.0.purge(rows))))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: None,
            batch_max: NonZeroUsize::new(1024).unwrap(),
            durability: Durability::Process,
            sharing: Sharing::Private,
            reading: Reading::Never,
        }
    }
}
