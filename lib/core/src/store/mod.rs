//! What a store must do: one atomic step at a time, and a report of what it found.
//!
//! A store never judges; [`decide`](crate::decide()) does. [`apply`](apply()) says as pure code
//! what each step does to a record, and every store must do the same natively: the contract suite
//! compares them.

mod apply;
mod coalesce;
mod memory;
mod step;

use std::{fmt, num::NonZeroUsize, sync::Arc};

use futures_util::future::BoxFuture;

pub(crate) use self::apply::{complete, granted};
pub use self::{
    apply::{apply, bounded_note},
    coalesce::Coalesce,
    memory::{MemoryStore, RECORDS_MAX},
    step::{Answer, Claim, Entry, Event, Found, Page, Ruling, Scan, Step},
};
use crate::id::Id;

/// A place where records live.
///
/// # Cancellation
/// The work of a call begins with the call, not with the first poll of its future. Dropping the
/// future abandons the answer, never the work.
pub trait Store: Send + Sync + 'static {
    /// Takes each step atomically; `out[i]` answers `steps[i]`.
    ///
    /// Steps are independent: one that fails harms no other. At most
    /// [`batch_max`](Capabilities::batch_max) steps, on distinct ids in ascending order;
    /// [`Coalesce`] sees to that.
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>>;

    /// Snapshots without a write or a lock; `out[i]` answers `ids[i]`.
    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>>;

    /// Completes on a hint that `id` may have changed: early, late or never. Callers poll too.
    fn changed(&self, id: Id) -> BoxFuture<'static, ()>;

    /// One keyset page, for operators and the completer.
    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>>;

    /// What happened to one record, oldest first; at most 1000 entries.
    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>>;

    /// Removes at most `rows` records that count as absent. No claim can notice it.
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>>;

    /// What the store can do: read at start-up in order to refuse, never per call.
    fn capabilities(&self) -> Capabilities;
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// How many calls of `apply` gain by running at once; `None` is any number.
    pub lanes: Option<NonZeroUsize>,
    /// The most steps in one call of `apply`.
    pub batch_max: NonZeroUsize,
    /// What survives.
    pub durability: Durability,
    /// Whether other processes see the same records.
    pub sharing: Sharing,
    /// Whether a read is so much cheaper than a claim that it should come first.
    pub reading: Reading,
}

/// What survives a failure, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing outlives the process.
    Process,
    /// Acknowledged records may be lost by a fail-over or a crash: best effort.
    Volatile,
    /// Acknowledged records are on disk.
    Disk,
}

/// Who sees the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// This process alone.
    Private,
    /// Every process that opens the same store.
    Shared,
}

/// What a fresh call should do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reading {
    /// Look, then claim: replays never touch the writer.
    First,
    /// Claim at once: a claim answers a replay at the price of a read.
    Never,
}

/// Why a store could not do or answer something. Cheap to clone, since one fault answers a batch.
#[derive(Clone)]
pub struct Fault {
    kind: FaultKind,
    source: Arc<dyn std::error::Error + Send + Sync>,
}

/// What kind of fault; callers act on it, people read the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Not reachable, not answering in time, or too busy. Trying again may help.
    Unavailable,
    /// A bound was reached; trying again later may help.
    Full,
    /// What was read cannot be understood. Trying again does not help.
    Corrupt,
}

impl Fault {
    /// A fault of `kind` with its cause.
    pub fn new(
        kind: FaultKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, source: Arc::from(source.into()) }
    }

    /// What kind of fault.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::Unavailable => "reach the store",
            FaultKind::Full => "use the store: a bound is reached",
            FaultKind::Corrupt => "understand what the store keeps",
        })
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({:?}", self.kind)?;
        let first: &(dyn std::error::Error + 'static) = self.source.as_ref();
        for cause in std::iter::successors(Some(first), |cause| cause.source()) {
            write!(f, ": {cause}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trait is used through `Arc<dyn Store>` everywhere.
    fn _is_object_safe(store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }
}
