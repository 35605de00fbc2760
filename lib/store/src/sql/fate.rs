//! What a driver's error says about the work that met it. Codes decide, never the text.

use sqlx::error::DatabaseError;

use crate::error::Kind;

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Somebody was in the way: the whole transaction again may succeed.
    Again,
    /// There is no room, on disk or in memory.
    Full,
    /// The same statement with the same values would fail again.
    Refused,
    /// What is stored cannot be understood.
    Corrupt,
    /// The connection is gone or the disk does not answer.
    Gone,
}

impl Fate {
    /// Judges an error of a statement. No statement outside of a transaction writes, so that
    /// nothing was done.
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(cause) => Self::told(cause.as_ref()).unwrap_or(Self::Gone),
            sqlx::Error::PoolTimedOut | sqlx::Error::BeginFailed => Self::Again,
            sqlx::Error::Configuration(_)
            | sqlx::Error::InvalidArgument(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::InvalidSavePointStatement => Self::Refused,
            sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_) => Self::Corrupt,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::AnyDriverError(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Migrate(_)
            // What a later driver may add is of a kind that we do not know.
            | _ => Self::Gone,
        }
    }

    /// Judges what an engine said.
    fn told(cause: &dyn DatabaseError) -> Option<Self> {
        #[cfg(feature = "sqlite")]
        if let Some(cause) = cause.try_downcast_ref() {
            return super::sqlite::fate(cause);
        }
        #[cfg(feature = "postgres")]
        if let Some(cause) = cause.try_downcast_ref() {
            return super::postgres::fate(cause);
        }
        #[cfg(feature = "mysql")]
        if let Some(cause) = cause.try_downcast_ref() {
            return super::mysql::fate(cause);
        }
        None
    }

    /// Judges an error of COMMIT: `None` if nobody can say whether it happened.
    pub(crate) fn of_commit(error: &sqlx::Error) -> Option<Self> {
        match Self::of(error) {
            // The engine answered that the transaction is still open, or that it broke it off.
            fate @ (Self::Again | Self::Full | Self::Refused) => Some(fate),
            Self::Corrupt | Self::Gone => None,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Again | Self::Gone => Kind::Unavailable,
            Self::Full => Kind::Full,
            Self::Refused => Kind::Refused,
            Self::Corrupt => Kind::Corrupt,
        }
    }

    /// Whether `error`, or what caused it, asks for the whole transaction again.
    pub(crate) fn is_again(error: &(dyn std::error::Error + 'static)) -> bool {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes
            .filter_map(|cause| cause.downcast_ref::<sqlx::Error>())
            .any(|cause| Self::of(cause) == Self::Again)
    }
}
