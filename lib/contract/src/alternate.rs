//! One set of records, two doors.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;

use hapax_core::{
    Id,
    store::{Answer, Capabilities, Entry, Fault, Found, Page, Scan, Step, Store},
};

/// Uses two handles on the same records in turn, so that the whole suite holds across two
/// connections, clients or processes.
#[derive(Clone)]
pub struct Alternate {
    doors: [Arc<dyn Store>; 2],
    turn: Arc<AtomicBool>,
}

impl Alternate {
    /// A store that sends each call through the other of two `doors`.
    pub fn new(doors: [Arc<dyn Store>; 2]) -> Self {
        Self { doors, turn: Arc::default() }
    }

    fn next(&self) -> &Arc<dyn Store> {
        let [left, right] = &self.doors;
        if self.turn.fetch_xor(true, Ordering::Relaxed) { right } else { left }
    }
}

impl std::fmt::Debug for Alternate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alternate").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Store for Alternate {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        self.next().apply(steps)
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.next().look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.next().changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.next().scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.next().history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.next().purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        let [left, _] = &self.doors;
        left.capabilities()
    }
}
