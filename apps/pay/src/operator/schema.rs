//! The schema: which migrations there are and which the database has.

use hapax::sql::SqliteStore;
use serde::Serialize;

use crate::{
    config::Config,
    db,
    error::{Error, Kind},
};

/// One migration.
#[derive(Clone, Debug, Serialize)]
pub struct SchemaLine {
    /// Whose tables: `hapax` or `pay`.
    pub part: &'static str,
    /// Its number.
    pub version: i64,
    /// What it does.
    pub name: String,
    /// Whether the database has it.
    pub applied: bool,
}

/// Which migrations there are and which the database has; nothing is changed.
///
/// # Errors
/// [`Kind::Config`] and [`Kind::Store`].
pub async fn migrations(config: &Config) -> Result<Vec<SchemaLine>, Error> {
    let file = config.sqlite_file().map_err(|why| usage(&why))?;
    let opening = SqliteStore::at(&file);
    let line = |part, migration: hapax::sql::Migration| SchemaLine {
        part,
        version: migration.version,
        name: migration.name.to_owned(),
        applied: migration.is_applied,
    };
    let mut lines: Vec<_> =
        opening.migrations().await?.into_iter().map(|one| line("hapax", one)).collect();
    let applied = if file.is_file() { db::applied(&file).await? } else { Vec::new() };
    lines.push(SchemaLine {
        part: "pay",
        version: 1,
        name: "ledger".to_owned(),
        applied: applied.contains(&1),
    });
    Ok(lines)
}

/// Brings the database up to this version and says what is there now.
///
/// # Errors
/// [`Kind::Config`]; [`Kind::Store`] if a newer version was here or a script was edited.
pub async fn migrate(config: &Config) -> Result<Vec<SchemaLine>, Error> {
    let file = config.sqlite_file().map_err(|why| usage(&why))?;
    SqliteStore::at(&file).migrate().await?;
    let sql = SqliteStore::open(&file).await?;
    sql.migrate(db::migrator()).await?;
    sql.close().await;
    migrations(config).await
}

fn usage(why: &crate::config::Unusable) -> Error {
    Error::caused(Kind::Config, "find the database", why.to_string())
}
