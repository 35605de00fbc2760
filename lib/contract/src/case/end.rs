//! How an attempt ends, and who may end it.

use crate::{
    stage::{
        Stage, checkpoint, complete, doubt, happened, holders_steps, nonce, prints, release,
        settle, value,
    },
    subject::Subject,
};
use hapax_core::{
    Decision, Effect, Epoch, Fence, Nonce, Outcome, Prints, Retention, State, Timestamp,
    store::{Claim, Step},
};

/// A completion whose answer was lost is sent again; the first one stands.
pub async fn a_repeated_complete_is_applied(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("twice", 1)).await;
    let (first, _) = stage.apply(complete(fence, "first")).await;
    stage.pass(1).await;

    let retention = Retention { keep: Some(stage.beats(1)), grace: stage.beats(1) };
    let again = Step::Complete { fence, outcome: value("second"), retention };
    let (record, _) = stage.apply(again).await;
    assert_eq!(record, first, "the first outcome, its time and its retention stand");
}

/// A fence with another epoch or another nonce ends nothing and leaves no trace.
pub async fn a_stale_fence_cannot_complete(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("fenced", 1)).await;
    let older = Fence { epoch: Epoch::from_stored(fence.epoch.get() - 1), ..fence };
    let newer = Fence { epoch: Epoch::from_stored(fence.epoch.get() + 1), ..fence };
    let foreign = Fence { nonce: nonce(9), ..fence };

    for stale in [older, newer, foreign] {
        for step in holders_steps(stale, stage.beats(5)) {
            stage.refuse(step).await;
        }
    }
    assert_eq!(stage.apply(complete(fence, "done")).await.0.state, State::Completed);
}

/// A lapsed lease permits a take-over; it revokes nothing.
pub async fn a_late_holder_completes_if_nobody_took_over(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (key, effect) in [("late-a", Effect::Transactional), ("late-b", Effect::Opaque)] {
        let fence = stage.hold(&Claim { effect, ..stage.claim(key, 1) }).await;
        stage.pass(5).await;
        let (record, now) = stage.apply(complete(fence, "late")).await;
        assert_eq!((record.state, record.completed_at), (State::Completed, Some(now)));
        assert_eq!(record.outcome, Some(value("late")));
    }
}

/// Whoever was taken over can end nothing any more, before and after the new attempt has ended.
pub async fn a_holder_that_was_taken_over_is_fenced(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let old = stage.hold(&stage.claim("taken", 1)).await;
    stage.pass(2).await;
    let new = stage.hold(&stage.claim("taken", 2)).await;

    for step in holders_steps(old, stage.beats(5)) {
        stage.refuse(step).await;
    }
    let (record, _) = stage.apply(complete(new, "new")).await;
    for step in holders_steps(old, stage.beats(5)) {
        stage.refuse(step).await;
    }
    assert_eq!(record.outcome, Some(value("new")));
}

/// Nothing changes a completed record: no step, no claim, no ruling, no time.
pub async fn a_completed_record_never_changes(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("closed", 1)).await;
    let (completed, _) = stage.apply(complete(fence, "done")).await;

    for step in [
        Step::Renew { fence, lease: stage.beats(9) },
        checkpoint(fence, b"too late"),
        doubt(fence),
        release(fence, stage.beats(1)),
        settle(fence, 7, happened("otherwise")),
    ] {
        stage.refuse(step).await;
    }
    stage.apply(complete(fence, "otherwise")).await;
    stage.pass(20).await;
    stage.purge_all().await;
    let replay = Decision::Replay(value("done"));
    assert_eq!(stage.ask(&stage.claim("closed", 2)).await, replay);
    assert_eq!(stage.record(fence.id).await, completed);
}

/// A step on a record that is not there finds nothing and makes nothing.
pub async fn a_step_on_no_record_finds_nothing(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("absent", 1);
    let epoch = Epoch::after(None, Timestamp::from_millis(1));
    let fence = Fence { id: claim.id, epoch, nonce: claim.nonce };

    for step in holders_steps(fence, stage.beats(5)) {
        stage.refuse(step).await;
    }
    stage.refuse(settle(fence, 7, happened("nowhere"))).await;
    assert_eq!(stage.look(claim.id).await.record, None);
    assert_eq!(stage.grant(&claim).await.attempt, 1);
}

/// A released record keeps nothing of the request, so that a corrected one may follow.
pub async fn a_release_forgets_the_request(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("typo", 1)).await;
    stage.apply(checkpoint(fence, b"half way")).await;
    let (open, now) = stage.apply(release(fence, stage.beats(4))).await;

    assert_eq!((open.state, open.prints, open.checkpoint), (State::Open, Prints::NONE, None));
    assert_eq!((open.epoch, open.nonce), (fence.epoch, fence.nonce), "nonce and epoch stay");
    assert_eq!(open.reuse_at, Some(now.plus(stage.beats(4))));

    let corrected = Claim { prints: prints("corrected"), ..stage.claim("typo", 2) };
    let grant = stage.grant(&corrected).await;
    assert!(grant.epoch > fence.epoch);
    assert_eq!((grant.attempt, grant.since, grant.checkpoint), (1, grant.now, None));
    let record = stage.record(fence.id).await;
    assert_eq!((record.prints, record.reuse_at), (corrected.prints, None));
    assert_eq!((record.created_at, record.attempts), (grant.now, 1));
}

/// A packet of a released attempt that comes late begins nothing while it is remembered.
pub async fn a_late_claim_of_a_released_attempt_is_refused(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("ghost", 1);
    let fence = stage.hold(&claim).await;
    let (open, _) = stage.apply(release(fence, stage.beats(4))).await;

    stage.pass(3).await;
    assert_eq!(stage.ask(&claim).await, Decision::Spent);
    assert_eq!(stage.record(claim.id).await, open);
    stage.pass(1).await;
    assert!(stage.grant(&claim).await.epoch > fence.epoch, "its memory is over");
}

/// A released record waits for nobody: another attempt gets it at once.
pub async fn an_open_record_is_claimed_at_once(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let strict = Claim { effect: Effect::Opaque, ..stage.claim("open", 1) };
    let fence = stage.hold(&strict).await;
    stage.apply(release(fence, stage.beats(50))).await;

    let grant = stage.grant(&stage.claim("open", 2)).await;
    assert_eq!((grant.attempt, grant.class), (1, Effect::Transactional.class()));
    assert!(grant.epoch > fence.epoch);
}

/// A release whose answer was lost is sent again.
pub async fn a_repeated_release_is_applied(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("freed", 1)).await;
    let (open, _) = stage.apply(release(fence, stage.beats(4))).await;
    stage.pass(1).await;
    assert_eq!(stage.apply(release(fence, stage.beats(9))).await.0, open);

    for step in [
        Step::Renew { fence, lease: stage.beats(9) },
        checkpoint(fence, b"too late"),
        doubt(fence),
        complete(fence, "too late"),
        settle(fence, 7, happened("too late")),
    ] {
        stage.refuse(step).await;
    }
}

/// A holder that does not know says so; a repeat of its word is applied.
pub async fn a_doubt_makes_the_record_unknown(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("doubt", 1)).await;
    stage.apply(checkpoint(fence, b"sent")).await;
    let (unknown, now) = stage.apply(doubt(fence)).await;

    assert_eq!((unknown.state, unknown.lease_until), (State::Unknown, now));
    assert_eq!((unknown.epoch, unknown.nonce), (fence.epoch, fence.nonce));
    assert_eq!(unknown.checkpoint.as_deref(), Some(&b"sent"[..]));
    assert_eq!((unknown.reuse_at, unknown.outcome.clone()), (None, None));
    stage.pass(1).await;
    assert_eq!(stage.apply(doubt(fence)).await.0, unknown);
    stage.refuse(Step::Renew { fence, lease: stage.beats(9) }).await;
    stage.refuse(checkpoint(fence, b"too late")).await;
    let same = stage.claim("doubt", 1);
    assert_eq!(stage.ask(&same).await, Decision::Spent, "it has spoken its last word");
}

/// Who did not know may come to know, while nobody else has judged.
pub async fn a_doubting_holder_may_still_find_out(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = |key| Claim { effect: Effect::Opaque, ..stage.claim(key, 1) };
    let did = stage.hold(&claim("did")).await;
    let did_not = stage.hold(&claim("did-not")).await;
    stage.apply(doubt(did)).await;
    stage.apply(doubt(did_not)).await;
    stage.pass(5).await;

    assert_eq!(stage.apply(complete(did, "it did")).await.0.outcome, Some(value("it did")));
    let (open, _) = stage.apply(release(did_not, stage.beats(2))).await;
    assert_eq!(open.state, State::Open);
}

/// An outcome that was too large to keep is told apart from one that was kept.
pub async fn a_tombstone_is_no_answer(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (key, outcome) in [
        ("kept", value("/orders/1")),
        ("elsewhere", Outcome::Tombstone(bytes::Bytes::from_static(b"/orders/1"))),
    ] {
        let fence = stage.hold(&stage.claim(key, 1)).await;
        let step =
            Step::Complete { fence, outcome: outcome.clone(), retention: Retention::FOREVER };
        stage.apply(step).await;
        let repeat = stage.claim(key, 2);
        assert_eq!(stage.ask(&repeat).await, Decision::Replay(outcome));
    }
}

/// The epoch of one record only rises, whatever becomes of it.
pub async fn epochs_only_rise(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = |serial| stage.claim("rising", serial);
    let mut epochs = Vec::new();

    let dead = stage.hold(&claim(1)).await;
    epochs.push(dead.epoch);
    stage.pass(2).await;
    let retaken = stage.hold(&claim(2)).await;
    epochs.push(retaken.epoch);
    stage.pass(2).await;
    let nothing = hapax_core::store::Ruling::NothingHappened { memory: stage.beats(1) };
    epochs.push(stage.apply(settle(retaken, 9, nothing)).await.0.epoch);
    let after_ruling = stage.hold(&claim(3)).await;
    epochs.push(after_ruling.epoch);
    stage.apply(release(after_ruling, stage.beats(1))).await;
    let after_release = stage.hold(&claim(4)).await;
    epochs.push(after_release.epoch);
    let short = Retention { keep: Some(stage.beats(1)), grace: stage.beats(1) };
    let outcome = value("done");
    stage.apply(Step::Complete { fence: after_release, outcome, retention: short }).await;
    stage.pass(2).await;
    let after_grace = stage.hold(&claim(5)).await;
    epochs.push(after_grace.epoch);
    stage.apply(release(after_grace, stage.beats(1))).await;
    stage.pass(1).await;
    stage.purge_all().await;
    epochs.push(stage.grant(&claim(6)).await.epoch);

    assert!(epochs.is_sorted_by(|earlier, later| earlier < later), "{epochs:?}");
}

/// Nonces are compared whole.
pub async fn a_nonce_that_is_almost_right_is_wrong(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("almost", 0)).await;
    for at in 0..16 {
        let mut bytes = *fence.nonce.as_bytes();
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x80);
        stage.refuse(complete(Fence { nonce: Nonce::from_bytes(bytes), ..fence }, "no")).await;
    }
    stage.apply(complete(fence, "yes")).await;
}
