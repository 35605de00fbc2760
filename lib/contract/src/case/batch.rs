//! Many steps in one call.

use std::{sync::Arc, time::Duration};

use crate::{
    stage::{Stage, complete, doubt, granted, happened, nonce, prints, release, settle, value},
    subject::Subject,
};
use hapax_core::{
    Epoch, Fence, Id, Prints, Retention, State,
    store::{Answer, Claim, Step},
};

/// As many steps as [`Coalesce`](hapax_core::store::Coalesce) puts into one call.
const BATCH: usize = 256;
/// How often the work of a dropped call is looked for, and how long in all.
const LOOKS: u32 = 300;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Each answer is the answer to the step in its place.
pub async fn answers_line_up_with_their_steps(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut claims: Vec<Claim> =
        (0..40).map(|serial| stage.claim(&format!("row-{serial}"), serial)).collect();
    claims.sort_by_key(|claim| claim.id);
    let (held, free) = claims.split_at(13);
    for claim in held {
        stage.hold(&Claim { nonce: nonce(200), ..claim.clone() }).await;
    }
    let steps = claims.iter().cloned().map(|claim| Step::Claim(Arc::new(claim))).collect();
    let mut answers = stage.send_all(steps).await.into_iter();
    for (claim, answer) in held.iter().zip(&mut answers) {
        let Answer::Found(found) = answer else { panic!("{:?} is held", claim.identity) };
        let id = found.record.map(|record| record.identity.id());
        assert_eq!(id, Some(claim.id), "each finds its own record");
    }

    let mut ends = Vec::new();
    for (claim, answer) in free.iter().zip(answers) {
        let fence = crate::stage::fence(claim, &granted(answer));
        let record = stage.record(claim.id).await;
        assert_eq!((record.epoch, record.nonce), (fence.epoch, claim.nonce));
        ends.push(complete(fence, claim.identity.key()));
    }
    for answer in stage.send_all(ends).await {
        assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    }
    for claim in free {
        let outcome = stage.record(claim.id).await.outcome;
        assert_eq!(outcome, Some(value(claim.identity.key())));
    }
}

/// A step that is refused, or that a store could choke on, harms no step beside it.
pub async fn a_poisonous_step_harms_only_itself(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let bed = poison_bed(&stage).await;
    let steps: Vec<Step> = bed.iter().map(|(step, _)| step.clone()).collect();
    let answers = stage.send_all(steps).await;

    let mut expected: Vec<(Id, &str)> = bed.iter().map(|(step, end)| (step.id(), *end)).collect();
    expected.sort();
    for ((id, end), answer) in expected.into_iter().zip(answers) {
        let word = match &answer {
            Answer::Granted(_) => "granted",
            Answer::Applied { .. } => "applied",
            Answer::Found(found) => {
                let record = found.record.as_ref().map(|record| record.identity.id());
                assert!(record.is_none_or(|found| found == id), "the record of another step");
                "found"
            }
            Answer::Away(_) | Answer::Unsure(_) => "failed",
        };
        let what = bed.iter().find(|(step, _)| step.id() == id);
        assert_eq!(word, end, "{what:?} said {answer:?}");
    }
}

/// A call may be as large as the coalescing lane makes it.
pub async fn a_full_batch_is_taken(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let rows = std::cmp::min(stage.store().capabilities().batch_max.get(), BATCH);
    let claims = (0..rows).map(|row| stage.claim(&format!("row-{row}"), 1));
    let steps = claims.map(|claim| Step::Claim(Arc::new(claim))).collect();
    for answer in stage.send_all(steps).await {
        granted(answer);
    }
}

/// Nothing asked, nothing answered.
pub async fn an_empty_batch_is_answered_with_nothing(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    assert!(stage.send_all(Vec::new()).await.is_empty());
}

/// The work begins with the call: dropping the future abandons the answer only.
pub async fn a_dropped_call_abandons_only_the_answer(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("dropped", 1)).await;
    drop(stage.store().apply(vec![complete(fence, "nobody waits")]));
    for _ in 0..LOOKS {
        if stage.record(fence.id).await.state == State::Completed {
            return;
        }
        pause().await;
    }
    panic!("the step of a dropped call was not taken");
}

/// A hint that never comes must not be waited for, and one that comes early does no harm.
pub async fn a_hint_is_only_a_hint(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let fence = stage.hold(&stage.claim("hinted", 1)).await;
    let hint = stage.store().changed(fence.id);
    stage.apply(complete(fence, "done")).await;
    // It may come or not: dropping it is enough.
    drop(hint);
    drop(stage.store().changed(stage.claim("absent", 1).id));
    assert_eq!(stage.record(fence.id).await.state, State::Completed);
}

#[expect(clippy::disallowed_methods, reason = "a store on trial has no clock to wait on")]
async fn pause() {
    tokio::time::sleep(LOOK_EVERY).await;
}

/// Steps on distinct records, each with what must become of it.
async fn poison_bed(stage: &Stage<'_>) -> Vec<(Step, &'static str)> {
    let hold = async |key: &str| stage.hold(&stage.claim(key, 1)).await;
    let claim = |key: &str, serial| Step::Claim(Arc::new(stage.claim(key, serial)));
    let mut bed = Vec::new();

    hold("busy").await;
    bed.push((claim("busy", 2), "found"));
    let done = hold("done").await;
    stage.apply(complete(done, "done")).await;
    bed.push((claim("done", 2), "found"));
    let other = Claim { prints: prints("other"), ..stage.claim("mismatch", 2) };
    hold("mismatch").await;
    bed.push((Step::Claim(Arc::new(other)), "found"));
    bed.push((claim("fresh", 1), "granted"));
    hold("again").await;
    bed.push((claim("again", 1), "granted"));
    let blank = Claim { prints: Prints::NONE, ..stage.claim("no-prints", 1) };
    bed.push((Step::Claim(Arc::new(blank)), "granted"));
    let endless = hapax_core::Effect::Queryable { quiet: Duration::MAX };
    let endless = Claim { effect: endless, lease: Duration::MAX, ..stage.claim("endless", 1) };
    stage.hold(&endless).await;
    bed.push((Step::Claim(Arc::new(Claim { nonce: nonce(2), ..endless })), "found"));

    let stale = Fence { epoch: Epoch::from_stored(i64::MIN), ..hold("oldest").await };
    bed.push((complete(stale, "stale"), "found"));
    let future = Fence { epoch: Epoch::from_stored(i64::MAX), ..hold("newest").await };
    bed.push((Step::Renew { fence: future, lease: Duration::MAX }, "found"));
    let absent = Fence { id: stage.claim("absent", 1).id, ..stale };
    bed.push((release(absent, Duration::MAX), "found"));
    let lease = Duration::MAX;
    bed.push((Step::Renew { fence: hold("renewed").await, lease }, "applied"));
    let why = "\0'\"\\\u{7f}🦀".repeat(100);
    bed.push((Step::Doubt { fence: hold("verbose").await, why }, "applied"));
    bed.push((doubt(hold("doubting").await), "applied"));
    bed.push((release(hold("freed").await, Duration::MAX), "applied"));
    let retention = Retention { keep: Some(Duration::MAX), grace: Duration::MAX };
    let outcome = hapax_core::Outcome::Value(vec![0xFF; 65_536].into());
    bed.push((Step::Complete { fence: hold("large").await, outcome, retention }, "applied"));
    let point = bytes::Bytes::from(vec![0; 65_536]);
    bed.push((Step::Checkpoint { fence: hold("point").await, point }, "applied"));
    bed.push((settle(hold("alive").await, 9, happened("too early")), "found"));
    let judged = hold("judged").await;
    stage.apply(doubt(judged)).await;
    bed.push((settle(judged, 9, happened("judged")), "applied"));
    bed.push((settle(absent_twin(stage), 9, happened("nowhere")), "found"));
    bed
}

fn absent_twin(stage: &Stage<'_>) -> Fence {
    let claim = stage.claim("absent-twin", 1);
    Fence { id: claim.id, epoch: Epoch::from_stored(1), nonce: claim.nonce }
}
