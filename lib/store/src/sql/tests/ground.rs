//! Each engine, as tests have it: a fresh database whose clock stands still unless it is moved.

use std::{any::Any, future::Future, time::Duration};

use sqlx::Executor as _;

use crate::{
    error::Error,
    sql::{
        Dialect, MySql, MySqlStore, Postgres, PostgresStore, Sql, Sqlite, SqliteStore, Tx,
        dialect::Bind,
    },
};
use hapax_core::{Timestamp, millis};

/// Where every clock begins: 2027, so that none of them goes on by itself.
const BEGINNING: i64 = 1_800_000_000_000;

/// An engine on trial.
pub(in crate::sql) trait Ground: Dialect {
    /// A store in a fresh database, and what must outlive it.
    fn open() -> impl Future<Output = (Box<dyn Any + Send + Sync>, Sql<Self>)> + Send;

    /// Moves the clock by `$1` milliseconds.
    const PASS: &'static str;
}

/// Takes the clock of a server out of its hands.
macro_rules! stop_clock {
    () => {
        "CREATE TABLE hapax_test_clock (now BIGINT NOT NULL);
INSERT INTO hapax_test_clock (now) VALUES (1800000000000);
CREATE OR REPLACE VIEW hapax_now (now) AS SELECT max(now) FROM hapax_test_clock"
    };
}

impl Ground for Sqlite {
    async fn open() -> (Box<dyn Any + Send + Sync>, Sql<Self>) {
        let dir = tempfile::tempdir().unwrap();
        let sql = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
        // What is compared is what the statements do, not whether it is flushed.
        let pool = &sql.shared().pools.business;
        pool.execute("PRAGMA synchronous = OFF").await.unwrap();
        sqlx::query("UPDATE hapax_clock SET latest = $1")
            .bind(BEGINNING)
            .execute(pool)
            .await
            .unwrap();
        (Box::new(dir), sql)
    }

    const PASS: &'static str = "UPDATE hapax_clock SET latest = latest + $1";
}

impl Ground for Postgres {
    async fn open() -> (Box<dyn Any + Send + Sync>, Sql<Self>) {
        let database = hapax_testkit::postgres().await.unwrap();
        let sql = PostgresStore::open(database.url()).await.unwrap();
        sqlx::raw_sql(stop_clock!()).execute(&sql.shared().pools.steps).await.unwrap();
        (Box::new(database), sql)
    }

    const PASS: &'static str = "UPDATE hapax_test_clock SET now = now + $1";
}

impl Ground for MySql {
    async fn open() -> (Box<dyn Any + Send + Sync>, Sql<Self>) {
        let database = hapax_testkit::mariadb().await.unwrap();
        let sql = MySqlStore::open(database.url()).await.unwrap();
        sqlx::raw_sql(stop_clock!()).execute(&sql.shared().pools.steps).await.unwrap();
        (Box::new(database), sql)
    }

    const PASS: &'static str = "UPDATE hapax_test_clock SET now = now + $1";
}

/// Moves the clock of a store of `G` on; what it shows then.
pub(in crate::sql) async fn pass<G: Ground, D>(sql: &Sql<D>, span: Duration) -> Timestamp
where
    D: Dialect<Db = <G as Dialect>::Db>,
{
    let moved = sql.write("pass", async move |mut tx: Tx<D>| {
        D::execute(&mut tx, G::PASS, vec![Bind::Int(millis(span))]).await?;
        Ok::<_, Error>(())
    });
    moved.await.unwrap();
    sql.now().await.unwrap()
}
