//! The schema and its steps.

use sqlx::Connection;

use crate::stage::{Stage, claim, grant};
use hapax_store::{Kind, SqliteStore};

#[tokio::test(flavor = "multi_thread")]
async fn the_steps_are_listed_before_they_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let file = SqliteStore::at(dir.path().join("hapax.db"));
    let before = file.migrations().await.unwrap();
    assert!(before.iter().all(|step| !step.is_applied && step.sql.contains("CREATE TABLE")));
    assert!(!dir.path().join("hapax.db").exists(), "a list makes no file");
    let taken = file.migrate().await.unwrap();
    assert_eq!(taken.len(), before.len());
    assert!(file.migrate().await.unwrap().is_empty(), "twice is once");
    assert!(file.migrations().await.unwrap().iter().all(|step| step.is_applied));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_has_a_way_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = SqliteStore::at(dir.path().join("hapax.db"));
    let steps = file.migrate().await.unwrap().len();
    for version in (0..i64::try_from(steps).unwrap()).rev() {
        file.revert(version).await.unwrap();
        let applied = file.migrations().await.unwrap();
        let applied = applied.iter().filter(|step| step.is_applied).count();
        assert_eq!(i64::try_from(applied), Ok(version));
    }
    assert_eq!(file.migrate().await.unwrap().len(), steps, "and forth again");
    file.open().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_refused() {
    let stage = Stage::set().await;
    let mut conn = stage.connect().await;
    sqlx::query(
        "INSERT INTO _hapax_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, x'00', 0)",
    )
    .execute(&mut conn)
    .await
    .unwrap();
    conn.close().await.unwrap();
    let error = SqliteStore::open(stage.path()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("schema version 9999") && why.contains("run a newer build"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_step_is_refused() {
    let stage = Stage::set().await;
    let mut conn = stage.connect().await;
    sqlx::query("UPDATE _hapax_migrations SET checksum = x'00' WHERE version = 2")
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
    let error = SqliteStore::open(stage.path()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("schema version 2 was applied from another script"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_outlive_the_store_that_wrote_them() {
    let stage = Stage::set().await;
    let (granted, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    stage.sql.close().await;
    let again = stage.other().await;
    let (repeated, same) = grant(&again, &claim("1001", 1)).await;
    assert_eq!((repeated.epoch, same), (granted.epoch, fence));
}

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
    let files: Vec<_> = std::fs::read_dir(stage.path().parent().unwrap())
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
    let facts = stage.sql.write("facts", async |mut tx: hapax_store::Tx<hapax_store::Sqlite>| {
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut **tx).await?;
        let flush: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut **tx).await?;
        let keys: i64 = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(&mut **tx).await?;
        Ok::<_, hapax_store::Error>((mode, flush, keys))
    });
    assert_eq!(facts.await.unwrap(), ("wal".to_owned(), 2, 1));
    let refused = sqlx::query("DELETE FROM hapax_records").execute(stage.sql.readers()).await;
    assert!(refused.is_err(), "readers cannot write");
}
