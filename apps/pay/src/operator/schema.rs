//! The schema: which steps there are and which the database has.
//!
//! Invariant: an operator's verb never changes the schema as a side effect, and works on no schema
//! but this build's (`a_verb_refuses_a_database_that_is_not_current`).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    config::Config,
    db,
    error::{Error, Kind},
};
use hapax::sql::SqliteStore;

/// Whose tables: the engine's, with a history of their own.
const HAPAX: &str = "hapax";
/// Whose tables: the payment service's.
const PAY: &str = "pay";

/// One step of the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaLine {
    /// Whose tables: `hapax` or `pay`.
    pub part: &'static str,
    /// Its number.
    pub version: i64,
    /// What it brings.
    pub name: String,
    /// Whether the database has it.
    pub applied: bool,
    /// What it does, or did.
    #[serde(skip)]
    pub sql: String,
}

/// Which steps there are and which the database has; nothing is changed.
///
/// # Errors
/// [`Kind::Config`]; [`Kind::Store`]; [`Kind::Schema`] if a newer version was here or a script was
/// edited.
pub async fn migrations(config: &Config) -> Result<Vec<SchemaLine>, Error> {
    let file = file(config)?;
    let engine = SqliteStore::at(&file).migrations().await?.into_iter();
    let mut lines: Vec<_> = engine
        .map(|step| SchemaLine {
            part: HAPAX,
            version: step.version,
            name: step.name.to_owned(),
            applied: step.is_applied,
            sql: step.sql.to_owned(),
        })
        .collect();
    lines.extend(own(&file).await?);
    Ok(lines)
}

/// Brings the database up to this version, makes it if it is missing, and says which steps ran.
///
/// # Errors
/// Those of [`migrations`].
pub async fn migrate(config: &Config) -> Result<Vec<SchemaLine>, Error> {
    let file = file(config)?;
    if let Some(home) = file.parent().filter(|home| !home.as_os_str().is_empty() && !home.is_dir())
    {
        let why = format!("there is no directory {}; make it first", home.display());
        return Err(Error::caused(Kind::Store, "make the database", why));
    }
    // Whatever a newer build wrote is refused before anything is changed.
    let before = migrations(config).await?;
    SqliteStore::at(&file).migrate().await?;
    let sql = SqliteStore::open(&file).await?;
    let migrated = sql.migrate(db::migrator()).await;
    sql.close().await;
    migrated?;
    let missing = before.into_iter().filter(|line| !line.applied);
    Ok(missing.map(|line| SchemaLine { applied: true, ..line }).collect())
}

/// Refuses a database that lacks a step.
pub(super) async fn check(config: &Config) -> Result<(), Error> {
    let Some(missing) = migrations(config).await?.into_iter().find(|line| !line.applied) else {
        return Ok(());
    };
    let SchemaLine { part, version, name, .. } = missing;
    let why = format!(
        "the database {} lacks step {part} {version} ({name}) of the schema; \
         run `hapax migrate up`",
        file(config)?.display()
    );
    Err(Error::caused(Kind::Schema, "open the database", why))
}

/// The file of the database.
pub(super) fn file(config: &Config) -> Result<PathBuf, Error> {
    config.sqlite_file().map_err(|why| Error::caused(Kind::Config, "find the database", why))
}

/// The steps of the service's own tables.
async fn own(file: &Path) -> Result<Vec<SchemaLine>, Error> {
    let mut applied = match file.is_file() {
        true => db::applied(file).await?.into_iter().collect::<BTreeMap<_, _>>(),
        false => BTreeMap::new(),
    };
    let migrator = db::migrator();
    let steps = migrator.iter().filter(|step| step.migration_type.is_up_migration());
    let mut lines = Vec::new();
    for step in steps {
        let found = applied.remove(&step.version);
        if found.as_ref().is_some_and(|checksum| *checksum != *step.checksum) {
            return Err(refused(format!(
                "step {PAY} {} was made by another script than this build has: run the build \
                 that belongs to the database",
                step.version
            )));
        }
        lines.push(SchemaLine {
            part: PAY,
            version: step.version,
            name: step.description.to_string(),
            applied: found.is_some(),
            sql: step.sql.as_str().to_owned(),
        });
    }
    match applied.keys().next_back() {
        None => Ok(lines),
        Some(newer) => Err(refused(format!(
            "the database has step {PAY} {newer}, which this build does not know: run a newer build"
        ))),
    }
}

fn refused(sentence: String) -> Error {
    Error::caused(Kind::Schema, "use the database", sentence)
}
