//! PostgreSQL 14 and later: a change is one statement, in READ COMMITTED.

mod open;
#[cfg(test)]
mod plans;
mod sql;

use std::time::Duration;

use sqlx::{
    Column, Executor, Pool, Row as _, Transaction, TypeInfo, ValueRef,
    postgres::{PgArguments, PgConnection, PgDatabaseError, PgRow},
    query::Query,
};

pub use self::open::PostgresStore;
use super::{
    dialect::{Bind, Dialect, Reach, Verbs},
    fate::Fate,
    migrate::{Script, scripts},
    opening::{Opening, Pools},
    row::{Cell, Row},
};
use crate::error::Error;

/// PostgreSQL.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker has nothing to add")]
pub struct Postgres;

impl Dialect for Postgres {
    type Db = sqlx::Postgres;
    type Place = String;
}

impl Reach for Postgres {
    async fn connect(opening: &Opening<Self>) -> Result<Pools<Self>, Error> {
        open::connect(opening).await
    }

    fn connect_reader(opening: &Opening<Self>) -> Result<Option<Pool<sqlx::Postgres>>, Error> {
        open::connect_reader(opening).map(Some)
    }
}

impl Verbs for Postgres {
    type Db = sqlx::Postgres;

    const COMMITS_EACH: bool = true;

    const SCHEMA_COMMITS: bool = false;

    const SCRIPTS: &'static [Script] =
        scripts!("postgres": 1 "records" 2 "messages" 3 "locks" 4 "transitions");

    /// Renewals go on beside it until it is sealed.
    fn hold_max(lease: Duration) -> Duration {
        lease - lease / 4
    }

    async fn begin(
        pool: &Pool<sqlx::Postgres>,
    ) -> Result<Transaction<'static, sqlx::Postgres>, sqlx::Error> {
        pool.begin_with(sql::BEGIN).await
    }

    /// An error breaks the transaction off as a whole, and what follows is refused.
    async fn lend(_: &mut PgConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn take_back(_: &mut PgConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn fetch(
        conn: &mut PgConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        conn.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }

    async fn execute(
        conn: &mut PgConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<u64, sqlx::Error> {
        conn.execute(query(text, binds)).await.map(|done| done.rows_affected())
    }

    async fn insert(
        conn: &mut PgConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<bool, sqlx::Error> {
        Ok(!conn.fetch_all(query(text, binds)).await?.is_empty())
    }

    async fn change(
        conn: &mut PgConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        Self::fetch(conn, text, binds).await
    }

    async fn read(
        pool: &Pool<sqlx::Postgres>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        pool.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }

    async fn lock_schema(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        conn.execute(sql::SCHEMA_LOCK).await.map(drop)
    }

    async fn unlock_schema(_: &mut PgConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    /// The engine itself refuses everything but the rollback.
    async fn spoil(_: &mut PgConnection, _: &Error) {}
}

fn query(text: &'static str, binds: Vec<Bind>) -> Query<'static, sqlx::Postgres, PgArguments> {
    binds.into_iter().fold(sqlx::query(text), |query, bind| match bind {
        Bind::Int(value) => query.bind(value),
        Bind::Text(value) => query.bind(value),
        Bind::MaybeText(value) => query.bind(value),
        Bind::Bytes(value) => query.bind(value.to_vec()),
    })
}

fn row(row: &PgRow) -> Result<Row, sqlx::Error> {
    let columns = row.columns().iter();
    let cells = columns.map(|column| cell(row, column.ordinal())).collect::<Result<_, _>>()?;
    Ok(Row::new(cells))
}

fn cell(row: &PgRow, index: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(index)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    match value.type_info().name() {
        "INT8" => row.try_get_unchecked(index).map(Cell::Int),
        "INT4" => row.try_get_unchecked::<i32, _>(index).map(|value| Cell::Int(value.into())),
        "TEXT" => row.try_get_unchecked(index).map(Cell::Text),
        "BYTEA" => row.try_get_unchecked(index).map(Cell::Bytes),
        other => {
            let cause = format!("a column of type {other}");
            Err(sqlx::Error::Decode(cause.into()))
        }
    }
}

/// What a SQLSTATE says.
pub(super) fn fate(cause: &PgDatabaseError) -> Option<Fate> {
    let (class, _) = cause.code().split_at_checked(2)?;
    Some(match (class, cause.code()) {
        // Serialization failure, deadlock, lock not available, time-out of a statement.
        (_, "40001" | "40P01" | "55P03" | "57014") => Fate::Again,
        // Too many connections, for this role or at all, and a server that starts.
        (_, "53300" | "57P03") => Fate::Again,
        ("53", _) => Fate::Full,
        // Somebody ended the transaction, or went on in one that was broken off.
        (_, "25P01" | "25P02") => Fate::Refused,
        // Connection lost, shut down, or a server that only reads: it is not the one any more.
        ("08" | "57" | "58" | "25", _) => Fate::Gone,
        (_, "40003") => Fate::Gone,
        (_, "XX001" | "XX002") => Fate::Corrupt,
        _ => Fate::Refused,
    })
}
