//! SQLite: one writer, WAL, every commit flushed.

mod open;
#[cfg(test)]
mod plans;
mod sql;

use sqlx::{
    Column, Executor, Pool, Row as _, Transaction, TypeInfo, ValueRef,
    query::Query,
    sqlite::{SqliteArguments, SqliteConnection, SqliteRow},
};

pub use self::open::{Opening, SqliteStore};
use super::{
    dialect::{Bind, Dialect, Verbs},
    fate::Fate,
    migrate::Script,
    row::{Cell, Row},
};

/// SQLite, through the copy that is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct Sqlite;

impl Dialect for Sqlite {
    type Db = sqlx::Sqlite;
}

/// A transaction that will write takes the lock at once: waiting for it later, with a snapshot
/// in hand, can't succeed.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// The schema. Scripts are never edited once released.
pub(super) const SCRIPTS: &[Script] = &[
    Script {
        version: 1,
        name: "records",
        up: include_str!("../../../migrations/sqlite/0001_records.up.sql"),
        down: include_str!("../../../migrations/sqlite/0001_records.down.sql"),
    },
    Script {
        version: 2,
        name: "messages",
        up: include_str!("../../../migrations/sqlite/0002_messages.up.sql"),
        down: include_str!("../../../migrations/sqlite/0002_messages.down.sql"),
    },
    Script {
        version: 3,
        name: "locks",
        up: include_str!("../../../migrations/sqlite/0003_locks.up.sql"),
        down: include_str!("../../../migrations/sqlite/0003_locks.down.sql"),
    },
    Script {
        version: 4,
        name: "transitions",
        up: include_str!("../../../migrations/sqlite/0004_transitions.up.sql"),
        down: include_str!("../../../migrations/sqlite/0004_transitions.down.sql"),
    },
];

impl Verbs for Sqlite {
    type Db = sqlx::Sqlite;

    async fn begin(
        pool: &Pool<sqlx::Sqlite>,
    ) -> Result<Transaction<'static, sqlx::Sqlite>, sqlx::Error> {
        pool.begin_with(BEGIN).await
    }

    async fn commit(tx: Transaction<'static, sqlx::Sqlite>) -> Result<(), sqlx::Error> {
        tx.commit().await
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

    async fn read(
        pool: &Pool<sqlx::Sqlite>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        pool.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }
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
pub(super) fn fate(code: i32) -> Fate {
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
    match code & 0xFF {
        // BUSY covers BUSY_SNAPSHOT and BUSY_RECOVERY; PROTOCOL is a lost race for a WAL lock.
        BUSY | LOCKED | PROTOCOL => Fate::Again,
        NOMEM | FULL => Fate::Full,
        READONLY | INTERRUPT | IOERR | CANTOPEN => Fate::Gone,
        CORRUPT | NOTADB => Fate::Corrupt,
        _ => Fate::Refused,
    }
}
