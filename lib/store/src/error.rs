//! What can go wrong at a store. What a claim may do is an answer, never an error.

use std::fmt;

#[cfg(feature = "sql")]
use crate::sql::Fate;
use hapax_core::{
    Invalid,
    store::{Fault, FaultKind},
};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failed operation of a store: what kind of failure, what was tried, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    op: &'static str,
    source: Option<Cause>,
}

/// What kind of failure; callers act on it, people read the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An input breaks a rule. Nothing was done.
    Invalid,
    /// The database refused a statement and would refuse it again. Nothing was done.
    Refused,
    /// The database is busy or not reachable. Nothing was done; trying again may help.
    Unavailable,
    /// It may have been done. The same key asked again later gives the answer.
    Unsure,
    /// A bound is reached, such as the disk's. Nothing was done; trying again later may help.
    Full,
    /// Another attempt has taken over: the transaction was refused and changed nothing.
    Fenced,
    /// The work held the transaction for too long. Nothing was done.
    Late,
    /// The work panicked. Its transaction was rolled back.
    Panicked,
    /// What the database keeps cannot be understood.
    Corrupt,
    /// The schema is not one that this build can use.
    Schema,
}

impl Error {
    pub(crate) fn new(kind: Kind, op: &'static str) -> Self {
        Self { kind, op, source: None }
    }

    pub(crate) fn caused(kind: Kind, op: &'static str, source: impl Into<Cause>) -> Self {
        Self { kind, op, source: Some(source.into()) }
    }

    /// The database failed at `op`, surely without effect.
    #[cfg(feature = "sql")]
    pub(crate) fn undone(op: &'static str, cause: sqlx::Error) -> Self {
        Self::caused(Fate::of(&cause).kind(), op, cause)
    }

    /// A stored value is not what it should be.
    pub(crate) fn torn(cause: Invalid) -> Self {
        Self::caused(Kind::Corrupt, "read a stored row", cause)
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            Kind::Unavailable | Kind::Unsure | Kind::Full => true,
            Kind::Invalid
            | Kind::Refused
            | Kind::Fenced
            | Kind::Late
            | Kind::Panicked
            | Kind::Corrupt
            | Kind::Schema => false,
        }
    }

    /// The failure as the engine's store trait words it.
    pub(crate) fn into_fault(self) -> Fault {
        let kind = match self.kind {
            Kind::Full => FaultKind::Full,
            Kind::Invalid | Kind::Refused | Kind::Corrupt | Kind::Schema => FaultKind::Corrupt,
            Kind::Unavailable | Kind::Unsure | Kind::Fenced | Kind::Late | Kind::Panicked => {
                FaultKind::Unavailable
            }
        };
        Fault::new(kind, self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            Kind::Invalid => "an input breaks a rule",
            Kind::Refused => "the database refused a statement",
            Kind::Unavailable => "the database is busy or not reachable",
            Kind::Unsure => "the database may or may not have done it",
            Kind::Full => "a bound is reached",
            Kind::Fenced => "another attempt has taken over",
            Kind::Late => {
                "the work held the database for too long and was rolled back; \
                 move slow calls out of the transaction"
            }
            Kind::Panicked => "the work panicked and was rolled back",
            Kind::Corrupt => "what the database keeps cannot be understood",
            Kind::Schema => "the database has another schema",
        };
        write!(f, "{}: {why}", self.op)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(feature = "sql")]
impl From<sqlx::Error> for Error {
    /// A statement inside a transaction failed: nothing of it can have been committed.
    fn from(cause: sqlx::Error) -> Self {
        Self::undone("run a statement", cause)
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::caused(Kind::Invalid, "accept the input", invalid)
    }
}

impl From<hapax_core::Error> for Error {
    fn from(error: hapax_core::Error) -> Self {
        let kind = match error.kind() {
            hapax_core::Kind::Invalid => Kind::Invalid,
            hapax_core::Kind::Unsure => Kind::Unsure,
            hapax_core::Kind::Full => Kind::Full,
            hapax_core::Kind::Fenced => Kind::Fenced,
            hapax_core::Kind::Corrupt => Kind::Corrupt,
            hapax_core::Kind::Panicked => Kind::Panicked,
            hapax_core::Kind::Unavailable | _ => Kind::Unavailable,
        };
        Self::caused(kind, "guard the call", error)
    }
}
