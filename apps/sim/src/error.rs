use std::error::Error as StdError;
use std::fmt;

/// Why the simulator could not be started or kept running.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    op: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The configuration is wrong; nothing was started.
    Config,
    /// A key or certificate can't be read or used.
    Key,
    /// The address can't be listened on.
    Listen,
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

    /// Tells whether the same start may succeed later without a change of configuration.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            Kind::Listen => true,
            Kind::Config | Kind::Key => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.op)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
