//! The rule. `decide` is pure and the only place that says what a claim may do.
//!
//! Invariant: the answer depends on the record, the claim and the store's clock, and on nothing
//! else; in particular not on whether a sweeper ran (`a_purge_is_unobservable` in the contract
//! suite).

use std::time::Duration;

use bytes::Bytes;

use crate::{
    outcome::Outcome,
    record::{Class, Epoch, Record, State},
    store::{Claim, Found},
    time::Timestamp,
};

/// A busy record with no better estimate is worth another look after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a claim may do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "these are the moves; a new one must break callers")]
pub enum Decision {
    /// The claim owns the work.
    Run(Grant),
    /// The claim owns a dead attempt of a queryable effect: ask, seal, then settle or run.
    Verify(Grant),
    /// Done: the stored answer.
    Replay(Outcome),
    /// Somebody works on it.
    Busy {
        /// When another look is worth it.
        retry_after: Duration,
    },
    /// Same key, something else asked.
    Mismatch,
    /// Nobody may run it: waits for the reconciler or a person.
    Held,
    /// Done once; the answer is no longer kept and the key may not run yet.
    Expired,
    /// This very attempt has already spoken its last word: a late copy of its packet.
    Spent,
}

/// Ownership of the work, as a store hands it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fence of this attempt.
    pub epoch: Epoch,
    /// The store's time of the grant.
    pub now: Timestamp,
    /// 1 for a first attempt; more when earlier ones were abandoned.
    pub attempt: u32,
    /// When the first of these attempts began.
    pub since: Timestamp,
    /// The class that governs this attempt.
    pub class: Class,
    /// The recovery point that an earlier attempt left.
    pub checkpoint: Option<Bytes>,
}

impl Grant {
    /// Whether the receiver must be asked before anything is done.
    pub fn must_verify(&self) -> bool {
        self.attempt > 1 && self.class == Class::Queryable
    }

    fn first(previous: Option<&Record>, claim: &Claim, now: Timestamp) -> Self {
        Self {
            epoch: Epoch::after(previous.map(|record| record.epoch), now),
            now,
            attempt: 1,
            since: now,
            class: claim.effect.class(),
            checkpoint: None,
        }
    }

    fn decision(self) -> Decision {
        if self.must_verify() { Decision::Verify(self) } else { Decision::Run(self) }
    }
}

/// Says what `claim` may do about `found`.
///
/// A mismatch wins over a busy record: waiting would not help the caller.
pub fn decide(found: &Found, claim: &Claim) -> Decision {
    let now = found.now;
    let record = match &found.record {
        Some(record) if !record.is_reusable(now) => record,
        reusable => return Decision::Run(Grant::first(reusable.as_deref(), claim, now)),
    };
    if record.nonce == claim.nonce {
        return repeated(record, now);
    }
    if record.state != State::Open && !record.prints.matches(&claim.prints) {
        return Decision::Mismatch;
    }
    match record.state {
        State::Completed => completed(record, now),
        State::Claimed if record.lease_until > now => {
            Decision::Busy { retry_after: record.lease_until.since(now) }
        }
        State::Claimed | State::Unknown => dead(record, claim, now),
        State::Open => Decision::Run(Grant::first(Some(record), claim, now)),
    }
}

/// The same attempt asks again, because an answer was lost or a packet came late.
fn repeated(record: &Record, now: Timestamp) -> Decision {
    match record.state {
        State::Claimed => Grant {
            epoch: record.epoch,
            now,
            attempt: record.attempts,
            since: record.created_at,
            class: record.terms.class,
            checkpoint: record.checkpoint.clone(),
        }
        .decision(),
        State::Completed => completed(record, now),
        State::Unknown | State::Open => Decision::Spent,
    }
}

fn completed(record: &Record, now: Timestamp) -> Decision {
    match &record.outcome {
        _ if record.expires_at.is_some_and(|expiry| expiry <= now) => Decision::Expired,
        Some(outcome) => Decision::Replay(outcome.clone()),
        // A completed record without an outcome is damaged: never run it again, show it.
        None => Decision::Held,
    }
}

/// Nobody works on it any more: the stored class says what may happen, the stricter one wins.
fn dead(record: &Record, claim: &Claim, now: Timestamp) -> Decision {
    let terms = record.terms.stricter(claim.effect.terms(record.created_at));
    let Some(quiet) = terms.retake_after else { return Decision::Held };
    let too_late = terms.retake_until.is_some_and(|until| until <= now);
    if too_late || record.attempts >= claim.attempts_max {
        return Decision::Held;
    }
    let free_at = record.lease_until.plus(quiet);
    if free_at > now {
        return Decision::Busy { retry_after: std::cmp::min(free_at.since(now), LOOK_AGAIN) };
    }
    Grant {
        epoch: Epoch::after(Some(record.epoch), now),
        now,
        attempt: record.attempts.saturating_add(1),
        since: record.created_at,
        class: terms.class,
        checkpoint: record.checkpoint.clone(),
    }
    .decision()
}
