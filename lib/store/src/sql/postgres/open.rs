//! Reaching a server, and refusing one that cannot hold the guarantee.

use std::{str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Connection, Pool, Row as _,
    pool::PoolOptions,
    postgres::{PgConnectOptions, PgConnection},
};

use super::Postgres;
use crate::{
    error::{Error, Kind},
    sql::{
        opening::{Opening, Pools},
        store::Sql,
    },
};
use hapax_core::Invalid;

/// A store in PostgreSQL.
pub type PostgresStore = Sql<Postgres>;

/// The oldest server whose `extract(epoch …)` is exact.
const VERSION_MIN: i64 = 14_00_00;
/// How long a step waits for a lock: others hold one for the length of a seal.
const LOCK_TIMEOUT: &str = "1s";
/// How long any statement of the store's own may last: a dead disk must not hold a lane.
const STATEMENT_TIMEOUT: &str = "10s";
/// How long a task waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that nobody uses are given back to the server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

impl Sql<Postgres> {
    /// Opens the database at `url` (`postgres://user:password@host/database`) and brings its
    /// schema up, in the current schema of its search path.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the URL is none, [`Kind::Schema`] if a newer build made the schema or
    /// the server cannot hold the guarantee, and those of the database.
    pub async fn open(url: impl Into<String>) -> Result<Self, Error> {
        Self::at(url).open().await
    }

    /// Names the database at `url`, to open it otherwise than by default.
    pub fn at(url: impl Into<String>) -> Opening<Postgres> {
        Opening::at(url.into())
    }
}

pub(super) async fn connect(opening: &Opening<Postgres>) -> Result<Pools<Postgres>, Error> {
    let options = options(&opening.place)?;
    let mut conn = PgConnection::connect_with(&options)
        .await
        .map_err(|cause| Error::undone("reach the database", cause))?;
    let checked = check(&mut conn).await;
    conn.close().await?;
    checked?;
    let own = options
        .clone()
        .options([("lock_timeout", LOCK_TIMEOUT), ("statement_timeout", STATEMENT_TIMEOUT)]);
    Ok(Pools {
        steps: pool(opening.steps).connect_lazy_with(own),
        business: pool(opening.business).connect_lazy_with(options),
        readers: connect_reader(opening)?,
    })
}

pub(super) fn connect_reader(opening: &Opening<Postgres>) -> Result<Pool<sqlx::Postgres>, Error> {
    let options = options(&opening.place)?.options([
        ("default_transaction_read_only", "on"),
        ("statement_timeout", STATEMENT_TIMEOUT),
    ]);
    Ok(pool(opening.readers).connect_lazy_with(options))
}

/// Isolation is set for each session: a server or a role may have another default.
fn options(url: &str) -> Result<PgConnectOptions, Error> {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let options = match PgConnectOptions::from_str(url) {
        Ok(options) if is_url => options,
        // The cause may quote the URL, and with it a password.
        Ok(_) | Err(_) => {
            let rule = "must be a URL such as postgres://user:password@host:5432/database";
            return Err(Invalid::new("database", rule).into());
        }
    };
    Ok(options
        .application_name("hapax")
        // No statement of ours lasts as long as its compilation would.
        .options([("default_transaction_isolation", "read committed"), ("jit", "off")])
        .log_slow_statements(tracing::log::LevelFilter::Off, Duration::ZERO))
}

fn pool(connections: u32) -> PoolOptions<sqlx::Postgres> {
    PoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(IDLE_TIMEOUT)
        // A test before each use would cost as much as a read.
        .test_before_acquire(false)
        .after_release(|conn: &mut PgConnection, _| {
            let is_free = !conn.is_in_transaction();
            Box::pin(async move { Ok(is_free) })
        })
}

async fn check(conn: &mut PgConnection) -> Result<(), Error> {
    let settings = sqlx::query(super::sql::SETTINGS).fetch_one(conn).await?;
    let (version, fsync): (i64, String) = (settings.try_get(0)?, settings.try_get(1)?);
    let (commit, encoding): (String, String) = (settings.try_get(2)?, settings.try_get(3)?);
    let standby: i64 = settings.try_get(4)?;
    let rule = if version < VERSION_MIN {
        "is older than version 14; use a newer server"
    } else if standby != 0 {
        "is a standby, which cannot write; connect to the primary"
    } else if encoding != "UTF8" {
        "keeps text in another encoding than UTF8; make the database WITH ENCODING 'UTF8'"
    } else if commit == "off" {
        "forgets commits that it answered; set synchronous_commit = on"
    } else if fsync == "off" {
        tracing::warn!("the server runs with fsync = off: a crash of the machine loses commits");
        return Ok(());
    } else {
        return Ok(());
    };
    Err(Error::caused(Kind::Schema, "use the database", Invalid::new("PostgreSQL", rule)))
}
