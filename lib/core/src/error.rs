//! What can go wrong in the engine. Decisions are not errors: a busy or mismatched key is an
//! answer.

use std::fmt;

use crate::{
    invalid::Invalid,
    store::{Fault, FaultKind},
};

/// A failed operation of the engine: what kind of failure, what was tried, and the cause.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    op: &'static str,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What kind of failure; callers act on it, people read the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An input or a declaration breaks a rule. Nothing was done.
    Invalid,
    /// The store surely did not do it. Nothing was done; trying again may help.
    Unavailable,
    /// The store may have done it. The same key asked again later gives the answer.
    Unsure,
    /// A bound is reached. Nothing was done; trying again later may help.
    Full,
    /// Another attempt has taken over: this one's write was refused and changes nothing.
    Fenced,
    /// What the store keeps cannot be understood.
    Corrupt,
    /// The work panicked; its class says what may follow.
    Panicked,
}

impl Error {
    pub(crate) fn new(kind: Kind, op: &'static str) -> Self {
        Self { kind, op, source: None }
    }

    pub(crate) fn caused(
        kind: Kind,
        op: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, op, source: Some(source.into()) }
    }

    /// The step surely did not happen.
    pub(crate) fn away(op: &'static str, fault: Fault) -> Self {
        let kind = match fault.kind() {
            FaultKind::Unavailable => Kind::Unavailable,
            FaultKind::Full => Kind::Full,
            FaultKind::Corrupt => Kind::Corrupt,
        };
        Self::caused(kind, op, fault)
    }

    /// The step may have happened.
    pub(crate) fn unsure(op: &'static str, fault: Fault) -> Self {
        Self::caused(Kind::Unsure, op, fault)
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            Kind::Unavailable | Kind::Unsure | Kind::Full => true,
            Kind::Invalid | Kind::Fenced | Kind::Corrupt | Kind::Panicked => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            Kind::Invalid => "an input breaks a rule",
            Kind::Unavailable => "the store is not available",
            Kind::Unsure => "the store may or may not have done it",
            Kind::Full => "a bound is reached",
            Kind::Fenced => "another attempt has taken over",
            Kind::Corrupt => "the stored record cannot be understood",
            Kind::Panicked => "the work panicked",
        };
        write!(f, "{}: {why}", self.op)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::caused(Kind::Invalid, "accept the input", invalid)
    }
}
