//! The steps that change a record, and what a store says about them.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;

use super::Fault;
use crate::{
    decide::Grant,
    fingerprint::Prints,
    id::{Actor, Id, Identity, OperationName},
    outcome::Outcome,
    record::{Effect, Epoch, Fence, Nonce, Record, Retention, Status},
    time::Timestamp,
};

/// Everything that an attempt brings along to claim a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The record.
    pub id: Id,
    /// Its readable parts.
    pub identity: Identity,
    /// This attempt's nonce; the same one when an answer was lost.
    pub nonce: Nonce,
    /// What is asked.
    pub prints: Prints,
    /// How long the attempt lives without a renewal.
    pub lease: Duration,
    /// The declared class of the effect.
    pub effect: Effect,
    /// The attempt after this many is held instead of run.
    pub attempts_max: u32,
    /// Who asks.
    pub caller: Actor,
}

/// One atomic change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Takes the work if nobody has it, or if its holder is dead and the terms allow it.
    Claim(Arc<Claim>),
    /// Makes the lease end `lease` from the store's now; zero gives the work back for take-over.
    Renew {
        /// The attempt.
        fence: Fence,
        /// From now on.
        lease: Duration,
    },
    /// Keeps a recovery point: progress, a frozen request, child keys.
    Checkpoint {
        /// The attempt.
        fence: Fence,
        /// Read by the next attempt only.
        point: Bytes,
    },
    /// Stores the outcome and closes the record.
    Complete {
        /// The attempt.
        fence: Fence,
        /// The answer.
        outcome: Outcome,
        /// How long it answers repeats.
        retention: Retention,
    },
    /// The holder says that it does not know whether the effect happened.
    Doubt {
        /// The attempt.
        fence: Fence,
        /// Why, for the operator; at most 255 bytes are kept.
        why: String,
    },
    /// Surely no effect: forgets the request, keeps nonce and epoch.
    Release {
        /// The attempt.
        fence: Fence,
        /// How long a late packet of this attempt is remembered and refused.
        memory: Duration,
    },
    /// A verifier or a person decides what an unresolved attempt did.
    Settle {
        /// The record.
        id: Id,
        /// The epoch that the judge saw; a newer one makes the ruling void.
        seen: Epoch,
        /// Makes the ruling idempotent under a lost answer.
        nonce: Nonce,
        /// What happened.
        ruling: Ruling,
        /// Who says so.
        by: Actor,
        /// Why; at most 255 bytes are kept.
        reason: String,
    },
}

impl Step {
    /// The record that the step is about.
    pub fn id(&self) -> Id {
        match self {
            Self::Claim(claim) => claim.id,
            Self::Renew { fence, .. }
            | Self::Checkpoint { fence, .. }
            | Self::Complete { fence, .. }
            | Self::Doubt { fence, .. }
            | Self::Release { fence, .. } => fence.id,
            Self::Settle { id, .. } => *id,
        }
    }
}

/// What a judge says about an unresolved attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it happened or it did not")]
pub enum Ruling {
    /// The effect happened; this is its answer.
    Completed {
        /// The answer.
        outcome: Outcome,
        /// How long it answers repeats.
        retention: Retention,
    },
    /// Surely nothing happened and nothing can happen any more.
    NothingHappened {
        /// How long a late packet of the settled attempt is remembered and refused.
        memory: Duration,
    },
}

/// What a store says about a step.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "done, not done, surely not, perhaps: complete")]
pub enum Answer {
    /// The claim owns the work, now or already under this nonce.
    Granted(Grant),
    /// The step happened, now or already under this fence.
    Applied {
        /// The epoch it left.
        epoch: Epoch,
        /// The store's time.
        now: Timestamp,
    },
    /// It did not happen; this is the record as it stands.
    Found(Found),
    /// Surely not done.
    Away(Fault),
    /// Perhaps done: ask again with the same nonce.
    Unsure(Fault),
}

/// A record as a store saw it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record, if there is one.
    pub record: Option<Arc<Record>>,
    /// The store's time.
    pub now: Timestamp,
}

/// A question for one page of records, in the order of their ids.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Only this operation.
    pub operation: Option<OperationName>,
    /// Only records of this status at the store's now.
    pub status: Option<Status>,
    /// Only ids after this one.
    pub after: Option<Id>,
    /// The most rows, at most 1000.
    pub limit: u16,
}

/// One page of records.
#[derive(Clone, Debug)]
pub struct Page {
    /// The records, in the order of their ids.
    pub records: Vec<Record>,
    /// The store's time.
    pub now: Timestamp,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<Id>,
}

/// One line of a record's journal.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The store's time.
    pub at: Timestamp,
    /// The epoch it left.
    pub epoch: Epoch,
    /// What happened.
    pub event: Event,
    /// Who did it.
    pub actor: Actor,
    /// Why, where a reason was given.
    pub note: String,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} by {}", self.epoch.get(), self.event.as_str(), self.actor)
    }
}

/// What is journalled. Renewals and checkpoints are not: they end nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// A first attempt began.
    Claimed,
    /// A dead attempt was taken over.
    Retaken,
    /// The outcome was stored.
    Completed,
    /// The holder did not know.
    Doubted,
    /// Given back without effect.
    Released,
    /// A judge said what happened.
    Settled,
}

impl Event {
    /// The stable word for the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Retaken => "retaken",
            Self::Completed => "completed",
            Self::Doubted => "doubted",
            Self::Released => "released",
            Self::Settled => "settled",
        }
    }

    /// Reads the stable word.
    pub fn parse(word: &str) -> Option<Self> {
        [
            Self::Claimed,
            Self::Retaken,
            Self::Completed,
            Self::Doubted,
            Self::Released,
            Self::Settled,
        ]
        .into_iter()
        .find(|event| event.as_str() == word)
    }
}
