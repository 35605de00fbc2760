//! How long an attempt lives, and what it leaves.

use crate::{
    stage::{Stage, checkpoint, complete, release},
    subject::Subject,
};
use hapax_core::{
    Decision, Effect, State,
    store::{Claim, Step},
};

/// A renewal makes the lease end so long from now: never from its old end, and never later.
pub async fn a_renewal_counts_from_now(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = Claim { lease: stage.beats(20), ..stage.claim("renewed", 1) };
    let fence = stage.hold(&claim).await;
    stage.pass(3).await;

    for beats in [4, 30, 1] {
        let lease = stage.beats(beats);
        let before = stage.record(claim.id).await;
        let (record, now) = stage.apply(Step::Renew { fence, lease }).await;
        assert_eq!(record.lease_until, now.plus(lease), "{beats} beats from now");
        let unchanged = hapax_core::Record { lease_until: before.lease_until, ..record.clone() };
        assert_eq!(unchanged, before, "a renewal changes nothing else");
    }
    stage.pass(1).await;
    assert_eq!(stage.grant(&stage.claim("renewed", 2)).await.attempt, 2);
}

/// A lease that is renewed for no time is free for take-over at once.
pub async fn a_renewal_of_zero_hands_on(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = Claim { lease: stage.beats(50), ..stage.claim("handed", 1) };
    let fence = stage.hold(&claim).await;
    let (record, now) = stage.apply(Step::Renew { fence, lease: std::time::Duration::ZERO }).await;
    assert_eq!(record.lease_until, now);

    let next = stage.grant(&stage.claim("handed", 2)).await;
    assert_eq!(next.attempt, 2);
    stage.refuse(complete(fence, "late")).await;
}

/// A renewal that comes late revives the lease if nobody took over.
pub async fn a_late_renewal_revives_the_lease(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("revived", 1)).await;
    stage.pass(5).await;
    stage.apply(Step::Renew { fence, lease: stage.beats(3) }).await;

    let other = stage.claim("revived", 2);
    assert!(matches!(stage.ask(&other).await, Decision::Busy { .. }));
    stage.apply(complete(fence, "done")).await;
}

/// A lease holds until its end and not after it.
pub async fn a_lease_holds_until_its_end(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = Claim { lease: stage.beats(3), ..stage.claim("held", 1) };
    stage.hold(&first).await;
    let second = stage.claim("held", 2);
    for _ in 0..3 {
        assert!(matches!(stage.ask(&second).await, Decision::Busy { .. }));
        stage.pass(1).await;
    }
    assert_eq!(stage.grant(&second).await.attempt, 2);
}

/// The next attempt finds the recovery point of the one that died.
pub async fn a_checkpoint_survives_a_take_over(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("onward", 1)).await;
    stage.apply(checkpoint(fence, b"first")).await;
    let before = stage.record(fence.id).await;
    let (record, _) = stage.apply(checkpoint(fence, b"second")).await;
    let unchanged = hapax_core::Record { checkpoint: before.checkpoint.clone(), ..record };
    assert_eq!(unchanged, before, "a recovery point changes nothing else");
    stage.pass(2).await;

    let next = stage.grant(&stage.claim("onward", 2)).await;
    assert_eq!(next.checkpoint.as_deref(), Some(&b"second"[..]));
    let kept = stage.record(fence.id).await.checkpoint;
    assert_eq!(kept.as_deref(), Some(&b"second"[..]));
}

/// A finished attempt needs no recovery point, and the next operation must not find it.
pub async fn a_checkpoint_is_dropped_at_the_end(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let completed = stage.hold(&stage.claim("completed", 1)).await;
    stage.apply(checkpoint(completed, b"point")).await;
    let (record, _) = stage.apply(complete(completed, "done")).await;
    assert_eq!(record.checkpoint, None);

    let released = stage.hold(&stage.claim("released", 1)).await;
    stage.apply(checkpoint(released, b"point")).await;
    let (record, _) = stage.apply(release(released, stage.beats(4))).await;
    assert_eq!(record.checkpoint, None);
    assert_eq!(stage.grant(&stage.claim("released", 2)).await.checkpoint, None);
}

/// The time that a store tells never goes back.
pub async fn the_clock_never_goes_back(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut last = stage.look(stage.claim("any", 1).id).await.now;
    for serial in 1..20 {
        let claim = Claim { effect: Effect::Opaque, ..stage.claim("any", serial) };
        let grant = stage.grant(&claim).await;
        let fence = crate::stage::fence(&claim, &grant);
        let (record, applied) = stage.apply(release(fence, stage.beats(1))).await;
        let looked = stage.look(claim.id).await.now;
        assert!(last <= grant.now && grant.now <= applied && applied <= looked);
        assert_eq!(record.state, State::Open);
        last = looked;
    }
    let before = stage.look(stage.claim("any", 1).id).await.now;
    stage.pass(2).await;
    let after = stage.look(stage.claim("any", 1).id).await.now;
    assert!(after >= before.plus(stage.beats(2)), "the subject does not move the store's clock");
}
