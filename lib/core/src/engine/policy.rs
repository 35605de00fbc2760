//! What an operation declares about itself, once, at start-up.

use std::time::Duration;

use crate::{
    invalid::Invalid,
    outcome::OUTCOME_BYTES_MAX,
    record::{Effect, Retention},
    rest::LEASE_MIN,
    store::{Capabilities, Durability},
};

/// A claim lives this long without a renewal: longer than a pause of the machine, shorter than
/// the patience of whoever retries.
pub const LEASE: Duration = Duration::from_secs(15);
/// A day covers the longest retry of the callers we know (Alipay sends for 24 h 24 m, but by
/// channel keys, which are kept for a week).
pub const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Attempts that may die before a person has to look.
pub const ATTEMPTS_MAX: u32 = 5;

/// Longest lease: a dead holder blocks its key for this long.
const LEASE_MAX: Duration = Duration::from_secs(60 * 60);

/// How an operation wants to be guarded.
///
/// ```
/// use std::time::Duration;
/// use hapax_core::{Busy, Effect, Policy};
///
/// // The default: a lease of 15 s, answers kept for a day, a busy key is refused at once.
/// let plain = Policy::new(Effect::Transactional);
///
/// // A payment: business keys never expire, a repeat waits for the first one.
/// let payment = Policy::new(Effect::Keyed { window: Duration::from_secs(86_400) })
///     .forever()
///     .busy(Busy::Wait(Duration::from_secs(1)));
/// # let _ = (plain, payment);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Policy {
    pub(crate) effect: Effect,
    pub(crate) lease: Duration,
    pub(crate) retention: Retention,
    pub(crate) busy: Busy,
    pub(crate) attempts_max: u32,
    pub(crate) redelivery: Duration,
    pub(crate) durability: Durability,
    pub(crate) outcome_bytes_max: usize,
    pub(crate) formerly: Vec<&'static str>,
}

/// What a repeat gets while the first one runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// "Somebody works on it", at once.
    Refuse,
    /// The first one's answer if it comes within this time, else "somebody works on it".
    Wait(Duration),
}

impl Policy {
    /// The defaults for an operation whose effect is of this class.
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            lease: LEASE,
            retention: Retention { keep: Some(KEEP), grace: KEEP },
            busy: Busy::Refuse,
            attempts_max: ATTEMPTS_MAX,
            redelivery: KEEP,
            durability: Durability::Process,
            outcome_bytes_max: OUTCOME_BYTES_MAX,
            formerly: Vec::new(),
        }
    }

    /// How long an attempt lives without a renewal; it is renewed at one third.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How long an outcome is replayed, and how long after that a repeat is refused as expired
    /// before the key may run again.
    pub fn retain(self, keep: Duration, grace: Duration) -> Self {
        Self { retention: Retention { keep: Some(keep), grace }, ..self }
    }

    /// Outcomes are replayed for ever: the rule for business keys.
    pub fn forever(self) -> Self {
        Self { retention: Retention::FOREVER, ..self }
    }

    /// What a repeat gets while the first one runs.
    pub fn busy(self, busy: Busy) -> Self {
        Self { busy, ..self }
    }

    /// After this many attempts that died, the operation is held for a person.
    pub fn attempts_max(self, attempts_max: u32) -> Self {
        Self { attempts_max, ..self }
    }

    /// The longest time over which any caller may send the same key again. Declaring an operation
    /// that keeps its outcomes for a shorter time is refused.
    pub fn redelivery(self, redelivery: Duration) -> Self {
        Self { redelivery, ..self }
    }

    /// What the store must survive. Declaring the operation on a lesser store is refused.
    pub fn needs(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Answers above this size leave a tombstone with a reference.
    pub fn outcome_bytes_max(self, outcome_bytes_max: usize) -> Self {
        Self { outcome_bytes_max, ..self }
    }

    /// Names that the operation had before it was renamed, oldest first. Records stay under the
    /// oldest one.
    pub fn formerly(self, names: &[&'static str]) -> Self {
        Self { formerly: names.to_vec(), ..self }
    }

    /// Refuses a policy that cannot hold on a store like this.
    pub(crate) fn check(&self, store: &Capabilities) -> Result<(), Invalid> {
        let refuse = |rule| Err(Invalid::new("policy", rule));
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            return refuse("has a lease that is not between 30 ms and 1 h");
        }
        if self.retention.keep.is_some_and(|keep| keep < self.redelivery) {
            return refuse(
                "keeps outcomes for a shorter time than callers may send again; \
                 raise `retain` or lower `redelivery`",
            );
        }
        if self.attempts_max == 0 {
            return refuse("allows no attempt; set `attempts_max` to 1 or more");
        }
        if store.durability < self.durability {
            return refuse("needs a store that survives more than this one");
        }
        Ok(())
    }
}
