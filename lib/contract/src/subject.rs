//! The store on trial, and the clock that judges it.

use std::{future::ready, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use hapax_core::{
    TestClock, Timestamp,
    store::{MemoryStore, RECORDS_MAX, Store},
};

/// A store on trial.
///
/// The cases count time in beats. A beat must be long against everything that one case does to
/// the store: a minute where [`pass`](Self::pass) moves the store's clock by an offset, some
/// hundred milliseconds where it really waits.
pub trait Subject: Send + Sync + 'static {
    /// The name of the store, for messages.
    fn name(&self) -> &str;

    /// Opens a store without records.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Makes the clock of every store that was opened here move on by `span`, which is a whole
    /// number of beats.
    ///
    /// The clock may run on by itself meanwhile, but by less than one beat in one case.
    fn pass(&self, span: Duration) -> BoxFuture<'_, ()>;

    /// The unit of time, from 10 ms to 5 min.
    fn beat(&self) -> Duration;
}

/// The reference on a clock that stands still until it is moved.
#[derive(Debug)]
pub struct Memory {
    clock: Arc<TestClock>,
    beat: Duration,
}

impl Memory {
    /// The reference with a beat of one minute.
    pub fn new() -> Self {
        Self::with_beat(Duration::from_secs(60))
    }

    /// The reference with the beat of whatever it is compared with.
    pub fn with_beat(beat: Duration) -> Self {
        Self { clock: Arc::new(TestClock::at(Timestamp::from_millis(1_790_000_000_000))), beat }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Subject for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        let store = MemoryStore::with(Arc::clone(&self.clock) as Arc<_>, RECORDS_MAX);
        Box::pin(ready(Arc::new(store) as Arc<dyn Store>))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.clock.advance(span);
        Box::pin(ready(()))
    }

    fn beat(&self) -> Duration {
        self.beat
    }
}
