//! What may follow a dead attempt: the stricter class of record and claim says.

use std::time::Duration;

use crate::{
    stage::{Stage, complete, doubt},
    subject::Subject,
};
use hapax_core::{
    Class, Decision, Effect, Fence,
    store::{Claim, Step},
};

/// A dead transactional attempt had no effect: the next one runs at once.
pub async fn a_transactional_attempt_is_retaken_at_once(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = dead(&stage, "tx", Effect::Transactional).await;
    let next = stage.claim("tx", 2);
    let Decision::Run(grant) = stage.ask(&next).await else { panic!("it must run") };
    assert!(grant.epoch > fence.epoch);
    assert_eq!((grant.attempt, grant.class), (2, Class::Transactional));
}

/// A dead keyed attempt is retaken while its receiver remembers, counted from the first claim.
pub async fn a_keyed_attempt_is_retaken_within_its_window(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let effect = Effect::Keyed { window: stage.beats(10) };
    let claim = |serial| Claim { effect, ..stage.claim("keyed", serial) };
    stage.hold(&claim(1)).await;
    for serial in 2..=4 {
        stage.pass(2).await;
        let Decision::Run(grant) = stage.ask(&claim(serial)).await else { panic!("in time") };
        assert_eq!((grant.attempt, grant.class), (u32::from(serial), Class::Keyed));
    }
    stage.pass(3).await;
    let late = claim(5);
    assert_eq!(stage.ask(&late).await, Decision::Held, "nine of ten beats have passed");
    stage.pass(20).await;
    assert_eq!(stage.ask(&late).await, Decision::Held);
}

/// A dead queryable attempt is left alone for its quiet time; then its receiver must be asked.
pub async fn a_queryable_attempt_is_verified_after_its_quiet_time(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let effect = Effect::Queryable { quiet: stage.beats(3) };
    let claim = |serial| Claim { effect, ..stage.claim("asked", serial) };
    let first = stage.ask(&claim(1)).await;
    assert!(matches!(first, Decision::Run(_)), "a first attempt has nothing to ask");

    for _ in 0..5 {
        assert!(matches!(stage.ask(&claim(2)).await, Decision::Busy { .. }));
        stage.pass(1).await;
    }
    let Decision::Verify(grant) = stage.ask(&claim(2)).await else { panic!("it must ask") };
    assert_eq!((grant.attempt, grant.class), (2, Class::Queryable));
    let Decision::Verify(again) = stage.ask(&claim(2)).await else { panic!("the same nonce") };
    assert_eq!(again.epoch, grant.epoch);
}

/// A dead opaque attempt is never retaken, however long one waits.
pub async fn an_opaque_attempt_is_never_retaken(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = dead(&stage, "opaque", Effect::Opaque).await;
    let claim = |serial| Claim { effect: Effect::Opaque, ..stage.claim("opaque", serial) };
    assert_eq!(stage.ask(&claim(2)).await, Decision::Held);
    stage.pass(30).await;
    assert_eq!(stage.ask(&claim(3)).await, Decision::Held);
    stage.apply(complete(fence, "it was alive")).await;
}

/// "I do not know" is treated as a death, by class, without waiting for the lease.
pub async fn a_doubt_follows_its_class(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let quiet = stage.beats(3);
    for (key, effect) in [
        ("tx", Effect::Transactional),
        ("keyed", Effect::Keyed { window: stage.beats(20) }),
        ("asked", Effect::Queryable { quiet }),
        ("opaque", Effect::Opaque),
    ] {
        let claim = |serial| Claim { effect, lease: stage.beats(9), ..stage.claim(key, serial) };
        let fence = stage.hold(&claim(1)).await;
        stage.apply(doubt(fence)).await;
        match (effect, stage.ask(&claim(2)).await) {
            (Effect::Transactional | Effect::Keyed { .. }, Decision::Run(grant)) => {
                assert_eq!(grant.attempt, 2, "{key}");
            }
            (Effect::Queryable { .. }, Decision::Busy { .. }) => {
                stage.pass(3).await;
                assert!(matches!(stage.ask(&claim(2)).await, Decision::Verify(_)), "{key}");
            }
            (Effect::Opaque, Decision::Held) => {}
            (_, decision) => panic!("{key}: {decision:?}"),
        }
    }
}

/// A deploy that loosens a class frees no record that was claimed under the strict one.
pub async fn the_stricter_class_wins_from_the_record(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    dead(&stage, "opaque", Effect::Opaque).await;
    let claim = stage.claim("opaque", 2);
    assert_eq!(stage.ask(&claim).await, Decision::Held);

    dead(&stage, "asked", Effect::Queryable { quiet: stage.beats(3) }).await;
    let claim = stage.claim("asked", 2);
    assert!(matches!(stage.ask(&claim).await, Decision::Busy { .. }));
    stage.pass(3).await;
    assert!(matches!(stage.ask(&claim).await, Decision::Verify(_)));
}

/// A deploy that tightens a class holds the records that were claimed under the loose one.
pub async fn the_stricter_class_wins_from_the_claim(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    dead(&stage, "opaque", Effect::Transactional).await;
    let claim = Claim { effect: Effect::Opaque, ..stage.claim("opaque", 2) };
    assert_eq!(stage.ask(&claim).await, Decision::Held);

    dead(&stage, "asked", Effect::Keyed { window: stage.beats(100) }).await;
    let effect = Effect::Queryable { quiet: stage.beats(3) };
    let claim = Claim { effect, ..stage.claim("asked", 2) };
    assert!(matches!(stage.ask(&claim).await, Decision::Busy { .. }));
    stage.pass(3).await;
    let Decision::Verify(grant) = stage.ask(&claim).await else { panic!("it must ask") };
    let both = effect.terms(grant.since);
    let keyed = Effect::Keyed { window: stage.beats(100) }.terms(grant.since);
    assert_eq!(stage.record(claim.id).await.terms, both.stricter(keyed), "it stays strict");

    stage.pass(5).await;
    let loose = Claim { effect: Effect::Transactional, ..stage.claim("asked", 3) };
    assert!(matches!(stage.ask(&loose).await, Decision::Verify(_)), "once strict, always strict");
}

/// The shorter window of record and claim counts.
pub async fn the_shorter_window_wins(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let (long, short) = (stage.beats(100), stage.beats(10));
    for (key, first, second) in [("first", short, long), ("second", long, short)] {
        dead(&stage, key, Effect::Keyed { window: first }).await;
        stage.pass(10).await;
        let effect = Effect::Keyed { window: second };
        let claim = Claim { effect, ..stage.claim(key, 2) };
        assert_eq!(stage.ask(&claim).await, Decision::Held, "{key}");
    }
}

/// An operation that kills its process each time is held in the end.
pub async fn attempts_are_bounded(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = |serial| Claim { attempts_max: 3, ..stage.claim("killer", serial) };
    for serial in 1..=3 {
        assert_eq!(stage.grant(&claim(serial)).await.attempt, u32::from(serial));
        stage.pass(2).await;
    }
    assert_eq!(stage.ask(&claim(4)).await, Decision::Held);
    let patient = Claim { attempts_max: 4, ..claim(5) };
    assert_eq!(stage.grant(&patient).await.attempt, 4, "the claim brings the bound");
}

/// A release ends the count of attempts that died.
pub async fn a_release_resets_the_attempts(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = |serial| Claim { attempts_max: 2, ..stage.claim("reset", serial) };
    stage.hold(&claim(1)).await;
    stage.pass(2).await;
    let second = stage.hold(&claim(2)).await;
    stage.apply(crate::stage::release(second, stage.beats(1))).await;
    assert_eq!(stage.grant(&claim(3)).await.attempt, 1);
}

/// Spans without end end nowhere: they neither overflow nor lapse.
pub async fn spans_without_end_do_not_overflow(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let quiet = Duration::MAX;
    let claim =
        |serial| Claim { effect: Effect::Queryable { quiet }, ..stage.claim("endless", serial) };
    let fence = stage.hold(&claim(1)).await;
    stage.pass(3).await;
    assert!(matches!(stage.ask(&claim(2)).await, Decision::Busy { .. }));
    stage.apply(Step::Renew { fence, lease: Duration::MAX }).await;
    assert!(matches!(stage.ask(&claim(2)).await, Decision::Busy { .. }));
    let ruling = crate::stage::happened("nobody may judge yet");
    stage.refuse(crate::stage::settle(fence, 7, ruling)).await;

    let window = Duration::MAX;
    let keyed = |serial| Claim { effect: Effect::Keyed { window }, ..stage.claim("keyed", serial) };
    stage.hold(&keyed(1)).await;
    stage.pass(3).await;
    assert_eq!(stage.grant(&keyed(2)).await.attempt, 2);
    stage.apply(crate::stage::release(fence, Duration::MAX)).await;
    assert_eq!(stage.ask(&claim(1)).await, Decision::Spent);
}

/// An attempt whose holder died: its lease is over.
async fn dead(stage: &Stage<'_>, key: &str, effect: Effect) -> Fence {
    let fence = stage.hold(&Claim { effect, ..stage.claim(key, 1) }).await;
    stage.pass(2).await;
    fence
}
