//! MariaDB: a private server, durable as it is by default.

use std::sync::Arc;

use anyhow::ensure;
use futures_util::future::BoxFuture;
use sqlx::{MySqlPool, mysql::MySqlPoolOptions};

use super::{ANSWER, Bench, Operations, POOL, Work, Worker, answer, call, one};
use hapax::{
    Hapax, Ran,
    sql::{End, Error, MySql, MySqlStore, Tx},
};

struct Ours {
    store: MySqlStore,
    operations: Operations,
}

struct Raw(MySqlPool);

struct Bare(MySqlPool);

/// Measures on a server of its own.
pub(super) async fn with<W>(measure: impl FnOnce(Bench) -> W) -> anyhow::Result<()>
where
    W: Future<Output = anyhow::Result<()>>,
{
    let server = hapax_testkit::MariaDb::start().await?;
    let store = MySqlStore::at(server.url()).steps(POOL).business(POOL).readers(POOL);
    let store = store.open().await?;
    let pool = MySqlPoolOptions::new()
        .max_connections(POOL)
        .test_before_acquire(false)
        .connect(&server.url())
        .await?;
    sqlx::raw_sql(
        "CREATE TABLE pairs (
            id VARBINARY(255) PRIMARY KEY, state VARBINARY(16) NOT NULL, answer BLOB);
         CREATE TABLE business (id BIGINT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(255))",
    )
    .execute(&pool)
    .await?;
    let operations = Operations::on(&Hapax::new(Arc::new(store.clone())))?;
    let bench = Bench {
        ours: Arc::new(Ours { store: store.clone(), operations }),
        raw: Arc::new(Raw(pool.clone())),
        bare: Arc::new(Bare(pool.clone())),
    };
    measure(bench).await?;
    pool.close().await;
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
                    let ran = self.store.run_in_tx(call, async move |mut tx: Tx<MySql>| {
                        sqlx::query("INSERT INTO business (item) VALUES (?)")
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
        const CLAIM: &str = "INSERT INTO pairs (id, state) VALUES (?, 'held')";
        const COMPLETE: &str =
            "UPDATE pairs SET state = 'done', answer = ? WHERE id = ? AND state = 'held'";
        Box::pin(async move {
            match work {
                Work::Pair => {
                    let claimed = sqlx::query(CLAIM).bind(&key).execute(&self.0).await?;
                    one(claimed.rows_affected(), &key)?;
                    let complete = sqlx::query(COMPLETE).bind(ANSWER.as_slice()).bind(&key);
                    one(complete.execute(&self.0).await?.rows_affected(), &key)
                }
                Work::Replay => {
                    let look = "SELECT answer FROM pairs WHERE id = ? AND state = 'done'";
                    let answer: Vec<u8> =
                        sqlx::query_scalar(look).bind(&key).fetch_one(&self.0).await?;
                    ensure!(answer == ANSWER, "{key} has another answer");
                    Ok(())
                }
                Work::Guarded => {
                    let mut tx = self.0.begin().await?;
                    let claimed = sqlx::query(CLAIM).bind(&key).execute(&mut *tx).await?;
                    one(claimed.rows_affected(), &key)?;
                    sqlx::query("INSERT INTO business (item) VALUES (?)")
                        .bind(&key)
                        .execute(&mut *tx)
                        .await?;
                    let complete = sqlx::query(COMPLETE).bind(ANSWER.as_slice()).bind(&key);
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
            let mut tx = self.0.begin().await?;
            sqlx::query("INSERT INTO business (item) VALUES (?)")
                .bind(&key)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(())
        })
    }
}
