//! Ten thousand duplicates at the same moment, on real threads.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};

use crate::bench::{Counted, Happenings, Slow, call};
use hapax_core::{
    Clock, Effect, End, FOLLOWERS_PER_KEY_MAX, Hapax, Policy, Ran, SystemClock, store::MemoryStore,
};

const DUPLICATES: usize = 10_000;
/// Of those who come while the first one runs, this many are told to come later.
const TURNED_AWAY: usize = DUPLICATES - 1 - FOLLOWERS_PER_KEY_MAX;
const OTHER_KEYS: usize = 200;
/// A crowd that has not gathered by then never will.
const GATHER_MAX: Duration = Duration::from_secs(15);

/// What became of a crowd.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fates {
    fresh: usize,
    replayed: usize,
    busy: usize,
}

async fn storm(lanes: usize) {
    let counted = Arc::new(Counted::new(Arc::new(MemoryStore::new())));
    let store = Slow::with(Arc::clone(&counted) as Arc<_>, |capabilities| {
        capabilities.lanes = NonZeroUsize::new(lanes);
    });
    let seen = Arc::new(Happenings::default());
    let hapax = Hapax::on(Arc::new(store)).observer(Arc::clone(&seen) as Arc<_>).build();
    let policy = Policy::new(Effect::Opaque).lease(Duration::from_secs(60));
    let operation = hapax.declare("storm.op", policy).unwrap();
    let executions = Arc::new(AtomicUsize::new(0));
    let gate = watch::Sender::new(false);

    let mut crowd = JoinSet::new();
    for _ in 0..DUPLICATES {
        let (executions, mut gate) = (Arc::clone(&executions), gate.subscribe());
        let call = call(&operation, "hot").wait(Duration::from_secs(60));
        crowd.spawn(call.run(move |_| async move {
            executions.fetch_add(1, Ordering::SeqCst);
            gate.wait_for(|open| *open).await.unwrap();
            End::Done(7_u32)
        }));
    }
    let start = SystemClock.now();
    while seen.count("busy") < TURNED_AWAY {
        assert!(SystemClock.now().duration_since(start) < GATHER_MAX, "the crowd is stuck");
        tokio::task::yield_now().await;
    }

    let mut others = JoinSet::new();
    for key in 0..OTHER_KEYS {
        let call = call(&operation, &format!("other-{key}"));
        others.spawn(call.run(|_| async { End::Done(1_u32) }));
    }
    for ran in others.join_all().await {
        assert!(matches!(ran, Ok(Ran::Fresh(1))), "other keys keep flowing: {ran:?}");
    }

    gate.send_replace(true);
    let mut fates = Fates::default();
    for ran in crowd.join_all().await {
        match ran.unwrap() {
            Ran::Fresh(7) => fates.fresh += 1,
            Ran::Replayed(7) => fates.replayed += 1,
            Ran::Busy { .. } => fates.busy += 1,
            ran => panic!("{ran:?}"),
        }
    }
    let expected = Fates { fresh: 1, replayed: FOLLOWERS_PER_KEY_MAX, busy: TURNED_AWAY };
    assert_eq!(fates, expected);
    assert_eq!(executions.load(Ordering::SeqCst), 1);
    assert_eq!(counted.count("claim"), 1 + OTHER_KEYS, "one claim for all of them");
    assert_eq!(counted.count("complete"), 1 + OTHER_KEYS, "and one complete");
    assert_eq!(counted.looks(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_duplicates_are_one_execution() {
    storm(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_duplicates_are_one_execution_on_one_lane() {
    storm(1).await;
}

/// Nobody gathers first: duplicates come while the first one begins, runs and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_at_every_moment_are_one_execution() {
    for round in 0..200 {
        let hapax = Hapax::new(Arc::new(MemoryStore::new()));
        let operation = hapax.declare("storm.op", Policy::new(Effect::Opaque)).unwrap();
        let executions = Arc::new(AtomicUsize::new(0));
        let mut crowd = JoinSet::new();
        for _ in 0..50 {
            let executions = Arc::clone(&executions);
            let call = call(&operation, "hot").wait(Duration::from_secs(30));
            crowd.spawn(call.run(move |_| async move {
                executions.fetch_add(1, Ordering::SeqCst);
                End::Done(round)
            }));
        }
        for ran in crowd.join_all().await {
            let (Ran::Fresh(answer) | Ran::Replayed(answer)) = ran.unwrap() else {
                panic!("a patient duplicate gets the answer");
            };
            assert_eq!(answer, round);
        }
        assert_eq!(executions.load(Ordering::SeqCst), 1);
    }
}
