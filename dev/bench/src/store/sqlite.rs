//! SQLite: a file, one writer, every commit flushed.

use std::sync::Arc;

use anyhow::ensure;
use futures_util::future::BoxFuture;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{ANSWER, Bench, Operations, Work, Worker, answer, call, one};
use hapax::{
    Hapax, Ran,
    sql::{End, Error, Sqlite, SqliteStore, Tx},
};

struct Ours {
    store: SqliteStore,
    operations: Operations,
}

struct Raw {
    writer: SqlitePool,
    readers: SqlitePool,
}

struct Bare(SqlitePool);

/// Measures on a server of its own.
pub(super) async fn with<W>(measure: impl FnOnce(Bench) -> W) -> anyhow::Result<()>
where
    W: Future<Output = anyhow::Result<()>>,
{
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("ours.db")).await?;
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("raw.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .test_before_acquire(false)
            .connect_lazy_with(options.clone())
    };
    let (writer, readers) = (pool(1), pool(4));
    let business = "CREATE TABLE business (id INTEGER PRIMARY KEY, item TEXT) STRICT";
    sqlx::raw_sql(
        "CREATE TABLE pairs (id TEXT PRIMARY KEY, state TEXT NOT NULL, answer BLOB) STRICT",
    )
    .execute(&writer)
    .await?;
    sqlx::raw_sql(business).execute(&writer).await?;
    store
        .write("business", async move |mut tx: Tx<Sqlite>| {
            sqlx::raw_sql(business).execute(&mut **tx).await?;
            Ok::<_, Error>(())
        })
        .await?;
    let operations = Operations::on(&Hapax::new(Arc::new(store.clone())))?;
    let bench = Bench {
        ours: Arc::new(Ours { store: store.clone(), operations }),
        raw: Arc::new(Raw { writer: writer.clone(), readers }),
        bare: Arc::new(Bare(writer.clone())),
    };
    measure(bench).await?;
    writer.close().await;
    store.close().await;
    Ok(())
}

impl Worker for Ours {
    fn work(&self, work: Work, key: String) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            match work {
                Work::Pair => self.operations.pair(&key).await,
                Work::Replay => self.operations.replay(&key).await,
                Work::Guarded => {
                    let call = call(&self.operations.transactional, &key)?;
                    let item = key.clone();
                    let ran = self.store.run_in_tx(call, async move |mut tx: Tx<Sqlite>| {
                        sqlx::query("INSERT INTO business (item) VALUES ($1)")
                            .bind(item)
                            .execute(&mut **tx)
                            .await?;
                        Ok::<_, Error>(End::Commit(answer()))
                    });
                    ensure!(matches!(ran.await?, Ran::Fresh(_)), "{key} was not new");
                    Ok(())
                }
            }
        })
    }
}

impl Worker for Raw {
    fn work(&self, work: Work, key: String) -> BoxFuture<'_, anyhow::Result<()>> {
        const CLAIM: &str =
            "INSERT INTO pairs (id, state) VALUES ($1, 'held') ON CONFLICT DO NOTHING";
        const COMPLETE: &str =
            "UPDATE pairs SET state = 'done', answer = $2 WHERE id = $1 AND state = 'held'";
        Box::pin(async move {
            match work {
                Work::Pair => {
                    let claimed = sqlx::query(CLAIM).bind(&key).execute(&self.writer).await?;
                    one(claimed.rows_affected(), &key)?;
                    let complete = sqlx::query(COMPLETE).bind(&key).bind(ANSWER.as_slice());
                    one(complete.execute(&self.writer).await?.rows_affected(), &key)
                }
                Work::Replay => {
                    let look = "SELECT answer FROM pairs WHERE id = $1 AND state = 'done'";
                    let answer: Vec<u8> =
                        sqlx::query_scalar(look).bind(&key).fetch_one(&self.readers).await?;
                    ensure!(answer == ANSWER, "{key} has another answer");
                    Ok(())
                }
                Work::Guarded => {
                    let mut tx = self.writer.begin_with("BEGIN IMMEDIATE").await?;
                    let claimed = sqlx::query(CLAIM).bind(&key).execute(&mut *tx).await?;
                    one(claimed.rows_affected(), &key)?;
                    sqlx::query("INSERT INTO business (item) VALUES ($1)")
                        .bind(&key)
                        .execute(&mut *tx)
                        .await?;
                    let complete = sqlx::query(COMPLETE).bind(&key).bind(ANSWER.as_slice());
                    one(complete.execute(&mut *tx).await?.rows_affected(), &key)?;
                    tx.commit().await?;
                    Ok(())
                }
            }
        })
    }
}

impl Worker for Bare {
    fn work(&self, _: Work, key: String) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            let mut tx = self.0.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("INSERT INTO business (item) VALUES ($1)")
                .bind(&key)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(())
        })
    }
}
