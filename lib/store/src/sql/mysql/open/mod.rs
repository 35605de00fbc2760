//! Reaching a server, and refusing one that cannot hold the guarantee.

mod sql;

use std::{str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Connection, Executor, Pool, Row as _,
    mysql::{MySqlConnectOptions, MySqlConnection},
    pool::PoolOptions,
};

use super::MySql;
use crate::{
    error::{Error, Kind},
    sql::{
        opening::{Opening, Pools},
        store::Sql,
    },
};
use hapax_core::Invalid;

/// A store in MySQL or MariaDB.
pub type MySqlStore = Sql<MySql>;

/// The oldest servers with `JSON_TABLE` and `SKIP LOCKED`.
const MYSQL_MIN: (u32, u32) = (8, 0);
const MARIADB_MIN: (u32, u32) = (10, 6);
/// How long a task waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that nobody uses are given back to the server, before it closes them.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

impl Sql<MySql> {
    /// Opens the database at `url` (`mysql://user:password@host/database`, also for MariaDB) and
    /// brings its schema up.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the URL is none, [`Kind::Schema`] if a newer build made the schema or
    /// the server cannot hold the guarantee, and those of the database.
    pub async fn open(url: impl Into<String>) -> Result<Self, Error> {
        Self::at(url).open().await
    }

    /// Names the database at `url`, to open it otherwise than by default.
    pub fn at(url: impl Into<String>) -> Opening<MySql> {
        Opening::at(url.into())
    }
}

pub(super) async fn connect(opening: &Opening<MySql>) -> Result<Pools<MySql>, Error> {
    let options = options(&opening.place)?;
    let mut conn = MySqlConnection::connect_with(&options)
        .await
        .map_err(|cause| Error::undone("reach the database", cause))?;
    let checked = check(&mut conn).await;
    conn.close().await?;
    checked?;
    Ok(Pools {
        steps: pool(opening.steps, sql::STEPS_SESSION).connect_lazy_with(options.clone()),
        business: pool(opening.business, sql::BUSINESS_SESSION).connect_lazy_with(options),
        readers: connect_reader(opening)?,
    })
}

pub(super) fn connect_reader(opening: &Opening<MySql>) -> Result<Pool<sqlx::MySql>, Error> {
    let options = options(&opening.place)?;
    Ok(pool(opening.readers, sql::READERS_SESSION).connect_lazy_with(options))
}

fn options(url: &str) -> Result<MySqlConnectOptions, Error> {
    let scheme = url.split("://").next();
    let url = url.replacen("mariadb://", "mysql://", 1);
    match MySqlConnectOptions::from_str(&url) {
        Ok(options)
            if matches!(scheme, Some("mysql" | "mariadb")) && options.get_database().is_some() =>
        {
            Ok(options
                .charset("utf8mb4")
                .log_slow_statements(tracing::log::LevelFilter::Off, Duration::ZERO))
        }
        // The cause may quote the URL, and with it a password.
        Ok(_) | Err(_) => {
            let rule = "must be a URL such as mysql://user:password@host:3306/database";
            Err(Invalid::new("database", rule).into())
        }
    }
}

/// Isolation and bounds are set for each session: a server may have other defaults.
fn pool(connections: u32, session: &'static str) -> PoolOptions<sqlx::MySql> {
    PoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        // A test before each use would cost as much as a read.
        .test_before_acquire(false)
        .after_connect(move |conn: &mut MySqlConnection, _| {
            Box::pin(async move { conn.execute(session).await.map(drop) })
        })
        .after_release(|conn: &mut MySqlConnection, _| {
            let is_free = !conn.is_in_transaction();
            Box::pin(async move { Ok(is_free) })
        })
}

async fn check(conn: &mut MySqlConnection) -> Result<(), Error> {
    let settings = sqlx::query(sql::SETTINGS).fetch_one(conn).await?;
    let (version, flush): (String, i64) = (settings.try_get(0)?, settings.try_get(1)?);
    let (read_only, packet): (i64, i64) = (settings.try_get(2)?, settings.try_get(3)?);
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version_min = if version.contains("MariaDB") { MARIADB_MIN } else { MYSQL_MIN };
    let rule = if (next(), next()) < version_min {
        "is older than MySQL 8.0 and MariaDB 10.6; use a newer server"
    } else if read_only != 0 {
        "is read-only; connect to the primary"
    } else if packet < PACKET_MIN {
        "takes too short messages; set max_allowed_packet to 16M or more"
    } else if flush != 1 {
        tracing::warn!(
            "the server runs with innodb_flush_log_at_trx_commit = {flush}: \
             a crash of the machine loses commits"
        );
        return Ok(());
    } else {
        return Ok(());
    };
    Err(Error::caused(Kind::Schema, "use the database", Invalid::new("the server", rule)))
}

/// A sheet of steps is at most 4 MiB of JSON, and twice that in hex.
const PACKET_MIN: i64 = 16 * 1024 * 1024;
