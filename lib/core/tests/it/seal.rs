//! A last word that is part of a transaction.

use std::time::Duration;

use crate::bench::{Bench, LEASE, begun, call, lease, pass, value};
use hapax_contract::{Asked, Delivery};
use hapax_core::{
    Begin, Effect, Kind, Resolved, Status,
    store::{Step, Store},
};

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_answered_shows_to_those_who_wait() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Transactional);
    let sealing = lease(call(&operation, "key")).await.seal();
    let (fence, retention) = (sealing.fence(), sealing.retention());
    let mut waiter = Box::pin(begun(call(&operation, "key").wait(LEASE)));
    assert!(futures_util::poll!(&mut waiter).is_pending());
    // The transaction commits its own write.
    let step = Step::Complete { fence, outcome: value("done"), retention };
    let answers = bench.memory.apply(vec![step]).await;
    let [hapax_core::store::Answer::Applied { now, .. }] = answers[..] else { panic!() };
    sealing.committed(value("done"), now);
    assert!(matches!(waiter.await, Ok(Begin::Replay(_))));
    assert_eq!(bench.seen.count("completed"), 1);
    assert_eq!(bench.counted.count("complete"), 0, "the engine writes nothing itself");
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_read_back_by_its_nonce() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Transactional);

    let sealing = lease(call(&operation, "committed")).await.seal();
    let (fence, retention) = (sealing.fence(), sealing.retention());
    let step = Step::Complete { fence, outcome: value("done"), retention };
    bench.memory.apply(vec![step]).await;
    let resolved = sealing.resolve().await.unwrap();
    assert!(matches!(resolved, Resolved::Committed(outcome) if outcome == value("done")));

    let sealing = lease(call(&operation, "rolled-back")).await.seal();
    let Resolved::RolledBack(again) = sealing.resolve().await.unwrap() else { panic!() };
    again.complete(value("second try")).await.unwrap();

    let sealing = lease(call(&operation, "taken")).await.seal();
    let fence = sealing.fence();
    bench.memory.apply(vec![Step::Renew { fence, lease: Duration::ZERO }]).await;
    let twin = bench.twin();
    let there = twin.declare(Effect::Transactional);
    let _new = lease(call(&there, "taken")).await;
    let Resolved::Fenced(error) = sealing.resolve().await.unwrap() else { panic!() };
    assert_eq!(error.kind(), Kind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_cannot_be_read_back_is_unsure() {
    let (bench, _) = Bench::lossy(|asked| match asked {
        Asked::Step(Step::Renew { .. }) => Delivery::Refused,
        _ => Delivery::Normal,
    });
    let operation = bench.declare(Effect::Transactional);
    let sealing = lease(call(&operation, "key")).await.seal();
    assert_eq!(sealing.resolve().await.unwrap_err().kind(), Kind::Unsure);
}

#[tokio::test(start_paused = true)]
async fn a_seal_that_is_dropped_says_nothing() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Transactional);
    let sealing = lease(call(&operation, "key")).await.seal();
    let id = sealing.fence().id;
    let before = bench.record(id).await;
    drop(sealing);
    bench.hapax.drain().await;
    assert_eq!(bench.record(id).await, before, "it lapses, and the class decides");
    assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Busy { .. })));
    pass(LEASE).await;
    let found = bench.found(id).await;
    assert_eq!(found.record.unwrap().status(found.now), Status::Abandoned);
    assert_eq!(lease(call(&operation, "key")).await.attempt(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_seal_that_was_fenced_is_told() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Transactional);
    let sealing = lease(call(&operation, "key")).await.seal();
    assert_eq!(sealing.fenced().kind(), Kind::Fenced);
    assert_eq!(bench.seen.count("fenced"), 1);
}
