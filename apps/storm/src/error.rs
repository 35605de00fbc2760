//! Why an attack could not be made. What the attack *found* is no error: it is in the report.

use std::error::Error as StdError;

/// Why an attack could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{op}")]
pub struct Error {
    kind: Kind,
    op: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The plan is wrong; nothing was sent.
    Plan,
    /// The target is not on this machine; nothing was sent.
    Target,
    /// No address for the merchant's endpoint can be listened on.
    Listen,
    /// The service or the simulator did not answer at the start.
    Unreachable,
    /// The simulator refused what it was told to do.
    Simulator,
    /// The attacker itself broke.
    Broken,
}

impl Error {
    pub(crate) fn new(kind: Kind, op: impl Into<String>) -> Self {
        Self { kind, op: op.into(), source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Tells what sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Tells whether the same attack may succeed later without a change of its plan.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            Kind::Listen | Kind::Unreachable => true,
            Kind::Plan | Kind::Target | Kind::Simulator | Kind::Broken => false,
        }
    }
}
