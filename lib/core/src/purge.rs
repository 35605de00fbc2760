//! Removes what counts as absent, a little at a time, for as long as the process lives.
//!
//! Invariant: a purge takes no more than half of a place's time, and one place that fails or is
//! full of dead rows keeps no other from being purged (`a_slow_purge_rests_as_long_as_it_works`,
//! `a_place_that_fails_keeps_no_other_from_being_purged`).

use std::{cmp, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::Unobserved,
    rest::{PERIOD_MIN, stopped_within},
    store::{Fault, Store},
    time::{Clock, SystemClock},
    witness::Witness,
};

/// Rows of one batch: short enough that a claim behind it does not notice.
pub const ROWS: u16 = 500;
/// How often an idle place is looked at.
pub const PERIOD: Duration = Duration::from_secs(60);

/// Batches of one place in one round, so that a backlog does not starve the other places.
const BATCHES_MAX: u32 = 20;
/// Shortest pause between two batches.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause between two batches: one that took so long was in trouble.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A place with rows that count as absent after a while: records, inbox, journal, letters.
pub trait Purge: Send + Sync + 'static {
    /// Removes at most `rows` of them and says how many. Nobody else can notice it, and any
    /// number of instances may do it at once.
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>>;
}

impl Purge for Arc<dyn Store> {
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        Store::purge(self.as_ref(), rows)
    }
}

/// What happened, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A batch was removed.
    Purged {
        /// From which place.
        place: &'static str,
        /// How many.
        rows: u16,
    },
    /// A place did not do it.
    Failed {
        /// Which place.
        place: &'static str,
    },
}

/// Purges places in turn.
#[must_use = "a purger removes nothing until it runs"]
pub struct Purger {
    places: Vec<(&'static str, Arc<dyn Purge>)>,
    clock: Arc<dyn Clock>,
    witness: Arc<dyn Witness<Happening>>,
    period: Duration,
    rows: u16,
}

impl Purger {
    /// A purger without places, on the machine's clock.
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            clock: Arc::new(SystemClock),
            witness: Arc::new(Unobserved),
            period: PERIOD,
            rows: ROWS,
        }
    }

    /// Purges this place too; its name is for metrics.
    pub fn of(mut self, name: &'static str, place: impl Purge) -> Self {
        self.places.push((name, Arc::new(place)));
        self
    }

    /// The clock of this process.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Who counts.
    pub fn witness(self, witness: impl Witness<Happening>) -> Self {
        Self { witness: Arc::new(witness), ..self }
    }

    /// How often an idle place is looked at.
    pub fn period(self, period: Duration) -> Self {
        Self { period: cmp::max(period, PERIOD_MIN), ..self }
    }

    /// Rows of one batch; at least one.
    pub fn rows(self, rows: u16) -> Self {
        Self { rows: cmp::max(rows, 1), ..self }
    }

    /// Purges until `stop` is cancelled.
    ///
    /// # Cancellation
    /// May be dropped at any time: each batch is a step of its own.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let mut is_behind = false;
            for (name, place) in &self.places {
                is_behind |= self.purge(name, place.as_ref(), &stop).await;
            }
            let rest = if is_behind { PAUSE_MIN } else { self.period };
            if stopped_within(&stop, self.clock.as_ref(), rest).await {
                return;
            }
        }
    }

    /// Some batches of one place. `true`: there are more.
    async fn purge(&self, name: &'static str, place: &dyn Purge, stop: &CancellationToken) -> bool {
        for _ in 0..BATCHES_MAX {
            if stop.is_cancelled() {
                return false;
            }
            let begun_at = self.clock.now();
            match place.purge(self.rows).await {
                Ok(rows) => {
                    if rows > 0 {
                        self.witness.see(&Happening::Purged { place: name, rows });
                    }
                    if rows < self.rows {
                        return false;
                    }
                }
                Err(fault) => {
                    tracing::warn!(
                        place = name,
                        error = &fault as &dyn std::error::Error,
                        "a purge failed"
                    );
                    self.witness.see(&Happening::Failed { place: name });
                    return false;
                }
            }
            // Others get the place for as long as we had it.
            let took = self.clock.now().saturating_duration_since(begun_at);
            let pause = took.clamp(PAUSE_MIN, PAUSE_MAX);
            stopped_within(stop, self.clock.as_ref(), pause).await;
        }
        true
    }
}

impl Default for Purger {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Purger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.places.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Purger").field("places", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::{
        engine::{Hapax, Policy},
        id::{BusinessKey, Tenant},
        outcome::Outcome,
        record::Effect,
        store::{FaultKind, MemoryStore},
        testing::{Seen, VirtualClock},
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A place with so many dead rows, each batch taking a while.
    #[derive(Clone)]
    struct Heap {
        clock: Arc<VirtualClock>,
        rows: Arc<AtomicU32>,
        takes: Duration,
        /// When each batch began.
        batches: Seen<std::time::Instant>,
    }

    impl Heap {
        fn new(clock: &Arc<VirtualClock>, rows: u32, takes: Duration) -> Self {
            let rows = Arc::new(AtomicU32::new(rows));
            Self { clock: clock.clone(), rows, takes, batches: Seen::new() }
        }

        fn left(&self) -> u32 {
            self.rows.load(Ordering::SeqCst)
        }
    }

    impl Purge for Heap {
        fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
            self.batches.add(self.clock.now());
            let heap = self.clone();
            Box::pin(async move {
                heap.clock.sleep(heap.takes).await;
                let taken = cmp::min(heap.left(), u32::from(rows));
                heap.rows.fetch_sub(taken, Ordering::SeqCst);
                Ok(u16::try_from(taken).unwrap())
            })
        }
    }

    struct Broken;

    impl Purge for Broken {
        fn purge(&self, _: u16) -> BoxFuture<'static, Result<u16, Fault>> {
            Box::pin(async { Err(Fault::new(FaultKind::Unavailable, "down")) })
        }
    }

    async fn purge_for(purger: Purger, clock: &VirtualClock, span: Duration) {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(purger.run(stop.clone()));
        clock.sleep(span).await;
        stop.cancel();
        running.join_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_purged_to_the_last_dead_record_and_no_further() {
        let clock = VirtualClock::new();
        let memory = MemoryStore::with(clock.clone(), 100_000);
        let hapax = Hapax::on(Arc::new(memory.clone())).clock(clock.clone()).build();
        let short = Policy::new(Effect::Opaque).redelivery(SECOND).retain(SECOND, SECOND);
        let short = hapax.declare("short", short).unwrap();
        let kept = hapax.declare("kept", Policy::new(Effect::Opaque).forever()).unwrap();
        for number in 0..3_000 {
            let operation = if number < 2_500 { &short } else { &kept };
            let key = BusinessKey::parse(&number.to_string()).unwrap();
            let call = operation.business(Tenant::parse("t").unwrap(), key);
            let crate::Begin::Run(lease) = call.begin().await.unwrap() else { panic!("fresh") };
            lease.complete(Outcome::Value(bytes::Bytes::new())).await.unwrap();
        }
        let seen = Seen::new();
        let purger = Purger::new().of("records", hapax.store()).clock(clock.clone()).rows(100);
        let purger = purger.period(SECOND).witness(seen.clone());
        let early = {
            let purger = Purger::new().of("records", hapax.store()).clock(clock.clone());
            purge_for(purger, &clock, SECOND).await;
            memory.len()
        };
        assert_eq!(early, 3_000, "nothing is dead yet");
        purge_for(purger, &clock, SECOND * 10).await;
        assert_eq!(memory.len(), 500, "what is kept for ever stays");
        assert_eq!(seen.count(|event| matches!(event, Happening::Purged { rows: 100, .. })), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_purge_rests_as_long_as_it_works() {
        let clock = VirtualClock::new();
        let heap = Heap::new(&clock, 5_000, SECOND / 2);
        let purger = Purger::new().of("heap", heap.clone()).clock(clock.clone()).rows(100);
        purge_for(purger, &clock, SECOND * 20).await;
        let batches = heap.batches.all();
        assert!((19..=21).contains(&batches.len()), "half of the time: {}", batches.len());
        for pair in batches.windows(2) {
            assert!(pair[1].duration_since(pair[0]) >= SECOND);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_fails_keeps_no_other_from_being_purged() {
        let clock = VirtualClock::new();
        let (long, short) =
            (Heap::new(&clock, 1_000_000, SECOND / 100), Heap::new(&clock, 10, SECOND / 100));
        let seen = Seen::new();
        let purger = Purger::new().of("broken", Broken).of("long", long.clone());
        let purger = purger.of("short", short.clone()).clock(clock.clone()).witness(seen.clone());
        purge_for(purger, &clock, SECOND * 2).await;
        assert_eq!(short.left(), 0);
        assert!(long.left() < 1_000_000);
        assert!(seen.count(|event| *event == Happening::Failed { place: "broken" }) > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_purge_of_a_long_backlog_stops_when_told_to() {
        let clock = VirtualClock::new();
        let heap = Heap::new(&clock, 1_000_000, SECOND / 100);
        let begun_at = clock.now();
        let purger = Purger::new().of("heap", heap.clone()).clock(clock.clone()).rows(10);
        purge_for(purger, &clock, SECOND).await;
        assert!(clock.now().duration_since(begun_at) < SECOND * 2);
        assert!(heap.left() > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_place_is_looked_at_once_a_period() {
        let clock = VirtualClock::new();
        let heap = Heap::new(&clock, 0, Duration::ZERO);
        let purger = Purger::new().of("heap", heap.clone()).clock(clock.clone());
        purge_for(purger, &clock, PERIOD * 10 - SECOND).await;
        assert_eq!(heap.batches.all().len(), 10);
    }
}
