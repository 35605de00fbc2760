//! What the engine tells about itself: plain events for metrics and logs.

use std::time::Duration;

use crate::{
    id::{Id, OperationName},
    record::Class,
};

/// Sees what happens. Called inline: count and return.
pub trait Observer: Send + Sync + 'static {
    /// Something happened to a record of `operation`.
    fn observe(&self, operation: &OperationName, id: Id, event: &Happening);
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// An attempt began; above 1 it took over from a dead one.
    Began {
        /// Which attempt.
        attempt: u32,
        /// The class that governs it.
        class: Class,
    },
    /// A repeat got the stored answer.
    Replayed,
    /// A repeat came while the first one ran.
    Busy,
    /// The same key asked for something else.
    Mismatched,
    /// Nobody may run it; a person or the reconciler must look.
    Held,
    /// The answer is no longer kept.
    Expired,
    /// The outcome was stored after this time.
    Completed {
        /// From grant to stored outcome.
        took: Duration,
    },
    /// Given back without effect.
    Released,
    /// The outcome is unknown.
    Doubted,
    /// A late write of a holder that had been taken over was refused.
    Fenced,
    /// A holder lost its lease while it worked.
    LeaseLost,
    /// The store surely did not, or perhaps did, what was asked.
    StoreFailed,
}

impl Happening {
    /// The stable word for the event, as metrics label it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Began { attempt: 0 | 1, .. } => "executed",
            Self::Began { .. } => "taken_over",
            Self::Replayed => "replayed",
            Self::Busy => "busy",
            Self::Mismatched => "mismatch",
            Self::Held => "held",
            Self::Expired => "expired",
            Self::Completed { .. } => "completed",
            Self::Released => "released",
            Self::Doubted => "unknown",
            Self::Fenced => "fenced",
            Self::LeaseLost => "lease_lost",
            Self::StoreFailed => "store_error",
        }
    }
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &OperationName, _: Id, _: &Happening) {}
}
