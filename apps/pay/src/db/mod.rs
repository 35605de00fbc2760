//! Rows and their statements. One statement a function; what follows from it is decided in
//! [`ledger`](crate::ledger).

pub(crate) mod benefits;
pub(crate) mod checks;
pub(crate) mod claims;
#[cfg(test)]
mod guards;
pub(crate) mod notices;
pub(crate) mod orders;
pub(crate) mod payments;
#[cfg(test)]
mod plans;
pub(crate) mod refunds;
pub(crate) mod requests;
pub(crate) mod runs;
mod sql;

use sqlx::{
    Row, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::SqliteRow,
};

use crate::{
    beijing::Moment,
    error::Error,
    money::{Amount, Currency, Sum},
};
use hapax::Timestamp;

/// Where it is written which scripts were run.
const MIGRATIONS_TABLE: &str = "_pay_migrations";

/// The database engine of this build.
pub(crate) type Db = hapax::sql::Sqlite;
/// The database.
pub(crate) type Sql = hapax::sql::Sql<Db>;
/// A transaction.
pub(crate) type Tx = hapax::sql::Tx<Db>;
/// A connection, inside a transaction or not.
pub(crate) type Conn = sqlx::SqliteConnection;

/// The connection of a transaction.
pub(crate) fn conn(tx: &mut Tx) -> &mut Conn {
    tx
}

/// The service's own tables, in a history of their own beside the engine's.
pub(crate) fn migrator() -> Migrator {
    let script = |kind, text: &'static str| {
        Migration::new(1, "ledger".into(), kind, text.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(vec![
        script(
            MigrationType::ReversibleUp,
            include_str!("../../migrations/sqlite/0001_ledger.up.sql"),
        ),
        script(
            MigrationType::ReversibleDown,
            include_str!("../../migrations/sqlite/0001_ledger.down.sql"),
        ),
    ]);
    migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
    migrator
}

/// Which of them a database file has: version and checksum.
pub(crate) async fn applied(file: &std::path::Path) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    use sqlx::Connection;

    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).read_only(true);
    let mut conn = Conn::connect_with(&options).await?;
    let exists = sqlx::query(sql::MIGRATIONS_EXIST).fetch_optional(&mut conn).await?.is_some();
    let applied = if exists { steps(&mut conn).await } else { Ok(Vec::new()) };
    conn.close().await?;
    applied
}

/// Whether the database has exactly the steps that this build knows.
pub(crate) async fn is_current(conn: &mut Conn) -> Result<bool, Error> {
    let migrator = migrator();
    let known = migrator.iter().filter(|step| step.migration_type.is_up_migration());
    let known: Vec<_> = known.map(|step| (step.version, step.checksum.to_vec())).collect();
    Ok(steps(conn).await? == known)
}

async fn steps(conn: &mut Conn) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let rows = sqlx::query(sql::MIGRATIONS_APPLIED).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((read(row, "version")?, read(row, "checksum")?))).collect()
}

/// Reads one column.
fn read<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T, Error>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).map_err(Error::corrupt)
}

fn read_amount(row: &SqliteRow, column: &str) -> Result<Amount, Error> {
    Amount::from_minor(read(row, column)?).map_err(Error::corrupt)
}

fn read_sum(row: &SqliteRow, column: &str) -> Result<Sum, Error> {
    Sum::from_minor(read(row, column)?).map_err(Error::corrupt)
}

fn read_currency(row: &SqliteRow) -> Result<Currency, Error> {
    Currency::parse(read(row, "currency")?).map_err(Error::corrupt)
}

fn read_count(row: &SqliteRow, column: &str) -> Result<u32, Error> {
    u32::try_from(read::<i64>(row, column)?).map_err(Error::corrupt)
}

fn read_time(row: &SqliteRow, column: &str) -> Result<Timestamp, Error> {
    read(row, column).map(Timestamp::from_millis)
}

fn read_time_opt(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>, Error> {
    Ok(read::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

/// A moment of the store's clock as the channel writes it.
pub(crate) fn moment(at: Timestamp) -> Result<Moment, Error> {
    Moment::from_epoch_ms(at.as_millis()).map_err(Error::corrupt)
}

/// Whether a conditional write found its row.
fn is_one(done: &sqlx::sqlite::SqliteQueryResult) -> bool {
    done.rows_affected() == 1
}
