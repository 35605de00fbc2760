//! What can go wrong in the payment service.

use std::fmt;

/// A failure: what kind, what was tried, and the cause.
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
    /// The configuration or a file that it names cannot be used.
    Config,
    /// What was asked for breaks a rule; the cause says which. Nothing was done.
    Invalid,
    /// The database has a schema that this build cannot use; the cause says what to do.
    Schema,
    /// The database did not do it, or may have: ask again.
    Store,
    /// What the database keeps cannot be understood.
    Corrupt,
    /// A row changed under our hands: read it and decide again.
    Changed,
    /// The network or the operating system failed.
    System,
}

impl Error {
    /// A failure without a deeper cause.
    pub(crate) fn new(kind: Kind, op: &'static str) -> Self {
        Self { kind, op, source: None }
    }

    /// A failure with its cause.
    pub(crate) fn caused(
        kind: Kind,
        op: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, op, source: Some(source.into()) }
    }

    /// The database did not confirm.
    pub(crate) fn store(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::caused(Kind::Store, "use the database", source)
    }

    /// A task of ours broke off, or the system refused.
    pub(crate) fn system(
        op: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::caused(Kind::System, op, source)
    }

    /// A stored value that breaks a rule.
    pub(crate) fn corrupt(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::caused(Kind::Corrupt, "read a stored row", source)
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            Kind::Store | Kind::Changed | Kind::System => true,
            Kind::Config | Kind::Invalid | Kind::Schema | Kind::Corrupt => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            Kind::Config => "the configuration cannot be used",
            Kind::Invalid => "an input breaks a rule",
            Kind::Schema => "the database has another schema",
            Kind::Store => "the database did not confirm it",
            Kind::Corrupt => "a stored row cannot be understood",
            Kind::Changed => "the row changed meanwhile",
            Kind::System => "the system refused",
        };
        write!(f, "{}: {why}", self.op)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<hapax::Error> for Error {
    fn from(cause: hapax::Error) -> Self {
        Self::store(cause)
    }
}

impl From<hapax::sql::Error> for Error {
    fn from(cause: hapax::sql::Error) -> Self {
        let kind = if cause.kind() == hapax::sql::Kind::Schema {
            Kind::Schema
        } else if cause.kind() == hapax::sql::Kind::Corrupt {
            Kind::Corrupt
        } else {
            Kind::Store
        };
        Self::caused(kind, "use the database", cause)
    }
}

impl From<sqlx::Error> for Error {
    fn from(cause: sqlx::Error) -> Self {
        Self::store(cause)
    }
}
