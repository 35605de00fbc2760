//! The file that SQLite keeps a database in: who may read it, what is refused, what is flushed.

use crate::stage::{claim, grant};
use hapax_store::{Error, Kind, Sqlite, SqliteStore, Tx};

type Stage = crate::stage::Stage<Sqlite>;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_memory_is_refused() {
    for path in ["", ":memory:", "file::memory:?cache=shared", "file:x.db", "sqlite:x.db"] {
        let error = SqliteStore::open(path).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{path:?}");
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.starts_with("database must be"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_directory_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(dir.path().join("nowhere/hapax.db")).await.unwrap_err();
    assert_eq!(error.to_string(), "make the database file: the database is busy or not reachable");
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "this is no database, and longer than a page header ".repeat(20))
        .unwrap();
    let error = SqliteStore::open(&file).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::set().await;
    grant(&stage.sql, &claim("1001", 1)).await;
    let files: Vec<_> = std::fs::read_dir(std::path::Path::new(stage.place()).parent().unwrap())
        .unwrap()
        .map(|file| file.unwrap())
        .collect();
    assert_eq!(files.len(), 3, "database, log and index: {files:?}");
    for file in files {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_commit_is_flushed_and_logged_ahead() {
    let stage = Stage::set().await;
    let facts = stage.sql.write("facts", async |mut tx: Tx<Sqlite>| {
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut **tx).await?;
        let flush: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut **tx).await?;
        let keys: i64 = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(&mut **tx).await?;
        Ok::<_, Error>((mode, flush, keys))
    });
    assert_eq!(facts.await.unwrap(), ("wal".to_owned(), 2, 1));
    let refused = sqlx::query("DELETE FROM hapax_records").execute(stage.sql.readers()).await;
    assert!(refused.is_err(), "readers cannot write");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_the_steps_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hapax.db");
    assert!(!SqliteStore::at(&path).migrations().await.unwrap().is_empty());
    assert!(!path.exists());
}
