//! What differs between SQL engines: the text of each statement, and how one is sent.

use std::future::Future;

use bytes::Bytes;
use sqlx::{Database, Pool, Transaction, migrate::Migrate};

use super::row::Row;

/// A connection of a dialect's driver.
pub(crate) type Conn<D> = <<D as Dialect>::Db as Database>::Connection;

/// One SQL engine.
///
/// Sealed: the statements of an engine are proved by this crate's tests, one by one.
#[expect(private_bounds, reason = "a bound that nobody else can meet seals the trait")]
pub trait Dialect: Texts + Verbs<Db = <Self as Dialect>::Db> {
    /// The driver.
    type Db: Database<Connection: Migrate>;
}

/// How statements reach the engine. No bound of the driver leaks out of these.
pub(crate) trait Verbs: Send + Sync + Sized + 'static {
    type Db: Database;

    /// Starts a transaction that may write.
    fn begin(
        pool: &Pool<Self::Db>,
    ) -> impl Future<Output = Result<Transaction<'static, Self::Db>, sqlx::Error>> + Send;

    /// Commits. An error is judged by [`Fate::of_commit`](super::Fate::of_commit).
    fn commit(
        tx: Transaction<'static, Self::Db>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Prepares a transaction for code that is not ours: until it is
    /// [taken back](Self::take_back) nothing may commit, whatever that code sends.
    fn lend(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Lets our COMMIT commit again.
    fn take_back(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Sends a statement and reads its rows.
    fn fetch(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Sends a statement and counts the rows that it met.
    fn execute(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Sends a statement outside of any transaction and reads its rows.
    fn read(
        pool: &Pool<Self::Db>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;
}

/// A value for a placeholder.
#[derive(Clone, Debug)]
pub(crate) enum Bind {
    Int(i64),
    Text(String),
    MaybeText(Option<String>),
    Bytes(Bytes),
}

impl From<i64> for Bind {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Bind {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&[u8]> for Bind {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(Bytes::copy_from_slice(value))
    }
}

macro_rules! texts {
    ($($name:ident)+) => {
        /// The statements. A batch is bound as one JSON array of objects (`?1`), `?2` is the
        /// store's now. What changed a record says so by returning its columns, never by a count.
        pub(crate) trait Texts {
            $(const $name: &'static str;)+
        }

        /// Every statement with its name.
        #[cfg(test)]
        pub(crate) fn all<T: Texts>() -> Vec<(&'static str, &'static str)> {
            vec![$((stringify!($name), T::$name)),+]
        }

        #[cfg(test)]
        impl Texts for super::tests::Lossy {
            $(const $name: &'static str = <super::Sqlite as Texts>::$name;)+
        }

        #[cfg(test)]
        impl Texts for super::tests::Bent {
            $(const $name: &'static str = <super::Sqlite as Texts>::$name;)+
        }
    };
}

texts! {
    // The clock.
    TICK NOW
    // Steps: each returns what it changed.
    CLAIM_INSERT CLAIM_REUSE CLAIM_RETAKE RENEW CHECKPOINT COMPLETE DOUBT RELEASE SETTLE_COMPLETED
    SETTLE_OPEN JOURNAL_WRITE
    // Reads and housekeeping.
    LOOK SCAN SCAN_UNFINISHED HISTORY PURGE JOURNAL_PURGE
    // The witness that a transaction still lives.
    WITNESS_SET WITNESS_RELEASE WITNESS_ROLLBACK
    // Messages.
    OUTBOX_SEND OUTBOX_DUE OUTBOX_CLAIM OUTBOX_ACK OUTBOX_RETRY OUTBOX_BURY OUTBOX_REPLAY
    OUTBOX_JOURNAL_WRITE OUTBOX_JOURNAL OUTBOX_LETTER OUTBOX_LETTERS OUTBOX_BURIED OUTBOX_PURGE
    OUTBOX_JOURNAL_PURGE OUTBOX_DEPTH INBOX_ONCE INBOX_PURGE
    // Locks.
    LOCK_LOOK LOCK_ACQUIRE LOCK_RENEW LOCK_RELEASE LOCK_PURGE
    // Transitions.
    TRANSITION_WRITE TRANSITIONS
    // The schema.
    SCHEMA_EXISTS SCHEMA_APPLIED
}
