//! One step: which script it is, what the script is told, and what its answer means.

use redis::{Cmd, Value};

use super::{
    record::{Told, write_identity},
    script::{Script, Scripts},
};
use crate::error::{Error, Kind};
use hapax_core::{
    Fence, Grant, Invalid, Retention, Timestamp, millis,
    store::{Answer, Claim, Found, Ruling, Step, bounded_note},
};

/// The script of `step` and its call on `key`.
pub(super) fn call<'a>(
    scripts: &'a Scripts,
    key: &str,
    step: &Step,
) -> Result<(&'a Script, Cmd), Error> {
    let (script, call) = match step {
        Step::Claim(claim) => (&scripts.claim, claim_of(&scripts.claim, key, claim)),
        Step::Renew { fence, lease } => {
            let mut call = fenced(&scripts.renew, key, fence, 20);
            call.arg(millis(*lease));
            (&scripts.renew, call)
        }
        Step::Checkpoint { fence, point } => {
            let mut call = fenced(&scripts.checkpoint, key, fence, point.len());
            call.arg(&point[..]);
            (&scripts.checkpoint, call)
        }
        Step::Complete { fence, outcome, retention } => {
            let outcome = outcome.to_stored();
            let mut call = fenced(&scripts.complete, key, fence, outcome.len() + 40);
            call.arg(&outcome[..]);
            retain(&mut call, *retention);
            (&scripts.complete, call)
        }
        Step::Doubt { fence, why } => {
            let note = bounded_note(why);
            let mut call = fenced(&scripts.doubt, key, fence, note.len());
            call.arg(note);
            (&scripts.doubt, call)
        }
        Step::Release { fence, memory } => {
            let mut call = fenced(&scripts.release, key, fence, 20);
            call.arg(millis(*memory));
            (&scripts.release, call)
        }
        Step::Settle { id, seen, nonce, ruling, by, reason } => {
            let judge = Fence { id: *id, epoch: *seen, nonce: *nonce };
            let mut call = fenced(&scripts.settle, key, &judge, 512);
            call.arg(by.as_str()).arg(bounded_note(reason));
            rule(&mut call, ruling);
            (&scripts.settle, call)
        }
        _ => return Err(Error::new(Kind::Invalid, "take a step that this build does not know")),
    };
    Ok((script, call))
}

fn claim_of(script: &Script, key: &str, claim: &Claim) -> Cmd {
    let identity = write_identity(&claim.identity);
    let prints = claim.prints.to_stored();
    let bytes = identity.len() + prints.len() + claim.caller.as_str().len() + 128;
    let terms = claim.effect.terms(Timestamp::from_millis(0));
    let mut call = script.on(key, 9, bytes);
    call.arg(&claim.nonce.as_bytes()[..]).arg(&prints[..]).arg(millis(claim.lease));
    call.arg(terms.class.to_stored());
    maybe(&mut call, terms.retake_after.map(millis));
    // Counted from the first attempt, whenever that was.
    maybe(&mut call, terms.retake_until.map(Timestamp::as_millis));
    call.arg(claim.attempts_max).arg(claim.caller.as_str()).arg(identity);
    call
}

fn fenced(script: &Script, key: &str, fence: &Fence, bytes: usize) -> Cmd {
    let mut call = script.on(key, 8, bytes + 36);
    call.arg(fence.epoch.get()).arg(&fence.nonce.as_bytes()[..]);
    call
}

fn rule(call: &mut Cmd, ruling: &Ruling) {
    match ruling {
        Ruling::Completed { outcome, retention } => {
            call.arg("completed").arg(&outcome.to_stored()[..]);
            retain(call, *retention);
        }
        Ruling::NothingHappened { memory } => {
            call.arg("nothing").arg("").arg("").arg(millis(*memory));
        }
    }
}

fn retain(call: &mut Cmd, retention: Retention) {
    maybe(call, retention.keep.map(millis));
    call.arg(millis(retention.grace));
}

fn maybe(call: &mut Cmd, value: Option<i64>) {
    match value {
        Some(value) => call.arg(value),
        None => call.arg(""),
    };
}

/// What a script's answer means. `true`: the record has changed.
pub(super) fn answer(step: &Step, told: Value) -> Result<(Answer, bool), Invalid> {
    let mut told = Told::new(told)?;
    let word = told.bytes()?;
    let now = told.time()?;
    match &word[..] {
        b"granted" => {
            let (epoch, attempt, since) = (told.epoch()?, told.attempt()?, told.time()?);
            let (class, checkpoint) = (told.class()?, told.maybe_bytes()?);
            let grant = Grant { epoch, now, attempt, since, class, checkpoint };
            Ok((Answer::Granted(grant), true))
        }
        b"applied" => Ok((Answer::Applied { epoch: told.epoch()?, now }, true)),
        b"found" => Ok((repeated(step, told.found(now)?), false)),
        _ => Err(Invalid::new("answer of a script", "is none of those that it gives")),
    }
}

/// The answer to a step that changed nothing: either it had happened before, or it may not.
///
/// The pure rule knows which; what it would still change is for another try.
fn repeated(step: &Step, found: Found) -> Answer {
    let (record, entry, answer) = hapax_core::store::apply(found.record.clone(), step, found.now);
    if record == found.record && entry.is_none() { answer } else { Answer::Found(found) }
}
