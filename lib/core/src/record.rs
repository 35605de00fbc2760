//! The record of one operation and the terms under which it may be taken over.
//!
//! Invariant: a completed record never changes until it may be reused, and an epoch never falls
//! (`a_completed_record_never_changes` and `epochs_only_rise` in the contract suite).

use std::{cmp, fmt, time::Duration};

use bytes::Bytes;

use crate::{
    fingerprint::Prints,
    id::{Actor, Id, Identity},
    invalid::Invalid,
    outcome::Outcome,
    time::{Timestamp, millis},
};

/// The fence: rises with every attempt and every settlement.
///
/// It is `max(previous + 1, store_now)`, so it also survives a purge and the loss of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(i64);

impl Epoch {
    /// The epoch that follows `previous` at the store's `now`.
    pub fn after(previous: Option<Self>, now: Timestamp) -> Self {
        let floor = previous.map_or(i64::MIN, |epoch| epoch.0.saturating_add(1));
        Self(cmp::max(floor, now.as_millis()))
    }

    /// From when on a record of this epoch may count as absent, if `planned` is when it should.
    ///
    /// No sooner than the clock has passed the epoch: an absent record gives the store's now as
    /// the next epoch, and that must be the higher one.
    #[must_use]
    pub fn reusable_from(self, planned: Timestamp) -> Timestamp {
        cmp::max(planned, Timestamp::from_millis(self.0.saturating_add(1)))
    }

    /// Reads an epoch that a store kept.
    pub const fn from_stored(value: i64) -> Self {
        Self(value)
    }

    /// The number as a store keeps it, and as downstream receivers compare it.
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// Sixteen random bytes of one attempt: they make each step idempotent under a lost answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// A nonce from bytes that are random, or that a store kept.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes as a store keeps them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, ..] = self.0;
        write!(f, "Nonce({first:02x}{second:02x}..)")
    }
}

/// Proof of ownership: names the very attempt that every conditional write is tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The record.
    pub id: Id,
    /// The attempt's epoch.
    pub epoch: Epoch,
    /// The attempt's nonce.
    pub nonce: Nonce,
}

/// What is stored of an operation's progress. `Expired` is computed and never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a new state must break every match on states")]
pub enum State {
    /// An attempt owns the work; alive while its lease lasts.
    Claimed,
    /// Done; the outcome is kept until the retention is over.
    Completed,
    /// The holder itself says that it does not know whether the effect happened.
    Unknown,
    /// Given back: surely no effect. Free for every other attempt.
    Open,
}

/// How strictly an interrupted attempt must be treated, laxest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a new class must break every match on classes")]
pub enum Class {
    /// Effect and completion commit in one database transaction.
    Transactional,
    /// The receiver dedupes by a key that we derive.
    Keyed,
    /// The receiver can be asked and the old attempt sealed.
    Queryable,
    /// None of these: at most once.
    Opaque,
}

/// The declared class of an operation's effect, with its bound. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "these four are the whole guarantee")]
pub enum Effect {
    /// Effect and completion commit in one database transaction: exactly once.
    Transactional,
    /// The receiver dedupes for `window` by our stable key, with frozen request bytes:
    /// effectively once. Repeats stop a margin before the window ends.
    Keyed {
        /// How long the receiver remembers a key.
        window: Duration,
    },
    /// The receiver can be asked, and the old attempt sealed: effectively once.
    Queryable {
        /// How long a dead attempt is left alone before the receiver is asked.
        quiet: Duration,
    },
    /// None of these: at most once. An interrupted attempt is held for a person.
    Opaque,
}

/// Repeats of a keyed effect stop this long before the receiver forgets: our first claim is
/// earlier than its first receipt, but the two clocks are not one.
const WINDOW_MARGIN_MAX: Duration = Duration::from_secs(300);

impl Effect {
    /// The class without its bound.
    pub fn class(self) -> Class {
        match self {
            Self::Transactional => Class::Transactional,
            Self::Keyed { .. } => Class::Keyed,
            Self::Queryable { .. } => Class::Queryable,
            Self::Opaque => Class::Opaque,
        }
    }

    /// The terms of a claim whose first attempt began at `since`.
    pub fn terms(self, since: Timestamp) -> Terms {
        let (after, window) = match self {
            Self::Transactional => (Some(Duration::ZERO), None),
            Self::Keyed { window } => {
                let margin = cmp::min(window / 10, WINDOW_MARGIN_MAX);
                (Some(Duration::ZERO), Some(window - margin))
            }
            Self::Queryable { quiet } => (Some(kept(quiet)), None),
            Self::Opaque => (None, None),
        };
        Terms {
            class: self.class(),
            retake_after: after,
            retake_until: window.map(|window| since.plus(window)),
        }
    }
}

/// A span as stores keep it.
fn kept(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(millis(span)).unwrap_or_default())
}

/// When a dead attempt may be taken over; kept in the row, so that a deploy cannot change what a
/// claim meant when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The class at the claim, or a stricter one that came later.
    pub class: Class,
    /// How long after the lease a dead attempt may be taken over; `None` is never.
    pub retake_after: Option<Duration>,
    /// From this moment on it may not be taken over any more; `None` is no limit.
    pub retake_until: Option<Timestamp>,
}

impl Terms {
    /// The stricter of two terms in every respect.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let until = [self.retake_until, other.retake_until].into_iter().flatten().min();
        Self {
            class: cmp::max(self.class, other.class),
            retake_after: self
                .retake_after
                .zip(other.retake_after)
                .map(|(mine, theirs)| cmp::max(mine, theirs)),
            retake_until: until,
        }
    }
}

/// How long a completed record answers repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retention {
    /// How long the outcome is replayed; `None` is for ever.
    pub keep: Option<Duration>,
    /// How long after that a repeat is refused as expired before the key may run again.
    pub grace: Duration,
}

impl Retention {
    /// For ever: the rule for business keys.
    pub const FOREVER: Self = Self { keep: None, grace: Duration::ZERO };

    /// When the outcome stops being replayed.
    pub fn expires_at(self, now: Timestamp) -> Option<Timestamp> {
        self.keep.map(|keep| now.plus(keep))
    }

    /// When the key may run again and the record may be purged.
    pub fn reuse_at(self, now: Timestamp) -> Option<Timestamp> {
        self.expires_at(now).map(|expiry| expiry.plus(self.grace))
    }
}

/// One record, as every store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose business it is and what is done, in readable parts.
    pub identity: Identity,
    /// The terms of take-over.
    pub terms: Terms,
    /// Progress.
    pub state: State,
    /// The current attempt's fence.
    pub epoch: Epoch,
    /// The current attempt's nonce.
    pub nonce: Nonce,
    /// What was asked; empty when nothing is compared.
    pub prints: Prints,
    /// The end of the current lease; of no meaning once completed or open.
    pub lease_until: Timestamp,
    /// When the outcome stops being replayed.
    pub expires_at: Option<Timestamp>,
    /// From this moment on the record counts as absent, whether it was purged or not.
    pub reuse_at: Option<Timestamp>,
    /// The recovery point of an unfinished operation.
    pub checkpoint: Option<Bytes>,
    /// The answer of a completed operation.
    pub outcome: Option<Outcome>,
    /// Attempts so far that were neither released nor completed, this one included.
    pub attempts: u32,
    /// Who made the current attempt.
    pub caller: Actor,
    /// When the first of these attempts began.
    pub created_at: Timestamp,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
}

impl Record {
    /// Whether the record counts as absent: every store claims and purges by this one rule.
    pub fn is_reusable(&self, now: Timestamp) -> bool {
        self.reuse_at.is_some_and(|reuse_at| reuse_at <= now)
    }

    /// Whether `fence` names the current attempt.
    pub fn is_held_by(&self, fence: &Fence) -> bool {
        self.epoch == fence.epoch && self.nonce == fence.nonce
    }

    /// What an operator sees at `now`.
    pub fn status(&self, now: Timestamp) -> Status {
        match self.state {
            State::Claimed if self.lease_until > now => Status::Running,
            State::Claimed => Status::Abandoned,
            State::Unknown => Status::Unknown,
            State::Open => Status::Open,
            State::Completed if self.expires_at.is_some_and(|at| at <= now) => Status::Expired,
            State::Completed => Status::Completed,
        }
    }
}

/// A record's state as it stands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a new status must break every match on statuses")]
pub enum Status {
    /// Somebody works on it.
    Running,
    /// The lease ended without a word from its holder.
    Abandoned,
    /// The holder says that it does not know.
    Unknown,
    /// Given back without effect.
    Open,
    /// Done; repeats are answered.
    Completed,
    /// Done, and the retention is over; repeats are refused.
    Expired,
}

impl Status {
    /// The stable word for the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
            Self::Open => "open",
            Self::Completed => "completed",
            Self::Expired => "expired",
        }
    }
}

macro_rules! stored {
    ($name:ident, $what:literal, $($variant:ident = $code:literal),+) => {
        impl $name {
            /// The number that stores keep.
            pub const fn to_stored(self) -> u8 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// Reads the number that a store kept.
            ///
            /// # Errors
            /// [`Invalid`] if a newer version wrote it.
            pub fn from_stored(code: u8) -> Result<Self, Invalid> {
                match code {
                    $($code => Ok(Self::$variant),)+
                    _ => Err(Invalid::new($what, "was written by a newer version; upgrade")),
                }
            }
        }
    };
}

stored!(State, "stored state", Claimed = 1, Completed = 2, Unknown = 3, Open = 4);
stored!(Class, "stored class", Transactional = 1, Keyed = 2, Queryable = 3, Opaque = 4);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn an_epoch_never_falls_when_the_clock_does() {
        let first = Epoch::after(None, NOW);
        let second = Epoch::after(Some(first), Timestamp::from_millis(5));
        assert!(second > first);
    }

    #[test]
    fn the_stricter_terms_win_in_every_respect() {
        let keyed = Effect::Keyed { window: Duration::from_secs(100) }.terms(NOW);
        let queryable = Effect::Queryable { quiet: Duration::from_secs(7) }.terms(NOW);
        let both = keyed.stricter(queryable);
        assert_eq!(both, queryable.stricter(keyed));
        assert_eq!(both.class, Class::Queryable);
        assert_eq!(both.retake_after, Some(Duration::from_secs(7)));
        assert_eq!(both.retake_until, Some(NOW.plus(Duration::from_secs(90))));
        assert_eq!(both.stricter(Effect::Opaque.terms(NOW)).retake_after, None);
    }

    #[test]
    fn stored_numbers_come_back_as_they_went() {
        for state in [State::Claimed, State::Completed, State::Unknown, State::Open] {
            assert_eq!(State::from_stored(state.to_stored()), Ok(state));
        }
        for class in [Class::Transactional, Class::Keyed, Class::Queryable, Class::Opaque] {
            assert_eq!(Class::from_stored(class.to_stored()), Ok(class));
        }
        assert!(State::from_stored(9).is_err() && Class::from_stored(0).is_err());
    }
}
