//! The schema, step by step, in a table of our own beside the caller's.
//!
//! Invariant: two processes that start at once bring the schema up once, and a schema of a newer
//! build is refused (`two_processes_migrate_at_once`, `a_newer_schema_is_refused`).

use std::{collections::BTreeMap, fmt};

use sqlx::{
    Pool, SqlSafeStr,
    migrate::{Migrate, MigrateError, MigrationType, Migrator},
};

use super::{
    dialect::{Conn, Dialect},
    fate::Fate,
    write::{RERUN_PAUSES, RUNS_MAX},
};
use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock, backoff};

/// The table in which it is written what was done.
const TABLE: &str = "_hapax_migrations";

/// One step of the schema, up and down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(super) version: i64,
    pub(super) name: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
}

impl Script {
    pub(super) fn pending(&self) -> Migration {
        let Self { version, name, up, .. } = *self;
        Migration { version, name, sql: up, is_applied: false }
    }
}

/// The scripts of one engine, from its folder.
macro_rules! scripts {
    ($engine:literal: $($version:literal $name:literal)+) => {
        &[$(Script {
            version: $version,
            name: $name,
            up: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/000", $version, "_", $name,
                ".up.sql"
            )),
            down: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/000", $version, "_", $name,
                ".down.sql"
            )),
        }),+]
    };
}
pub(super) use scripts;

/// One step of the schema, and whether this database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number.
    pub version: i64,
    /// What it brings.
    pub name: &'static str,
    /// What it does, or did.
    pub sql: &'static str,
    /// Whether this database has it.
    pub is_applied: bool,
}

/// The scripts as the driver runs them.
pub(super) fn migrator(scripts: &[Script]) -> Migrator {
    let both = scripts.iter().flat_map(|script| {
        [(MigrationType::ReversibleUp, script.up), (MigrationType::ReversibleDown, script.down)]
            .map(|(kind, sql)| {
                let name = script.name.into();
                sqlx::migrate::Migration::new(script.version, name, kind, sql.into_sql_str(), false)
            })
    });
    let mut migrator = Migrator::with_migrations(both.collect());
    migrator.dangerous_set_table_name(TABLE);
    // Ours ends with the transaction; the driver's would outlive it on a shared connection.
    migrator.set_locking(false);
    migrator
}

/// What this database has of the scripts.
pub(super) async fn list<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
    scripts: &[Script],
) -> Result<Vec<Migration>, Error> {
    let applied = applied::<D>(pool).await?;
    let migrator = migrator(scripts);
    let known: BTreeMap<i64, _> = migrator
        .iter()
        .filter(|script| script.migration_type.is_up_migration())
        .map(|script| (script.version, &script.checksum))
        .collect();
    for (version, checksum) in &applied {
        match known.get(version) {
            Some(known) if ***known == **checksum => {}
            Some(_) => return Err(Mismatch::Edited(*version).into()),
            None => {
                let latest = known.keys().next_back().copied().unwrap_or_default();
                return Err(Mismatch::Newer { found: *version, latest }.into());
            }
        }
    }
    let state = scripts.iter().map(|script| Migration {
        version: script.version,
        name: script.name,
        sql: script.up,
        is_applied: applied.contains_key(&script.version),
    });
    Ok(state.collect())
}

async fn applied<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
) -> Result<BTreeMap<i64, Vec<u8>>, Error> {
    if D::read(pool, D::SCHEMA_EXISTS, Vec::new()).await?.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = D::read(pool, D::SCHEMA_APPLIED, Vec::new()).await?;
    let pairs = rows.into_iter().map(|mut row| Ok((row.int()?, row.bytes()?.to_vec())));
    pairs.collect::<Result<_, _>>().map_err(Error::torn)
}

/// Runs what is missing, in one transaction that keeps other processes out.
pub(super) async fn up<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
    migrator: &Migrator,
) -> Result<(), Error> {
    let mut pauses = backoff(RERUN_PAUSES).take(RUNS_MAX - 1);
    loop {
        let error = match change::<D>(pool, migrator, None).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match pauses.next() {
            Some(pause) if Fate::is_again(&error) => SystemClock.sleep(pause).await,
            _ => return Err(error),
        }
    }
}

/// Takes back what came after `version`, with all that it holds.
pub(super) async fn down<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
    migrator: &Migrator,
    version: i64,
) -> Result<(), Error> {
    change::<D>(pool, migrator, Some(version)).await
}

async fn change<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
    migrator: &Migrator,
    back_to: Option<i64>,
) -> Result<(), Error> {
    if D::SCHEMA_COMMITS {
        let mut conn = pool.acquire().await?;
        let changed = locked::<D>(&mut conn, migrator, back_to).await;
        // Without it the lock would stay with a connection of the pool.
        if D::unlock_schema(&mut conn).await.is_err() {
            conn.close_on_drop();
        }
        return changed;
    }
    let mut tx = D::begin(pool).await?;
    match locked::<D>(&mut tx, migrator, back_to).await {
        Ok(()) => D::commit(tx).await.map_err(super::store::commit_error),
        Err(error) => {
            // The scripts' transaction is gone either way; the cause says what matters.
            drop(tx.rollback().await);
            Err(error)
        }
    }
}

async fn locked<D: Dialect>(
    conn: &mut Conn<D>,
    migrator: &Migrator,
    back_to: Option<i64>,
) -> Result<(), Error> {
    D::lock_schema(conn).await.map_err(|cause| Error::undone("lock the schema", cause))?;
    let changed = match back_to {
        // Not `run`: its bound on the connection does not hold in a spawned task.
        None => migrator.run_direct(None, conn, false).await,
        Some(version) => undo::<D>(conn, migrator, version).await,
    };
    changed.map_err(|cause| read(migrator, cause))
}

/// Runs the way back of every script after `version`, the latest first.
async fn undo<D: Dialect>(
    conn: &mut Conn<D>,
    migrator: &Migrator,
    version: i64,
) -> Result<(), MigrateError> {
    conn.ensure_migrations_table(TABLE).await?;
    let applied = conn.list_applied_migrations(TABLE).await?;
    let later = |script: &&sqlx::migrate::Migration| {
        script.version > version && script.migration_type.is_down_migration()
    };
    for script in migrator.iter().rev().filter(later) {
        if applied.iter().any(|applied| applied.version == script.version) {
            conn.revert(TABLE, script).await?;
        }
    }
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other failures are one to us")]
fn read(migrator: &Migrator, cause: MigrateError) -> Error {
    let latest = migrator.iter().map(|script| script.version).max().unwrap_or_default();
    match cause {
        MigrateError::VersionMissing(found) => Mismatch::Newer { found, latest }.into(),
        MigrateError::VersionMismatch(version) => Mismatch::Edited(version).into(),
        MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _) => {
            Error::undone("bring the schema up", cause)
        }
        cause => Error::caused(Kind::Schema, "bring the schema up", cause),
    }
}

/// A schema that is not ours.
#[derive(Debug)]
pub(super) enum Mismatch {
    Older(i64),
    Newer { found: i64, latest: i64 },
    Edited(i64),
}

impl From<Mismatch> for Error {
    fn from(mismatch: Mismatch) -> Self {
        Self::caused(Kind::Schema, "use the database", mismatch)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older(version) => {
                write!(f, "the database lacks schema version {version}: start the service again")
            }
            Self::Newer { found, latest } => write!(
                f,
                "the database has schema version {found}, this build knows versions up to \
                 {latest}: run a newer build"
            ),
            Self::Edited(version) => write!(
                f,
                "schema version {version} was applied from another script than this build has: \
                 run the build that belongs to the database"
            ),
        }
    }
}

impl std::error::Error for Mismatch {}
