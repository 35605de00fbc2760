//! What each step does to a record, as pure code.
//!
//! Invariant: every write that ends something is tied to the attempt's epoch and nonce and looks
//! at no clock: a lapsed lease permits a take-over, it does not revoke
//! (`a_late_holder_completes_if_nobody_took_over` in the contract suite).

use std::sync::Arc;

use super::{Answer, Claim, Entry, Event, Found, Ruling, Step};
use crate::{
    decide::{Decision, Grant, decide},
    id::Actor,
    outcome::Outcome,
    record::{Epoch, Fence, Record, Retention, State},
    time::Timestamp,
};

/// The longest reason that is kept, in bytes.
const NOTE_BYTES_MAX: usize = 255;

/// Takes `step` on `record` at `now`: the record it leaves, the journal line, and the answer.
pub fn apply(
    record: Option<Arc<Record>>,
    step: &Step,
    now: Timestamp,
) -> (Option<Arc<Record>>, Option<Entry>, Answer) {
    match step {
        Step::Claim(claim) => take(record, claim, now),
        Step::Settle { seen, ruling, .. } => match record {
            Some(record) if is_settled_by(&record, step, now) => applied(record, None, now),
            Some(record) if may_settle(&record, *seen, now) => settle(record, ruling, step, now),
            record => found(record, now),
        },
        Step::Renew { fence, .. }
        | Step::Checkpoint { fence, .. }
        | Step::Complete { fence, .. }
        | Step::Doubt { fence, .. }
        | Step::Release { fence, .. } => match record {
            Some(record) if is_owned(&record, fence, now) => end(record, step, now),
            record => found(record, now),
        },
    }
}

type Taken = (Option<Arc<Record>>, Option<Entry>, Answer);

fn found(record: Option<Arc<Record>>, now: Timestamp) -> Taken {
    (record.clone(), None, Answer::Found(Found { record, now }))
}

fn applied(record: Arc<Record>, entry: Option<Entry>, now: Timestamp) -> Taken {
    let epoch = record.epoch;
    (Some(record), entry, Answer::Applied { epoch, now })
}

fn entry(record: &Record, event: Event, actor: &Actor, note: &str, now: Timestamp) -> Entry {
    Entry { at: now, epoch: record.epoch, event, actor: actor.clone(), note: bounded_note(note) }
}

/// A reason as a journal keeps it: its first 255 bytes, cut between two letters. NUL is left out,
/// since not every database keeps it in a text.
pub fn bounded_note(reason: &str) -> String {
    let kept = reason.chars().filter(|letter| *letter != '\0').scan(0, |bytes, letter| {
        *bytes += letter.len_utf8();
        (*bytes <= NOTE_BYTES_MAX).then_some(letter)
    });
    kept.collect()
}

fn take(record: Option<Arc<Record>>, claim: &Claim, now: Timestamp) -> Taken {
    let seen = Found { record, now };
    let (Decision::Run(grant) | Decision::Verify(grant)) = decide(&seen, claim) else {
        return (seen.record.clone(), None, Answer::Found(seen));
    };
    let repeated = |record: &Record| {
        record.nonce == claim.nonce && record.state == State::Claimed && !record.is_reusable(now)
    };
    if seen.record.as_deref().is_some_and(repeated) {
        return (seen.record, None, Answer::Granted(grant));
    }
    let claimed = match seen.record {
        Some(record) if grant.attempt > 1 => retake(Arc::unwrap_or_clone(record), claim, &grant),
        _ => granted(claim, &grant),
    };
    let event = if grant.attempt > 1 { Event::Retaken } else { Event::Claimed };
    let line = entry(&claimed, event, &claim.caller, "", now);
    (Some(Arc::new(claimed)), Some(line), Answer::Granted(grant))
}

/// The record that a granted claim leaves where there was none.
pub(crate) fn granted(claim: &Claim, grant: &Grant) -> Record {
    Record {
        identity: claim.identity.clone(),
        terms: claim.effect.terms(grant.since),
        state: State::Claimed,
        epoch: grant.epoch,
        nonce: claim.nonce,
        prints: claim.prints,
        lease_until: grant.now.plus(claim.lease),
        expires_at: None,
        reuse_at: None,
        checkpoint: grant.checkpoint.clone(),
        outcome: None,
        attempts: grant.attempt,
        caller: claim.caller.clone(),
        created_at: grant.since,
        completed_at: None,
    }
}

fn retake(record: Record, claim: &Claim, grant: &Grant) -> Record {
    Record {
        terms: record.terms.stricter(claim.effect.terms(record.created_at)),
        state: State::Claimed,
        epoch: grant.epoch,
        nonce: claim.nonce,
        lease_until: grant.now.plus(claim.lease),
        attempts: grant.attempt,
        caller: claim.caller.clone(),
        ..record
    }
}

/// A record that counts as absent has no owner, whether it was purged or not.
fn is_owned(record: &Record, fence: &Fence, now: Timestamp) -> bool {
    record.is_held_by(fence) && !record.is_reusable(now)
}

/// A step of the current attempt. Each is legal from the states in which it still means
/// something, and is a repeat in the state that it leaves.
fn end(mut shared: Arc<Record>, step: &Step, now: Timestamp) -> Taken {
    let record = Arc::make_mut(&mut shared);
    match (step, record.state) {
        (Step::Renew { lease, .. }, State::Claimed) => {
            record.lease_until = now.plus(*lease);
            applied(shared, None, now)
        }
        (Step::Checkpoint { point, .. }, State::Claimed) => {
            record.checkpoint = Some(point.clone());
            applied(shared, None, now)
        }
        (Step::Complete { outcome, retention, .. }, State::Claimed | State::Unknown) => {
            complete(record, outcome, *retention, now);
            let line = entry(record, Event::Completed, &record.caller, "", now);
            applied(shared, Some(line), now)
        }
        (Step::Doubt { why, .. }, State::Claimed) => {
            record.state = State::Unknown;
            record.lease_until = now;
            let line = entry(record, Event::Doubted, &record.caller, why, now);
            applied(shared, Some(line), now)
        }
        (Step::Release { memory, .. }, State::Claimed | State::Unknown) => {
            let line = entry(record, Event::Released, &record.caller, "", now);
            open(record, now.plus(*memory));
            applied(shared, Some(line), now)
        }
        (Step::Complete { .. }, State::Completed)
        | (Step::Doubt { .. }, State::Unknown)
        | (Step::Release { .. }, State::Open) => applied(shared, None, now),
        _ => found(Some(shared), now),
    }
}

/// Closes the record with its answer.
pub(crate) fn complete(
    record: &mut Record,
    outcome: &Outcome,
    retention: Retention,
    now: Timestamp,
) {
    record.state = State::Completed;
    record.outcome = Some(outcome.clone());
    record.checkpoint = None;
    record.completed_at = Some(now);
    record.expires_at = retention.expires_at(now);
    record.reuse_at = retention.reuse_at(now).map(|planned| record.epoch.reusable_from(planned));
}

/// Surely no effect: the request is forgotten, so that a corrected one may come with the same
/// key; nonce and epoch stay, so that a late packet of this attempt is refused.
fn open(record: &mut Record, planned: Timestamp) {
    record.state = State::Open;
    record.prints = crate::fingerprint::Prints::NONE;
    record.checkpoint = None;
    record.reuse_at = Some(record.epoch.reusable_from(planned));
}

/// A record that counts as absent was settled by nobody, whether it was purged or not.
fn is_settled_by(record: &Record, step: &Step, now: Timestamp) -> bool {
    matches!(step, Step::Settle { nonce, .. } if record.nonce == *nonce)
        && record.state != State::Claimed
        && !record.is_reusable(now)
}

/// Only an attempt that is surely over may be judged: its lease and its quiet time have passed.
fn may_settle(record: &Record, seen: Epoch, now: Timestamp) -> bool {
    let quiet = record.terms.retake_after.unwrap_or_default();
    record.epoch == seen
        && match record.state {
            State::Claimed | State::Unknown => record.lease_until.plus(quiet) <= now,
            State::Completed | State::Open => false,
        }
}

fn settle(mut shared: Arc<Record>, ruling: &Ruling, step: &Step, now: Timestamp) -> Taken {
    let Step::Settle { nonce, by, reason, .. } = step else { return found(Some(shared), now) };
    let record = Arc::make_mut(&mut shared);
    record.epoch = Epoch::after(Some(record.epoch), now);
    record.nonce = *nonce;
    match ruling {
        Ruling::Completed { outcome, retention } => {
            complete(record, outcome, *retention, now);
        }
        Ruling::NothingHappened { memory } => open(record, now.plus(*memory)),
    }
    let line = entry(record, Event::Settled, by, reason, now);
    applied(shared, Some(line), now)
}
