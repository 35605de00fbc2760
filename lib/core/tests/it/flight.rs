//! Duplicates that meet in one process.

use std::{sync::Arc, time::Duration};

use futures_util::poll;
use tokio::task::JoinSet;

use crate::bench::{
    Bench, LEASE, Slow, begun, call, first, lease, others_go_on, pass, prints, value,
};
use hapax_contract::{Delivery, FaultStore};
use hapax_core::{
    Begin, Busy, Clock, Effect, Kind, Policy,
    store::{Step, Store},
};

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_follower_with_another_request_is_a_mismatch_while_the_first_runs() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let running = lease(call(&operation, "key").prints(prints("one"))).await;
    let start = bench.clock.now();
    let other = call(&operation, "key").prints(prints("two")).wait(LONG);
    assert!(matches!(other.begin().await, Ok(Begin::Mismatch)));
    assert_eq!(bench.clock.now(), start, "it does not wait");
    assert_eq!(bench.counted.count("claim"), 1, "nor does it ask the store");
    running.complete(value("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_the_answer_without_asking_the_store() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let running = lease(call(&operation, "key")).await;
    let mut followers = JoinSet::new();
    for _ in 0..100 {
        followers.spawn(begun(call(&operation, "key").wait(LONG)));
    }
    others_go_on().await;
    running.complete(value("the answer")).await.unwrap();
    for begun in followers.join_all().await {
        assert!(matches!(begun, Ok(Begin::Replay(outcome)) if outcome == value("the answer")));
    }
    assert_eq!((bench.counted.count("claim"), bench.counted.looks()), (1, 0));
    assert_eq!(bench.seen.count("replayed"), 100);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_at_its_deadline() {
    let bench = Bench::new();
    let policy = Policy::new(Effect::Opaque).lease(LEASE);
    let policy = policy.busy(Busy::Wait(Duration::from_secs(1)));
    let operation = bench.hapax.declare("patient.op", policy).unwrap();
    let _running = lease(call(&operation, "key")).await;
    for patience in [None, Some(Duration::from_millis(1500)), Some(LEASE * 3)] {
        let start = bench.clock.now();
        let again = call(&operation, "key");
        let again = if let Some(patience) = patience { again.wait(patience) } else { again };
        assert!(matches!(again.begin().await, Ok(Begin::Busy { .. })), "its holder is alive");
        let waited = bench.clock.now().duration_since(start);
        let patience = patience.unwrap_or(Duration::from_secs(1));
        let late = waited.saturating_sub(patience);
        assert!(waited >= patience && late < Duration::from_millis(10), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_impatient_repeat_is_busy_at_once() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let _running = lease(call(&operation, "key")).await;
    let start = bench.clock.now();
    match call(&operation, "key").begin().await {
        Ok(Begin::Busy { retry_after }) => assert!(retry_after <= LEASE),
        begun => panic!("{begun:?}"),
    }
    assert_eq!(bench.clock.now(), start);
}

#[tokio::test(start_paused = true)]
async fn a_released_key_goes_to_one_of_those_who_wait() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let running = lease(call(&operation, "key")).await;
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        waiting.spawn(begun(call(&operation, "key").wait(LONG)));
    }
    others_go_on().await;
    running.release().await.unwrap();
    let mut ran = 0;
    let mut replayed = 0;
    while let Some(begun) = waiting.join_next().await {
        match begun.unwrap().unwrap() {
            Begin::Run(lease) => {
                ran += 1;
                pass(Duration::from_millis(5)).await;
                lease.complete(value("second")).await.unwrap();
            }
            Begin::Replay(outcome) => {
                replayed += 1;
                assert_eq!(outcome, value("second"));
            }
            begun => panic!("{begun:?}"),
        }
    }
    assert_eq!((ran, replayed), (1, 19));
    assert_eq!(bench.counted.count("claim"), 2, "one claim for each attempt");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_goes_away_hands_its_seat_on() {
    let bench = Bench::new();
    let twin = bench.twin();
    let (here, there) = (bench.declare(Effect::Opaque), twin.declare(Effect::Opaque));
    let working = lease(call(&there, "key")).await;
    let follower = {
        let mut leader = Box::pin(begun(call(&here, "key").wait(LONG)));
        assert!(poll!(&mut leader).is_pending());
        let mut follower = Box::pin(begun(call(&here, "key").wait(LONG)));
        assert!(poll!(&mut follower).is_pending());
        follower
    };
    let start = bench.clock.now();
    let work = async {
        pass(Duration::from_secs(1)).await;
        working.complete(value("done")).await.unwrap();
    };
    let (begun, ()) = futures_util::join!(follower, work);
    assert!(matches!(begun, Ok(Begin::Replay(_))));
    assert!(bench.clock.now().duration_since(start) < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn followers_of_a_failed_claim_ask_for_themselves() {
    let mut slow = None;
    let bench = Bench::behind(|store| {
        let line = FaultStore::new(store, first("claim", 1, Delivery::Refused));
        Arc::clone(slow.insert(Arc::new(Slow::new(Arc::new(line))))) as _
    });
    let slow = slow.unwrap();
    let operation = bench.declare(Effect::Opaque);
    slow.close();
    let mut leader = Box::pin(begun(call(&operation, "key")));
    let mut follower = Box::pin(begun(call(&operation, "key")));
    assert!(poll!(&mut leader).is_pending() && poll!(&mut follower).is_pending());
    slow.open();
    let (leader, follower) = futures_util::join!(leader, follower);
    assert!(leader.is_err(), "its claim was refused: {leader:?}");
    assert!(matches!(follower, Ok(Begin::Run(_))), "{follower:?}");
}

/// A holder that has lost its lease knows nothing any more; those who wait must ask the store.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_frees_those_who_wait_for_it() {
    let bench = Bench::new();
    let twin = bench.twin();
    let effect = Effect::Transactional;
    let (here, there) = (bench.declare(effect), twin.declare(effect));
    let zombie = lease(call(&here, "key")).await;
    let mut waiter = Box::pin(begun(call(&here, "key").wait(LONG)));
    assert!(poll!(&mut waiter).is_pending());

    let step = Step::Renew { fence: zombie.fence(), lease: Duration::ZERO };
    bench.memory.apply(vec![step]).await;
    let new = lease(call(&there, "key")).await;
    zombie.lost().cancelled().await;
    new.complete(value("from there")).await.unwrap();
    let start = bench.clock.now();
    assert!(matches!(waiter.await, Ok(Begin::Replay(outcome)) if outcome == value("from there")));
    assert!(bench.clock.now().duration_since(start) < Duration::from_secs(1));
    assert!(matches!(call(&here, "key").begin().await, Ok(Begin::Replay(_))));
    let fenced = zombie.complete(value("late")).await.unwrap_err();
    assert_eq!(fenced.kind(), Kind::Fenced);
    assert!(matches!(call(&here, "key").begin().await, Ok(Begin::Replay(_))));
}
