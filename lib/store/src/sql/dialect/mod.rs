//! What differs between SQL engines: the text of each statement, and how one is sent.

mod sql;

use std::{future::Future, time::Duration};

use bytes::Bytes;
use sqlx::{Database, Pool, Transaction, migrate::Migrate};

#[cfg(test)]
pub(crate) use self::sql::all;
pub(crate) use self::sql::{Texts, WITNESS_RELEASE, WITNESS_ROLLBACK, WITNESS_SET, letter, record};
use super::{
    migrate::Script,
    opening::{Opening, Pools},
    row::Row,
};
use crate::error::Error;

/// A connection of a dialect's driver.
pub(crate) type Conn<D> = <<D as Dialect>::Db as Database>::Connection;

/// One SQL engine.
///
/// Sealed: the statements of an engine are proved by this crate's tests, one by one.
#[expect(private_bounds, reason = "a bound that nobody else can meet seals the trait")]
pub trait Dialect: Texts + Verbs<Db = <Self as Dialect>::Db> {
    /// The driver.
    type Db: Database<Connection: Migrate>;
    /// Where a database is: a path or a URL.
    type Place: Clone + Send + Sync;
}

/// How statements reach the engine. No bound of the driver leaks out of these.
pub(crate) trait Verbs: Send + Sync + Sized + 'static {
    type Db: Database;

    /// Whether a change commits by itself. An engine with one writer takes all changes of a
    /// batch in one transaction instead, which costs one flush.
    const COMMITS_EACH: bool;

    /// The schema. Scripts are never edited once released.
    const SCRIPTS: &'static [Script];

    /// The longest that a business transaction may last under a lease.
    fn hold_max(lease: Duration) -> Duration;

    /// Starts a transaction that may write, and sets the witness that it lives.
    fn begin(
        pool: &Pool<Self::Db>,
    ) -> impl Future<Output = Result<Transaction<'static, Self::Db>, sqlx::Error>> + Send;

    /// Commits. An error is judged by [`Fate::of_commit`](super::Fate::of_commit).
    fn commit(
        tx: Transaction<'static, Self::Db>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        tx.commit()
    }

    /// Prepares a transaction for code that is not ours: until it is
    /// [taken back](Self::take_back) nothing may commit, where the engine can be told so.
    fn lend(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Lets our COMMIT commit again.
    fn take_back(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Sends a text inside a transaction and reads its rows.
    fn fetch(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Sends a text inside a transaction and counts the rows that it met.
    fn execute(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Inserts a row inside a transaction; `false` if its key is there. The transaction goes on.
    fn insert(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Sends a change as a transaction of its own. Where changes commit by themselves only. An
    /// error is judged by [`Fate::of_commit`](super::Fate::of_commit).
    fn change(
        conn: &mut <Self::Db as Database>::Connection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Sends a statement outside of any transaction and reads its rows.
    fn read(
        pool: &Pool<Self::Db>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Row>, sqlx::Error>> + Send;

    /// Whether each change of the schema commits by itself, whatever transaction it is in.
    const SCHEMA_COMMITS: bool;

    /// Keeps other processes from changing the schema until it is unlocked, or until the
    /// transaction ends where a schema can be changed in one.
    fn lock_schema(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Lets other processes change the schema.
    fn unlock_schema(
        conn: &mut <Self::Db as Database>::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Sees to it that a transaction of somebody else that met `error` commits nothing more, where
    /// the engine goes on without it after it broke it off.
    fn spoil(
        conn: &mut <Self::Db as Database>::Connection,
        error: &Error,
    ) -> impl Future<Output = ()> + Send;
}

/// How a database is reached.
pub(crate) trait Reach: Dialect {
    /// Checks the server or the file, and opens connections to it.
    fn connect(opening: &Opening<Self>) -> impl Future<Output = Result<Pools<Self>, Error>> + Send;

    /// Opens connections that only read; `None` if there is no database yet.
    fn connect_reader(
        opening: &Opening<Self>,
    ) -> Result<Option<Pool<<Self as Dialect>::Db>>, Error>;
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
