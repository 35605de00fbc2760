//! What a verifier or a person decides about an attempt that nobody ended.

use std::sync::Arc;

use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    stage::{Stage, complete, doubt, happened, holders_steps, nonce, release, settle, value},
    subject::Subject,
};
use hapax_core::{
    Decision, Effect, Epoch, Fence, Prints, State,
    store::{Answer, Claim, Ruling, Step},
};

/// A ruling is void if the record has moved on since the judge looked.
pub async fn a_ruling_needs_the_epoch_that_was_seen(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.hold(&stage.claim("judged", 1)).await;
    stage.pass(2).await;
    let second = stage.hold(&stage.claim("judged", 2)).await;
    stage.pass(2).await;

    let future = Fence { epoch: Epoch::from_stored(second.epoch.get() + 1), ..second };
    for seen in [first, future] {
        stage.refuse(settle(seen, 9, happened("stale"))).await;
        let nothing = Ruling::NothingHappened { memory: stage.beats(1) };
        stage.refuse(settle(seen, 9, nothing)).await;
    }
    let (record, _) = stage.apply(settle(second, 9, happened("right"))).await;
    assert_eq!(record.outcome, Some(value("right")));
}

/// Nobody is judged while alive, nor within the quiet time of its class.
pub async fn a_live_attempt_cannot_be_settled(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let effect = Effect::Queryable { quiet: stage.beats(3) };
    let fence = stage.hold(&Claim { effect, ..stage.claim("alive", 1) }).await;
    for _ in 0..5 {
        stage.refuse(settle(fence, 9, happened("too early"))).await;
        stage.pass(1).await;
    }
    stage.apply(settle(fence, 9, happened("in time"))).await;

    let doubting = stage.hold(&Claim { effect, ..stage.claim("doubting", 1) }).await;
    stage.apply(doubt(doubting)).await;
    stage.refuse(settle(doubting, 9, happened("too early"))).await;
    stage.pass(3).await;
    stage.apply(settle(doubting, 9, happened("in time"))).await;
}

/// A ruling takes the attempt away from its holder, who can end nothing any more.
pub async fn a_ruling_fences_the_holder(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (key, ruling) in [
        ("did", happened("judged")),
        ("did-not", Ruling::NothingHappened { memory: stage.beats(9) }),
    ] {
        let fence = stage.hold(&Claim { effect: Effect::Opaque, ..stage.claim(key, 1) }).await;
        stage.pass(2).await;
        let (record, _) = stage.apply(settle(fence, 9, ruling)).await;
        assert!(record.epoch > fence.epoch, "a ruling raises the epoch");
        assert_eq!(record.nonce, nonce(9));
        for step in holders_steps(fence, stage.beats(5)) {
            stage.refuse(step).await;
        }
    }
}

/// "It happened" completes the record.
pub async fn a_ruling_that_it_happened_completes(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&Claim { effect: Effect::Opaque, ..stage.claim("did", 1) }).await;
    stage.apply(crate::stage::checkpoint(fence, b"sent")).await;
    stage.pass(2).await;
    let (record, now) = stage.apply(settle(fence, 9, happened("judged"))).await;

    assert_eq!((record.state, record.completed_at), (State::Completed, Some(now)));
    assert_eq!((record.checkpoint, record.expires_at, record.reuse_at), (None, None, None));
    let repeat = Claim { effect: Effect::Opaque, ..stage.claim("did", 2) };
    assert_eq!(stage.ask(&repeat).await, Decision::Replay(value("judged")));
}

/// "Nothing happened" opens the record: the key may run again, with any request.
pub async fn a_ruling_that_nothing_happened_opens(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let strict = Claim { effect: Effect::Opaque, ..stage.claim("did-not", 1) };
    let fence = stage.hold(&strict).await;
    stage.apply(crate::stage::checkpoint(fence, b"half way")).await;
    stage.apply(doubt(fence)).await;
    let ruling = Ruling::NothingHappened { memory: stage.beats(4) };
    let (record, now) = stage.apply(settle(fence, 9, ruling)).await;

    assert_eq!((record.state, record.outcome), (State::Open, None));
    assert_eq!((record.prints, record.checkpoint), (Prints::NONE, None));
    assert_eq!(record.reuse_at, Some(now.plus(stage.beats(4))));
    let other = Claim { prints: crate::stage::prints("other"), ..stage.claim("did-not", 2) };
    let grant = stage.grant(&other).await;
    assert_eq!(grant.attempt, 1);
    assert!(grant.epoch > record.epoch);
}

/// A ruling whose answer was lost is sent again; another ruling comes too late.
pub async fn a_repeated_ruling_is_applied(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (key, ruling) in [
        ("did", happened("first")),
        ("did-not", Ruling::NothingHappened { memory: stage.beats(9) }),
    ] {
        let fence = stage.hold(&Claim { effect: Effect::Opaque, ..stage.claim(key, 1) }).await;
        stage.pass(2).await;
        let (first, _) = stage.apply(settle(fence, 9, ruling.clone())).await;
        stage.pass(1).await;
        assert_eq!(stage.apply(settle(fence, 9, ruling)).await.0, first);
        assert_eq!(stage.apply(settle(fence, 9, happened("other"))).await.0, first);
        stage.refuse(settle(fence, 8, happened("second judge"))).await;
        let current = Fence { epoch: first.epoch, ..fence };
        stage.refuse(settle(current, 8, happened("second judge"))).await;
    }
}

/// A late completion and a ruling have one winner.
pub async fn a_late_completion_and_a_ruling_have_one_winner(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for serial in 0..16 {
        let claim = stage.claim(&format!("late-{serial}"), 1);
        let fence = stage.hold(&Claim { effect: Effect::Opaque, ..claim }).await;
        stage.apply(Step::Renew { fence, lease: std::time::Duration::ZERO }).await;
        let (left, right) = (Arc::clone(stage.store()), Arc::clone(stage.store()));
        let ruling = settle(fence, 9, Ruling::NothingHappened { memory: stage.beats(9) });
        let start = Arc::new(Barrier::new(2));
        let (first, second) = (Arc::clone(&start), start);
        let mut race = JoinSet::new();
        race.spawn(async move {
            first.wait().await;
            (0, left.apply(vec![complete(fence, "late")]).await)
        });
        race.spawn(async move {
            second.wait().await;
            (1, right.apply(vec![ruling]).await)
        });
        let mut ends = race.join_all().await;
        ends.sort_by_key(|(who, _)| *who);

        let record = stage.record(fence.id).await;
        let applied: Vec<bool> = ends
            .iter()
            .map(|(_, answers)| matches!(answers.as_slice(), [Answer::Applied { .. }]))
            .collect();
        match applied.as_slice() {
            [true, false] => assert_eq!(record.outcome, Some(value("late"))),
            [false, true] => assert_eq!(record.state, State::Open),
            both => panic!("one must win: {both:?}"),
        }
    }
}

/// A ruling on what was completed or released finds that there is nothing to judge.
pub async fn what_has_ended_cannot_be_settled(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let completed = stage.hold(&stage.claim("completed", 1)).await;
    stage.apply(complete(completed, "done")).await;
    let released = stage.hold(&stage.claim("released", 1)).await;
    stage.apply(release(released, stage.beats(90))).await;
    stage.pass(5).await;
    for fence in [completed, released] {
        stage.refuse(settle(fence, 9, happened("too late"))).await;
        let nothing = Ruling::NothingHappened { memory: stage.beats(1) };
        stage.refuse(settle(fence, 9, nothing)).await;
    }
}
