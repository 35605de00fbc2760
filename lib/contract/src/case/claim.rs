//! Who gets the work.

use std::sync::Arc;

use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    stage::{Stage, checkpoint, complete, doubt, prints, release},
    subject::Subject,
};
use hapax_core::{
    Decision, Effect, Fingerprint, Prints, Retention, State,
    store::{Answer, Claim, Step},
};

/// Claims that race in one case: more than any store has lanes.
const RACERS: u8 = 64;

/// The record that a first claim leaves holds all that the claim said.
pub async fn a_fresh_claim_is_granted(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let effect = Effect::Keyed { window: stage.beats(10) };
    let claim = Claim { effect, ..stage.claim("fresh", 1) };
    let grant = stage.grant(&claim).await;

    assert_eq!((grant.attempt, grant.since), (1, grant.now));
    assert_eq!((grant.class, grant.checkpoint), (effect.class(), None));
    let record = stage.record(claim.id).await;
    assert_eq!(record.identity, claim.identity);
    assert_eq!(record.state, State::Claimed);
    assert_eq!((record.epoch, record.nonce), (grant.epoch, claim.nonce));
    assert_eq!((record.prints, &record.caller), (claim.prints, &claim.caller));
    assert_eq!(record.lease_until, grant.now.plus(claim.lease));
    assert_eq!(record.terms, effect.terms(grant.now));
    assert_eq!((record.attempts, record.created_at), (1, grant.now));
    assert_eq!((record.checkpoint, record.outcome), (None, None));
    assert_eq!((record.completed_at, record.expires_at, record.reuse_at), (None, None, None));
}

/// A claim whose answer was lost is asked again and is still the same attempt.
pub async fn the_same_nonce_is_granted_again(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("again", 1);
    let first = stage.grant(&claim).await;
    stage.apply(checkpoint(crate::stage::fence(&claim, &first), b"half way")).await;
    let before = stage.record(claim.id).await;

    stage.pass(1).await;
    let again = stage.grant(&claim).await;

    assert_eq!((again.epoch, again.attempt, again.since), (first.epoch, 1, first.since));
    assert_eq!(again.checkpoint.as_deref(), Some(&b"half way"[..]));
    assert_eq!(stage.record(claim.id).await, before, "asking again prolongs nothing");
}

/// A claim whose lease has ended while its answer was on the way is still its own.
pub async fn the_same_nonce_is_granted_again_after_its_lease(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = Claim { effect: Effect::Opaque, ..stage.claim("again", 1) };
    let first = stage.grant(&claim).await;
    stage.pass(3).await;

    assert_eq!(stage.grant(&claim).await.epoch, first.epoch);
}

/// A claim that comes second learns who works on it, and changes nothing.
pub async fn a_second_claim_finds_the_first(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.claim("twice", 1);
    let grant = stage.grant(&first).await;
    let before = stage.record(first.id).await;

    let second = stage.claim("twice", 2);
    match stage.ask(&second).await {
        Decision::Busy { retry_after } => assert!(retry_after <= second.lease),
        decision => panic!("the record is held until {:?}: {decision:?}", grant.now),
    }
    assert_eq!(stage.record(first.id).await, before);
}

/// The same key with another request is told so, while the first runs and when it is done.
pub async fn another_request_is_a_mismatch(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.claim("pay", 1);
    let fence = stage.hold(&first).await;
    let other = Claim { prints: prints("another request"), ..stage.claim("pay", 2) };

    assert_eq!(stage.ask(&other).await, Decision::Mismatch);
    stage.pass(3).await;
    let abandoned = stage.record(first.id).await;
    assert_eq!(stage.ask(&other).await, Decision::Mismatch, "a dead attempt is not stolen");
    assert_eq!(stage.record(first.id).await, abandoned);
    let (completed, _) = stage.apply(complete(fence, "paid")).await;
    assert_eq!(stage.ask(&other).await, Decision::Mismatch);
    assert_eq!(stage.record(first.id).await, completed);
}

/// Who compares nothing, as the completer does, matches every request.
pub async fn a_claim_without_prints_matches_every_request(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.claim("resume", 1);
    stage.hold(&first).await;
    stage.pass(2).await;

    let resume = Claim { prints: Prints::NONE, ..stage.claim("resume", 2) };
    assert_eq!(stage.grant(&resume).await.attempt, 2);
    assert_eq!(stage.record(first.id).await.prints, first.prints, "the request stays known");
}

/// While the rule for prints changes, either version of it recognises a request.
pub async fn either_of_two_prints_is_recognised(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let print = |request| Fingerprint::new().text("request", request).print();
    let both = Prints::new(print("new rule"), Some(print("old rule")));
    let first = Claim { prints: both, ..stage.claim("upgrade", 1) };
    stage.hold(&first).await;
    assert_eq!(stage.record(first.id).await.prints, both);

    stage.pass(2).await;
    for (serial, rule) in [(2, "new rule"), (3, "old rule")] {
        let claim = Claim { prints: prints(rule), ..stage.claim("upgrade", serial) };
        assert_eq!(stage.grant(&claim).await.attempt, u32::from(serial), "{rule}");
        stage.pass(2).await;
    }
    let other = Claim { prints: prints("neither"), ..stage.claim("upgrade", 4) };
    assert_eq!(stage.ask(&other).await, Decision::Mismatch);
}

/// However many claims meet, one gets the work, and the others find it.
pub async fn claims_at_once_give_one_grant(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for round in 0..4 {
        let key = format!("race {round}").replace(' ', "-");
        let answers = race(&stage, (0..RACERS).map(|serial| stage.claim(&key, serial))).await;
        let grants: Vec<_> = winners(&answers);
        assert_eq!(grants.len(), 1, "{key}: {grants:?}");
        for (claim, answer) in &answers {
            let Answer::Found(found) = answer else { continue };
            let holder = found.record.as_ref().map(|record| record.nonce);
            assert_eq!(holder, grants.first().copied(), "{:?} found another holder", claim.nonce);
        }
    }
}

/// Claims on many keys at once do not hinder each other.
pub async fn claims_on_other_keys_are_all_granted(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claims = (0..RACERS).map(|serial| stage.claim(&format!("key-{serial}"), serial));
    let answers = race(&stage, claims).await;
    assert_eq!(winners(&answers).len(), usize::from(RACERS));
}

/// Of those who would take over a dead attempt at once, one gets it.
pub async fn take_overs_at_once_give_one_grant(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let dead = stage.hold(&stage.claim("dead", 200)).await;
    stage.pass(2).await;

    let answers = race(&stage, (0..RACERS).map(|serial| stage.claim("dead", serial))).await;
    assert_eq!(winners(&answers).len(), 1);
    let record = stage.record(dead.id).await;
    assert_eq!(record.attempts, 2);
    assert!(record.epoch > dead.epoch);
}

/// A late completion and a take-over have one winner, and the record is the winner's.
pub async fn a_late_completion_and_a_take_over_have_one_winner(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut fences = Vec::new();
    for serial in 0..32 {
        fences.push(stage.hold(&stage.claim(&format!("late-{serial}"), 1)).await);
    }
    stage.pass(2).await;

    let mut races = JoinSet::new();
    for (serial, fence) in fences.into_iter().enumerate() {
        let take_over = Arc::new(stage.claim(&format!("late-{serial}"), 2));
        let (left, right) = (Arc::clone(stage.store()), Arc::clone(stage.store()));
        races.spawn(async move {
            let completion = left.apply(vec![complete(fence, "late")]);
            let take_over = right.apply(vec![Step::Claim(take_over)]);
            let (mut first, mut second) = futures_util::join!(completion, take_over);
            (fence, first.pop(), second.pop())
        });
    }
    while let Some(race) = races.join_next().await {
        let (fence, completion, take_over) =
            race.unwrap_or_else(|cause| panic!("a racer died: {cause}"));
        let record = stage.record(fence.id).await;
        match (completion, take_over) {
            (Some(Answer::Applied { .. }), Some(Answer::Found(_))) => {
                assert_eq!((record.state, record.epoch), (State::Completed, fence.epoch));
            }
            (Some(Answer::Found(_)), Some(Answer::Granted(grant))) => {
                assert_eq!((record.state, record.epoch), (State::Claimed, grant.epoch));
            }
            both => panic!("one must win: {both:?}"),
        }
    }
}

/// Whatever a late holder still sends does not reach the attempt of its heir.
pub async fn a_late_step_and_a_take_over_do_not_mix(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut holders = Vec::new();
    for serial in 0..32 {
        let key = format!("mix-{serial}");
        holders.push((stage.hold(&stage.claim(&key, 1)).await, stage.claim(&key, 2)));
    }
    stage.pass(2).await;

    let mut races = JoinSet::new();
    for (serial, (fence, heir)) in holders.into_iter().enumerate() {
        let late = match serial % 4 {
            0 => Step::Renew { fence, lease: stage.beats(9) },
            1 => checkpoint(fence, b"late"),
            2 => doubt(fence),
            _ => release(fence, stage.beats(9)),
        };
        let (left, right) = (Arc::clone(stage.store()), Arc::clone(stage.store()));
        races.spawn(async move {
            let late = left.apply(vec![late]);
            let take_over = right.apply(vec![Step::Claim(Arc::new(heir.clone()))]);
            let (late, take_over) = futures_util::join!(late, take_over);
            (heir, late, take_over)
        });
    }
    while let Some(race) = races.join_next().await {
        let (heir, late, take_over) = race.unwrap_or_else(|cause| panic!("a racer died: {cause}"));
        let record = stage.record(heir.id).await;
        match &take_over[..] {
            [Answer::Granted(grant)] => {
                assert_eq!((record.state, record.epoch), (State::Claimed, grant.epoch), "{late:?}");
                assert_eq!(record.lease_until, grant.now.plus(heir.lease), "{late:?}");
                assert_eq!(record.checkpoint, grant.checkpoint, "{late:?}");
            }
            [Answer::Found(_)] => assert!(matches!(late[..], [Answer::Applied { .. }]), "{late:?}"),
            other => panic!("it is granted or not: {other:?}"),
        }
    }
}

/// A take-over leaves the request, its age and its label as they were; the attempt is new.
pub async fn a_take_over_keeps_the_request(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = stage.claim("kept", 1);
    let old = stage.grant(&first).await;
    stage.pass(3).await;
    let second = Claim { lease: stage.beats(4), ..stage.claim("kept", 2) };
    let new = stage.grant(&second).await;

    assert!(new.epoch > old.epoch && new.now > old.now);
    assert_eq!((new.attempt, new.since), (2, old.since));
    let record = stage.record(first.id).await;
    assert_eq!((record.created_at, record.attempts), (old.since, 2));
    assert_eq!((record.identity, record.prints), (first.identity, first.prints));
    assert_eq!((record.nonce, record.caller), (second.nonce, second.caller));
    assert_eq!(record.lease_until, new.now.plus(second.lease));
    let both = first.effect.terms(old.since).stricter(second.effect.terms(old.since));
    assert_eq!(record.terms, both);
}

/// A repeat of a finished operation gets its outcome.
pub async fn a_repeat_finds_the_outcome(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("done", 1);
    let fence = stage.hold(&claim).await;
    let retention = Retention { keep: Some(stage.beats(10)), grace: stage.beats(5) };
    let outcome = crate::stage::value("the answer");
    let step = Step::Complete { fence, outcome: outcome.clone(), retention };
    let (record, now) = stage.apply(step).await;

    assert_eq!((record.state, record.completed_at), (State::Completed, Some(now)));
    assert_eq!(record.expires_at, Some(now.plus(stage.beats(10))));
    assert_eq!(record.reuse_at, Some(now.plus(stage.beats(15))));
    for serial in [1, 2] {
        let repeat = stage.claim("done", serial);
        assert_eq!(stage.ask(&repeat).await, Decision::Replay(outcome.clone()));
    }
    assert_eq!(stage.record(claim.id).await, record);
}

/// Sends claims from tasks of their own that all begin at the same moment.
async fn race(stage: &Stage<'_>, claims: impl Iterator<Item = Claim>) -> Vec<(Claim, Answer)> {
    let claims: Vec<_> = claims.collect();
    let start = Arc::new(Barrier::new(claims.len()));
    let mut racers = JoinSet::new();
    for claim in claims {
        let (store, start) = (Arc::clone(stage.store()), Arc::clone(&start));
        racers.spawn(async move {
            start.wait().await;
            let mut answers = store.apply(vec![Step::Claim(Arc::new(claim.clone()))]).await;
            (claim, answers.remove(0))
        });
    }
    racers.join_all().await
}

fn winners(answers: &[(Claim, Answer)]) -> Vec<hapax_core::Nonce> {
    let granted = answers.iter().filter(|(_, answer)| matches!(answer, Answer::Granted(_)));
    granted.map(|(claim, _)| claim.nonce).collect()
}
