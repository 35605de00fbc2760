//! MySQL 8.0 and MariaDB 10.6, and later: a change is several statements in one text, in
//! READ COMMITTED.
//!
//! A change goes out in the text protocol, since one message then carries all of it. Values are
//! written as numbers or in hex, so that nothing in them can be read as SQL.

mod open;
#[cfg(test)]
mod plans;
mod sql;

use std::{fmt::Write as _, time::Duration};

use sqlx::{
    AssertSqlSafe, Column, Executor, Pool, Row as _, Transaction, TypeInfo, ValueRef,
    mysql::{MySqlArguments, MySqlConnection, MySqlDatabaseError, MySqlRow},
    query::Query,
};

pub use self::open::MySqlStore;
use super::{
    dialect::{Bind, Dialect, Reach, Verbs},
    fate::Fate,
    migrate::{Script, scripts},
    opening::{Opening, Pools},
    row::{Cell, Row},
    sheet::push_hex,
};
use crate::error::Error;
use hapax_core::{Clock, SystemClock};

/// MySQL, and MariaDB, which speaks the same.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a marker has nothing to add")]
pub struct MySql;

impl Dialect for MySql {
    type Db = sqlx::MySql;
    type Place = String;
}

/// How often a claim is sent again when another one of the same record was faster.
const RACES_MAX: u32 = 8;
/// The pause before the second try; it grows with each.
const RACE_PAUSE: Duration = Duration::from_millis(1);
/// A row with this key is there.
const DUPLICATE_ENTRY: u16 = 1062;

impl Reach for MySql {
    async fn connect(opening: &Opening<Self>) -> Result<Pools<Self>, Error> {
        open::connect(opening).await
    }

    fn connect_reader(opening: &Opening<Self>) -> Result<Option<Pool<sqlx::MySql>>, Error> {
        open::connect_reader(opening).map(Some)
    }
}

impl Verbs for MySql {
    type Db = sqlx::MySql;

    const COMMITS_EACH: bool = true;

    const SCHEMA_COMMITS: bool = true;

    const SCRIPTS: &'static [Script] =
        scripts!("mysql": 1 "records" 2 "messages" 3 "locks" 4 "transitions");

    /// Renewals go on beside it until it is sealed.
    fn hold_max(lease: Duration) -> Duration {
        lease - lease / 4
    }

    async fn begin(
        pool: &Pool<sqlx::MySql>,
    ) -> Result<Transaction<'static, sqlx::MySql>, sqlx::Error> {
        pool.begin_with(sql::BEGIN).await
    }

    /// The engine may break a transaction off by itself, as in a deadlock; what is sent after
    /// that would commit statement by statement, but for the pool's `autocommit = 0`.
    async fn lend(_: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn take_back(_: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn fetch(
        conn: &mut MySqlConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let text = AssertSqlSafe(written(text, &binds));
        sqlx::raw_sql(text).fetch_all(conn).await?.iter().map(row).collect()
    }

    async fn execute(
        conn: &mut MySqlConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<u64, sqlx::Error> {
        let text = AssertSqlSafe(written(text, &binds));
        sqlx::raw_sql(text).execute(conn).await.map(|done| done.rows_affected())
    }

    /// A duplicate is an error of the statement alone: the transaction goes on.
    async fn insert(
        conn: &mut MySqlConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<bool, sqlx::Error> {
        match Self::execute(conn, text, binds).await {
            Ok(_) => Ok(true),
            Err(cause) if is_duplicate(&cause) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    async fn change(
        conn: &mut MySqlConnection,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let whole = format!("{}{};\nCOMMIT", sql::START, written(text, &binds));
        let mut races = 0;
        loop {
            let sent = sqlx::raw_sql(AssertSqlSafe(whole.clone())).fetch_all(&mut *conn).await;
            let cause = match sent {
                Ok(rows) => return rows.iter().map(row).collect(),
                Err(cause) => cause,
            };
            if cause.as_database_error().is_some() {
                // The statements after the refused one were not run: the transaction is open.
                conn.execute(sql::ROLLBACK).await?;
            }
            // Absent when this statement looked, there when it wrote: the next look sees it.
            if !is_duplicate(&cause) || races == RACES_MAX {
                return Err(cause);
            }
            races += 1;
            SystemClock.sleep(RACE_PAUSE * races).await;
        }
    }

    async fn read(
        pool: &Pool<sqlx::MySql>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        let (text, binds) = positional(text, &binds);
        pool.fetch_all(query(text, binds)).await?.iter().map(row).collect()
    }

    async fn lock_schema(conn: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(sql::SCHEMA_LOCK).execute(conn).await.map(drop)
    }

    async fn unlock_schema(conn: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(sql::SCHEMA_UNLOCK).execute(conn).await.map(drop)
    }

    /// After a deadlock the session has no transaction, and what its owner sends would commit
    /// statement by statement; after any other error it has one, with half of the work. Both are
    /// over, and from now on what is sent is refused.
    async fn spoil(conn: &mut MySqlConnection, _: &Error) {
        if let Err(cause) = conn.execute(sql::READ_ONLY).await {
            tracing::debug!(error = &cause as &dyn std::error::Error, "nothing to spoil");
        }
    }
}

fn is_duplicate(cause: &sqlx::Error) -> bool {
    let told = cause.as_database_error().and_then(|told| told.try_downcast_ref());
    told.is_some_and(|told: &MySqlDatabaseError| told.number() == DUPLICATE_ENTRY)
}

/// A piece of a text: what stands there, or the place of a bind.
enum Piece<'a> {
    Plain(&'a str),
    Bind(usize),
}

/// The text cut at its placeholders `$1`, `$2`, …
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut place = None;
    std::iter::from_fn(move || {
        if let Some(place) = place.take() {
            return Some(Piece::Bind(place));
        }
        let mut from = 0;
        while let Some(at) = rest.get(from..).and_then(|tail| tail.find('$')).map(|at| at + from) {
            let digit = rest.as_bytes().get(at + 1).filter(|byte| byte.is_ascii_digit());
            if let Some(digit) = digit {
                place = Some(usize::from(digit - b'1'));
                let (plain, tail) = (rest.get(..at), rest.get(at + 2..));
                rest = tail.unwrap_or_default();
                return plain.map(Piece::Plain);
            }
            from = at + 1;
        }
        let plain = std::mem::take(&mut rest);
        (!plain.is_empty()).then_some(Piece::Plain(plain))
    })
}

/// The text with its values written in.
fn written(text: &str, binds: &[Bind]) -> String {
    let mut whole = String::with_capacity(text.len() + 256);
    for piece in pieces(text) {
        match piece {
            Piece::Plain(plain) => whole.push_str(plain),
            Piece::Bind(place) => literal(&mut whole, binds.get(place)),
        }
    }
    whole
}

fn literal(whole: &mut String, bind: Option<&Bind>) {
    let mut hex = |prefix: &str, octets: &[u8]| {
        whole.push_str(prefix);
        whole.push_str("X'");
        push_hex(whole, octets);
        whole.push('\'');
    };
    match bind {
        Some(Bind::Int(value)) => drop(write!(whole, "{value}")),
        Some(Bind::Text(value) | Bind::MaybeText(Some(value))) => {
            hex("_utf8mb4 ", value.as_bytes());
        }
        Some(Bind::Bytes(value)) => hex("", value),
        Some(Bind::MaybeText(None)) | None => whole.push_str("NULL"),
    }
}

/// The text with placeholders by position, and its values in that order.
fn positional(text: &'static str, binds: &[Bind]) -> (String, Vec<Bind>) {
    let (mut whole, mut ordered) = (String::with_capacity(text.len()), Vec::new());
    for piece in pieces(text) {
        match piece {
            Piece::Plain(plain) => whole.push_str(plain),
            Piece::Bind(place) => {
                whole.push('?');
                ordered.extend(binds.get(place).cloned());
            }
        }
    }
    (whole, ordered)
}

fn query(text: String, binds: Vec<Bind>) -> Query<'static, sqlx::MySql, MySqlArguments> {
    binds.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, bind| match bind {
        Bind::Int(value) => query.bind(value),
        Bind::Text(value) => query.bind(value),
        Bind::MaybeText(value) => query.bind(value),
        Bind::Bytes(value) => query.bind(value.to_vec()),
    })
}

fn row(row: &MySqlRow) -> Result<Row, sqlx::Error> {
    let columns = row.columns().iter();
    let cells = columns.map(|column| cell(row, column.ordinal())).collect::<Result<_, _>>()?;
    Ok(Row::new(cells))
}

/// Text is kept as VARBINARY, since a collation would take two keys for one.
fn cell(row: &MySqlRow, index: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(index)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    match value.type_info().name() {
        "BIGINT" | "BIGINT UNSIGNED" | "INT" | "INT UNSIGNED" => {
            row.try_get_unchecked(index).map(Cell::Int)
        }
        "VARBINARY" | "VARCHAR" => row.try_get_unchecked(index).map(Cell::Text),
        "BINARY" | "BLOB" | "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
            row.try_get_unchecked(index).map(Cell::Bytes)
        }
        other => {
            let cause = format!("a column of type {other}");
            Err(sqlx::Error::Decode(cause.into()))
        }
    }
}

/// What an error number says.
pub(super) fn fate(cause: &MySqlDatabaseError) -> Option<Fate> {
    Some(match cause.number() {
        // Changed since it was read, lock wait, deadlock, lock not available, interrupted, a table
        // that was altered since the transaction or the statement began.
        1020 | 1205 | 1213 | 1317 | 1412 | 1615 | 3024 | 3572 | 1969 => Fate::Again,
        // Too many connections, for this user or at all.
        1040 | 1203 | 1226 => Fate::Again,
        // Disk, memory, table.
        1021 | 1037 | 1038 | 1041 | 1114 => Fate::Full,
        // Shut down, read-only, connection lost, error during COMMIT: it is not the one any more.
        1053 | 1077 | 1078 | 1152 | 1158..=1161 | 1180 | 1290 | 1836 | 1927 | 2006 | 2013 => {
            Fate::Gone
        }
        1034 | 1035 | 1194 | 1195 => Fate::Corrupt,
        _ => Fate::Refused,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_value_is_never_read_as_sql() {
        let binds = vec![
            Bind::from("'; DROP TABLE \\ -- $2"),
            Bind::Bytes(Bytes::from_static(b"\0'")),
            Bind::Int(-7),
            Bind::MaybeText(None),
        ];
        let text = "SELECT $2, $1, '$[*]', '$.id', $3, $4, $1";
        let hex = "273B2044524F50205441424C45205C202D2D202432".to_lowercase();
        assert_eq!(
            written(text, &binds),
            format!(
                "SELECT X'0027', _utf8mb4 X'{hex}', '$[*]', '$.id', -7, NULL, _utf8mb4 X'{hex}'"
            )
        );
    }

    #[test]
    fn placeholders_are_put_in_order() {
        let binds = vec![Bind::Int(1), Bind::Int(2)];
        let (text, binds) = positional("$2 $1 '$.x' $2", &binds);
        assert_eq!(text, "? ? '$.x' ?");
        assert!(matches!(binds[..], [Bind::Int(2), Bind::Int(1), Bind::Int(2)]));
    }
}
