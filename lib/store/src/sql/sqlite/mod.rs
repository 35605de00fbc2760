//! SQLite: one writer, WAL, every commit flushed.

mod open;
#[cfg(test)]
mod plans;
mod sql;

use std::{path::PathBuf, time::Duration};

use sqlx::{
    Column, Executor, Pool, Row as _, Transaction, TypeInfo, ValueRef,
    error::DatabaseError,
    query::Query,
    sqlite::{SqliteArguments, SqliteConnection, SqliteError, SqliteRow},
};

pub use self::open::SqliteStore;
use super::{
    dialect::{Bind, Dialect, Reach, Verbs},
    fate::Fate,
    migrate::{Script, scripts},
    opening::{Opening, Pools},
    row::{Cell, Row},
};
use crate::error::Error;

/// SQLite, through the copy that is compiled in.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker has nothing to add")]
pub struct Sqlite;

impl Dialect for Sqlite {
    type Db = sqlx::Sqlite;
    type Place = PathBuf;
}

impl Reach for Sqlite {
    async fn connect(opening: &Opening<Self>) -> Result<Pools<Self>, Error> {
        open::connect(opening).await
    }

    fn connect_reader(opening: &Opening<Self>) -> Result<Option<Pool<sqlx::Sqlite>>, Error> {
        open::connect_reader(opening)
    }
}

impl Verbs for Sqlite {
    type Db = sqlx::Sqlite;

    const COMMITS_EACH: bool = false;

    const SCHEMA_COMMITS: bool = false;

    const SCRIPTS: &'static [Script] =
        scripts!("sqlite": 1 "records" 2 "messages" 3 "locks" 4 "transitions");

    /// No renewal reaches the store while a transaction holds its writer.
    fn hold_max(lease: Duration) -> Duration {
        lease / 2
    }

    async fn begin(
        pool: &Pool<sqlx::Sqlite>,
    ) -> Result<Transaction<'static, sqlx::Sqlite>, sqlx::Error> {
        pool.begin_with(sql::BEGIN).await
    }

    /// The library may break a transaction off by itself, as on a full disk; what is sent after
    /// that would commit statement by statement.
    async fn lend(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        conn.lock_handle().await?.set_commit_hook(|| false);
        Ok(())
    }

    async fn take_back(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        conn.lock_handle().await?.remove_commit_hook();
        Ok(())
    }

    async fn fetch(
        conn: &mut SqliteConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        conn.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }

    async fn execute(
        conn: &mut SqliteConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<u64, sqlx::Error> {
        conn.execute(query(text, binds)).await.map(|done| done.rows_affected())
    }

    async fn insert(
        conn: &mut SqliteConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<bool, sqlx::Error> {
        Ok(!conn.fetch_all(query(text, binds)).await?.is_empty())
    }

    async fn change(
        conn: &mut SqliteConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        Self::fetch(conn, text, binds).await
    }

    async fn read(
        pool: &Pool<sqlx::Sqlite>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        pool.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }

    /// A transaction that may write has the whole file.
    async fn lock_schema(_: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn unlock_schema(_: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    /// What is sent after that commits nothing by itself: the caller rolls back.
    async fn spoil(_: &mut SqliteConnection, _: &Error) {}
}

fn query(text: &'static str, binds: Vec<Bind>) -> Query<'static, sqlx::Sqlite, SqliteArguments> {
    binds.into_iter().fold(sqlx::query(text), |query, bind| match bind {
        Bind::Int(value) => query.bind(value),
        Bind::Text(value) => query.bind(value),
        Bind::MaybeText(value) => query.bind(value),
        Bind::Bytes(value) => query.bind(value.to_vec()),
    })
}

fn row(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    let columns = row.columns().iter();
    let cells = columns.map(|column| cell(row, column.ordinal())).collect::<Result<_, _>>()?;
    Ok(Row::new(cells))
}

fn cell(row: &SqliteRow, index: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(index)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    match value.type_info().name() {
        "INTEGER" => row.try_get_unchecked(index).map(Cell::Int),
        "TEXT" => row.try_get_unchecked(index).map(Cell::Text),
        "BLOB" => row.try_get_unchecked(index).map(Cell::Bytes),
        other => {
            let cause = format!("a column of type {other}");
            Err(sqlx::Error::Decode(cause.into()))
        }
    }
}

/// What an extended result code says.
pub(super) fn fate(cause: &SqliteError) -> Option<Fate> {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const NOMEM: i32 = 7;
    const READONLY: i32 = 8;
    const INTERRUPT: i32 = 9;
    const IOERR: i32 = 10;
    const CORRUPT: i32 = 11;
    const FULL: i32 = 13;
    const CANTOPEN: i32 = 14;
    const PROTOCOL: i32 = 15;
    const NOTADB: i32 = 26;
    let code: i32 = cause.code()?.parse().ok()?;
    Some(match code & 0xFF {
        // BUSY covers BUSY_SNAPSHOT and BUSY_RECOVERY; PROTOCOL is a lost race for a WAL lock.
        BUSY | LOCKED | PROTOCOL => Fate::Again,
        NOMEM | FULL => Fate::Full,
        READONLY | INTERRUPT | IOERR | CANTOPEN => Fate::Gone,
        CORRUPT | NOTADB => Fate::Corrupt,
        _ => Fate::Refused,
    })
}
