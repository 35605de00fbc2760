//! What SQLite alone is like: one writer, which everybody waits for, and a clock in the file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use sqlx::{Connection, SqliteConnection};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    engine::insert,
    stage::{claim, grant, key, send, tenant, value},
};
use hapax_core::{
    Begin, Effect, Lease, Operation, Policy, Ran,
    store::{Answer, Step, Store},
};
use hapax_store::{End, Error, Kind, Sqlite, SqliteStore, Tx};

type Stage = crate::stage::Stage<Sqlite>;

fn policy() -> Policy {
    Policy::new(Effect::Transactional).forever()
}

async fn lease(order: &Operation) -> Lease {
    match order.business(tenant(), key("1001")).begin().await.unwrap() {
        Begin::Run(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_have_their_turn_between_two_writes() {
    let stage = Stage::set().await.with_orders().await;
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writes = JoinSet::new();
    let first = {
        let (sql, started, go_on) = (stage.sql.clone(), Arc::clone(&started), Arc::clone(&go_on));
        async move {
            sql.write("first", async move |mut tx: Tx<Sqlite>| {
                started.notify_one();
                go_on.notified().await;
                insert::<Sqlite>(&mut tx, "first").await
            })
            .await
        }
    };
    writes.spawn(first);
    started.notified().await;
    for item in 0..20 {
        let (sql, is_over) = (stage.sql.clone(), Arc::clone(&is_over));
        writes.spawn(async move {
            let written = sql.write("later", async move |mut tx: Tx<Sqlite>| {
                insert::<Sqlite>(&mut tx, &item.to_string()).await
            });
            written.await?;
            is_over.store(true, Ordering::SeqCst);
            Ok(())
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    // A renewal that comes after twenty writes waits for at most two of them.
    let step = Step::Claim(Arc::new(claim("1001", 1)));
    let claiming = tokio::spawn({
        let sql = stage.sql.clone();
        async move { (send(&sql, step).await, sql.readers().num_idle()) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    go_on.notify_one();
    let (answer, _) = claiming.await.unwrap();
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
    let written = stage.orders().await.len();
    assert!(written <= 4, "{written} writes went before the claim");
    while let Some(written) = writes.join_next().await {
        written.unwrap().unwrap();
    }
    assert!(is_over.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_process_is_waited_for() {
    let stage = Stage::set().await.with_orders().await;
    let mut other = stage.connect().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let writing = tokio::spawn({
        let sql = stage.sql.clone();
        async move {
            sql.write("patient", async |mut tx: Tx<Sqlite>| insert::<Sqlite>(&mut tx, "seat").await)
                .await
        }
    });
    let claiming = tokio::spawn({
        let sql = stage.sql.clone();
        async move { send(&sql, Step::Claim(Arc::new(claim("1001", 1)))).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!writing.is_finished() && !claiming.is_finished(), "somebody else writes");
    let looked = stage.sql.look(vec![claim("1001", 1).id]).await;
    assert!(looked[0].is_ok(), "a look waits for nobody");
    sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    writing.await.unwrap().unwrap();
    assert!(matches!(claiming.await.unwrap(), Answer::Granted(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_on_a_database_that_stays_locked_are_away_and_then_work_again() {
    let stage = Stage::set().await;
    let quick = "PRAGMA busy_timeout = 1";
    let set = stage.sql.write("impatient", async move |mut tx: Tx<Sqlite>| {
        sqlx::query(quick).execute(&mut **tx).await?;
        Ok::<_, Error>(())
    });
    set.await.unwrap();
    let mut other = stage.connect().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let answer = send(&stage.sql, Step::Claim(Arc::new(claim("1001", 1)))).await;
    assert!(matches!(answer, Answer::Away(_)), "{answer:?}");
    let order = stage.operation(Policy::new(Effect::Transactional));
    let error = order.business(tenant(), key("1001")).begin().await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    match order.business(tenant(), key("1001")).begin().await.unwrap() {
        Begin::Run(lease) => {
            lease.complete(value("done")).await.unwrap();
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_begun_inside_a_closure_ends_with_a_clear_error() {
    let stage = Stage::set().await.with_orders().await;
    let order = stage.operation(policy().lease(Duration::from_millis(600)));
    let inner = order.clone();
    let ran = stage
        .sql
        .run_in_tx(order.business(tenant(), key("outer")), async move |tx: Tx<Sqlite>| {
            // The claim waits for the writer, which waits for us.
            let begun = inner.business(tenant(), key("inner")).begin().await;
            drop((begun, tx));
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    assert_eq!(ran.unwrap_err().kind(), Kind::Late);
    let free = stage
        .sql
        .write("after", async |mut tx: Tx<Sqlite>| insert::<Sqlite>(&mut tx, "seat").await);
    free.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_statement_runs_the_whole_closure_again() {
    let stage = Stage::set().await.with_orders().await;
    let order = stage.operation(policy());
    let side = std::path::Path::new(stage.place()).with_file_name("side.db");
    SqliteStore::open(&side).await.unwrap().close().await;
    let url = format!("sqlite://{}", side.display());
    let mut holder = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut holder).await.unwrap();

    let (runs, holder) = (Arc::new(AtomicU32::new(0)), Arc::new(tokio::sync::Mutex::new(holder)));
    let counted = Arc::clone(&runs);
    let ran = stage
        .sql
        .run_in_tx(order.business(tenant(), key("1001")), async move |mut tx: Tx<Sqlite>| {
            insert::<Sqlite>(&mut tx, "seat").await?;
            if counted.fetch_add(1, Ordering::SeqCst) == 2 {
                sqlx::query("COMMIT").execute(&mut *holder.lock().await).await?;
            }
            // Another database that is locked: a real SQLITE_BUSY.
            let mut conn = SqliteConnection::connect(&url).await?;
            sqlx::query("PRAGMA busy_timeout = 0").execute(&mut conn).await?;
            conn.begin_with("BEGIN IMMEDIATE").await?.rollback().await?;
            Ok::<_, Error>(End::Commit(1))
        })
        .await;
    assert!(matches!(ran, Ok(Ran::Fresh(1))), "{ran:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 3, "two runs met the lock");
    assert_eq!(stage.orders().await, ["seat"], "rows of the failed runs are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_too_old_gives_the_lease_back() {
    let stage = Stage::set().await.with_clock().await.with_orders().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let lease = lease(&order).await;
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM orders").execute(&mut *tx).await.unwrap();
    stage.pass(Duration::ZERO).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    let unsealed = joined.seal(&mut tx, &"done").await.unwrap_err();
    assert!(unsealed.error().is_retryable(), "{unsealed:?}");
    tx.rollback().await.unwrap();

    let lease = unsealed.into_lease().unwrap();
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    joined.seal(&mut tx, &"done").await.unwrap().commit(tx).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_never_goes_back() {
    let stage = Stage::set().await.with_clock().await;
    let future = stage.pass(Duration::from_secs(3600)).await;
    // The machine's clock is an hour behind now; so it would be if somebody had set it back.
    assert!(stage.sql.now().await.unwrap() >= future);
    let (granted, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    assert!(granted.now >= future, "{granted:?}");
    let other = stage.other().await;
    assert!(other.now().await.unwrap() >= future, "another store on the file agrees");
    match send(&other, Step::Renew { fence, lease: Duration::from_secs(1) }).await {
        Answer::Applied { now, .. } => assert!(now >= granted.now),
        answer => panic!("{answer:?}"),
    }
    stage.sql.close().await;
    let again = stage.other().await;
    assert!(again.now().await.unwrap() >= future, "it outlives the process");
}
