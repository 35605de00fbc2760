//! Clocks that run on by themselves while a case is played.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use hapax_contract::{BoxFuture, CASES, Subject, oracle};
use hapax_core::{
    Clock, SystemClock, TestClock, Timestamp,
    store::{MemoryStore, RECORDS_MAX, Store},
};

/// A clock that is three milliseconds further at each look.
struct Drifting {
    inner: TestClock,
    looks: AtomicI64,
}

impl Clock for Drifting {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall(&self) -> Timestamp {
        let drift = 3 * self.looks.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_millis(self.inner.wall().as_millis() + drift)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(span)
    }
}

struct OnDrifting {
    clock: Arc<Drifting>,
    beat: Duration,
}

impl OnDrifting {
    fn with(beat: Duration) -> Self {
        let inner = TestClock::at(Timestamp::from_millis(1_790_000_000_000));
        Self { clock: Arc::new(Drifting { inner, looks: AtomicI64::new(0) }), beat }
    }
}

impl Subject for OnDrifting {
    fn name(&self) -> &'static str {
        "memory on a clock that runs on"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        let store = MemoryStore::with(Arc::clone(&self.clock) as Arc<_>, RECORDS_MAX);
        Box::pin(ready(Arc::new(store) as Arc<dyn Store>))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.clock.inner.advance(span);
        Box::pin(ready(()))
    }

    fn beat(&self) -> Duration {
        self.beat
    }
}

mod drifting {
    use super::{Duration, OnDrifting};

    hapax_contract::suite!(OnDrifting::with(Duration::from_secs(60)));
}

/// A beat that is too short for the store is no verdict about the store, and says so.
#[test]
fn a_clock_that_runs_too_far_makes_the_run_void() {
    let found = oracle::search(&OnDrifting::with(Duration::from_millis(20)), 50).unwrap_err();
    let said = found.to_string();
    assert!(said.contains("its clock shows beat") && said.contains("have passed"), "{said}");
}

/// A store whose time can only really pass.
struct Waiting;

impl Subject for Waiting {
    fn name(&self) -> &'static str {
        "memory on the machine's clock"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(ready(Arc::new(MemoryStore::new()) as Arc<dyn Store>))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        SystemClock.sleep(span)
    }

    fn beat(&self) -> Duration {
        Duration::from_millis(250)
    }
}

#[test]
fn cases_hold_where_time_really_passes() {
    for name in [
        "a_lease_holds_until_its_end",
        "a_renewal_counts_from_now",
        "a_release_forgets_the_request",
        "an_expired_key_runs_again_after_its_grace",
    ] {
        CASES.iter().find(|case| case.name == name).unwrap().run(&Waiting);
    }
}
