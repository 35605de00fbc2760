//! How long an ended record speaks, and what a purge may take.

use std::time::Duration;

use crate::{
    oracle::{self, Effects, Op},
    stage::{Stage, complete, prints, release, value},
    subject::Subject,
};
use hapax_core::{
    Decision, Fence, Id, Retention, State, Status,
    store::{Claim, Step},
};

/// After its time a completed record refuses repeats, and after its grace it counts as absent.
pub async fn an_outcome_expires_and_is_refused(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("short", 1);
    completed(&stage, &claim, 2, 3).await;

    let repeat = stage.claim("short", 2);
    stage.pass(1).await;
    assert_eq!(stage.ask(&repeat).await, Decision::Replay(value("done")));
    for _ in 1..4 {
        stage.pass(1).await;
        assert_eq!(stage.ask(&repeat).await, Decision::Expired);
        assert_eq!(stage.ask(&claim).await, Decision::Expired, "its own nonce too");
        let found = stage.look(claim.id).await;
        let status = found.record.map(|record| record.status(found.now));
        assert_eq!(status, Some(Status::Expired));
    }
}

/// After the grace the key runs again, and nothing of the old operation shows.
pub async fn an_expired_key_runs_again_after_its_grace(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.claim("reused", 1);
    let old = completed(&stage, &first, 1, 1).await;
    stage.pass(2).await;

    let second = Claim { prints: prints("something else"), ..stage.claim("reused", 2) };
    let grant = stage.grant(&second).await;
    assert!(grant.epoch > old.epoch);
    assert_eq!((grant.attempt, grant.since, grant.checkpoint), (1, grant.now, None));
    let record = stage.record(first.id).await;
    assert_eq!((record.state, record.outcome, record.completed_at), (State::Claimed, None, None));
    assert_eq!((record.expires_at, record.reuse_at), (None, None));
    assert_eq!((record.prints, record.created_at), (second.prints, grant.now));
    stage.refuse(complete(old, "late")).await;
}

/// The nonce of an operation that counts as absent may be used anew.
pub async fn an_old_nonce_is_new_after_the_grace(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("same", 1);
    let old = completed(&stage, &claim, 1, 1).await;
    stage.pass(2).await;
    let grant = stage.grant(&claim).await;
    assert!(grant.epoch > old.epoch && grant.attempt == 1);
    stage.refuse(complete(old, "late")).await;
}

/// What is kept for ever has no expiry and is never purged.
pub async fn for_ever_has_no_expiry(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("order", 1)).await;
    let (record, _) = stage.apply(complete(fence, "for ever")).await;
    assert_eq!((record.expires_at, record.reuse_at), (None, None));
    stage.pass(30).await;
    stage.purge_all().await;
    let repeat = stage.claim("order", 2);
    assert_eq!(stage.ask(&repeat).await, Decision::Replay(value("for ever")));
}

/// A retention without end does not overflow.
pub async fn a_retention_without_end_does_not_overflow(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("endless", 1)).await;
    let retention = Retention { keep: Some(Duration::MAX), grace: Duration::MAX };
    stage.apply(Step::Complete { fence, outcome: value("kept"), retention }).await;
    stage.pass(30).await;
    stage.purge_all().await;
    let repeat = stage.claim("endless", 2);
    assert_eq!(stage.ask(&repeat).await, Decision::Replay(value("kept")));
}

/// A purge takes what counts as absent and nothing else.
pub async fn a_purge_takes_only_what_counts_as_absent(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let keep = |key: &'static str| stage.claim(key, 1);
    stage.hold(&keep("abandoned")).await;
    let unknown = stage.hold(&keep("unknown")).await;
    stage.apply(crate::stage::doubt(unknown)).await;
    let open = stage.hold(&keep("open")).await;
    stage.apply(release(open, stage.beats(9))).await;
    completed(&stage, &keep("completed"), 9, 1).await;
    completed(&stage, &keep("expired"), 1, 9).await;
    let forever = stage.hold(&keep("forever")).await;
    stage.apply(complete(forever, "kept")).await;
    let gone = [keep("gone-open"), keep("gone-completed")];
    let [gone_open, gone_completed] = &gone;
    let fence = stage.hold(gone_open).await;
    stage.apply(release(fence, stage.beats(2))).await;
    completed(&stage, gone_completed, 1, 1).await;
    stage.pass(5).await;

    let kept = ["abandoned", "unknown", "open", "completed", "expired", "forever"].map(keep);
    let mut before = Vec::new();
    for claim in &kept {
        before.push(stage.record(claim.id).await);
    }
    stage.purge_all().await;
    for (claim, record) in kept.iter().zip(before) {
        assert_eq!(stage.record(claim.id).await, record);
    }
    for claim in gone {
        assert_eq!(stage.look(claim.id).await.record, None, "{:?}", claim.identity);
    }
}

/// A purge takes no more than it is told, so that it never holds a store up for long.
pub async fn a_purge_is_bounded(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut ids: Vec<Id> = Vec::new();
    for serial in 0..7 {
        let claim = stage.claim(&format!("gone-{serial}"), 1);
        completed(&stage, &claim, 1, 1).await;
        ids.push(claim.id);
    }
    stage.pass(2).await;
    assert_eq!(stage.purge(0).await, 0);
    for _ in 0..4 {
        // How many it removes is the store's affair: some remove lapsed records by themselves.
        stage.purge(2).await;
    }
    for id in ids {
        assert_eq!(stage.look(id).await.record, None);
    }
    assert_eq!(stage.purge(1000).await, 0, "nothing is left");
}

/// No answer depends on whether a purge has run.
pub async fn a_purge_is_unobservable(subject: &dyn Subject) {
    if let Err(parting) = oracle::compare_purges(subject, &a_life_with_every_end()).await {
        panic!("a purge was observed: {parting}");
    }
}

/// Not even a record that is remembered for no time lets its epoch come again.
pub async fn a_purge_lets_no_epoch_come_again(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut last = None;
    for serial in 1..50 {
        let claim = stage.claim("busy", serial);
        let fence = stage.hold(&claim).await;
        assert!(last < Some(fence.epoch), "{last:?} and then {:?}", fence.epoch);
        last = Some(fence.epoch);
        let at_once = Retention { keep: Some(Duration::ZERO), grace: Duration::ZERO };
        let end = match serial % 2 {
            0 => release(fence, Duration::ZERO),
            _ => Step::Complete { fence, outcome: value("done"), retention: at_once },
        };
        match stage.send(end).await {
            hapax_core::store::Answer::Applied { .. } => {}
            answer => panic!("the holder ends it: {answer:?}"),
        }
        stage.purge_all().await;
        if serial % 2 == 1 {
            // A completed record is refused until the clock has passed its epoch.
            stage.pass(1).await;
        }
    }
}

async fn completed(stage: &Stage<'_>, claim: &Claim, keep: u32, grace: u32) -> Fence {
    let fence = stage.hold(claim).await;
    let retention = Retention { keep: Some(stage.beats(keep)), grace: stage.beats(grace) };
    stage.apply(Step::Complete { fence, outcome: value("done"), retention }).await;
    fence
}

/// Steps that leave reusable records by every way there is, and then ask about them with every
/// kind of step.
fn a_life_with_every_end() -> Vec<Op> {
    let mut ops = Vec::new();
    for (end, key) in [(0, 0), (1, 1), (2, 2)] {
        ops.push(Op::claim(key, 1, Effects::Transactional));
        ops.push(match end {
            0 => Op::release(0, 2),
            1 => Op::complete(0, Some(1), 1),
            _ => Op::renew(0, 0),
        });
        if end == 2 {
            ops.push(Op::settle_as_nothing(key, 6, 2));
        }
        ops.push(Op::Pass { beats: 2 });
        // The grant is the latest one: late words, late packets, late rulings.
        ops.extend([Op::renew(0, 3), Op::checkpoint(0), Op::doubt(0), Op::release(0, 2)]);
        ops.extend([Op::complete(0, Some(1), 1), Op::settle_as_nothing(key, 6, 2)]);
        ops.push(Op::claim(key, 1, Effects::Opaque));
        ops.push(Op::claim(key, 2, Effects::Transactional));
        ops.push(Op::Pass { beats: 2 });
        ops.push(Op::claim(key, 2, Effects::Transactional));
        ops.push(Op::claim(key, 3, Effects::Transactional));
    }
    ops
}
