//! Business transactions of the caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};

use crate::stage::{Stage, claim, key, send, tenant};
use hapax_core::{
    Begin, Effect, Outcome, Policy,
    store::{Answer, Step, Store},
};
use hapax_store::{Error, Kind, Sqlite, SqliteStore, Tx};

async fn insert(tx: &mut Tx<Sqlite>, item: &str) -> Result<(), Error> {
    let insert = sqlx::query("INSERT INTO orders (item) VALUES (?1)").bind(item.to_owned());
    insert.execute(&mut ***tx).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_commits_on_ok_and_leaves_nothing_otherwise() {
    let stage = Stage::set().await.with_orders().await;
    let ok = stage.sql.write("ok", async |mut tx: Tx<Sqlite>| {
        insert(&mut tx, "kept").await?;
        Ok::<_, Error>(7)
    });
    assert_eq!(ok.await.unwrap(), 7);
    let failed = stage.sql.write("failed", async |mut tx: Tx<Sqlite>| {
        insert(&mut tx, "gone").await?;
        sqlx::query("INSERT INTO nowhere VALUES (1)").execute(&mut **tx).await?;
        Ok::<_, Error>(())
    });
    assert_eq!(failed.await.unwrap_err().kind(), Kind::Refused);
    let panicked = stage.sql.write("panicked", async |mut tx: Tx<Sqlite>| {
        insert(&mut tx, "gone").await?;
        assert!(tx.is_empty(), "the closure panics");
        Ok::<_, Error>(())
    });
    assert_eq!(panicked.await.unwrap_err().kind(), Kind::Panicked);
    assert_eq!(stage.orders().await, ["kept"]);
}

/// Something to be wrong about.
trait IsEmpty {
    fn is_empty(&self) -> bool {
        false
    }
}

impl IsEmpty for Tx<Sqlite> {}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_takes_too_long_is_rolled_back() {
    let stage = Stage::set().await.with_orders().await;
    let short = SqliteStore::at(stage.path()).hold_max(Duration::from_millis(100));
    let short = short.open().await.unwrap();
    let late = short.write("late", async |mut tx: Tx<Sqlite>| {
        insert(&mut tx, "gone").await?;
        std::future::pending::<()>().await;
        Ok::<_, Error>(())
    });
    assert_eq!(late.await.unwrap_err().kind(), Kind::Late);
    let free = stage.sql.write("after", async |mut tx: Tx<Sqlite>| insert(&mut tx, "kept").await);
    free.await.unwrap();
    assert_eq!(stage.orders().await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_waits_for_its_turn_only_so_long() {
    let stage = Stage::set().await.with_orders().await;
    let hasty = SqliteStore::at(stage.path()).wait_max(Duration::from_millis(100));
    let hasty = hasty.open().await.unwrap();
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut writes = JoinSet::new();
    let (sql, starts, goes) = (hasty.clone(), Arc::clone(&started), Arc::clone(&go_on));
    writes.spawn(async move {
        let first = sql.write("first", async move |mut tx: Tx<Sqlite>| {
            insert(&mut tx, "kept").await?;
            starts.notify_one();
            goes.notified().await;
            Ok::<_, Error>(())
        });
        first.await.unwrap();
    });
    started.notified().await;
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&has_begun);
    let second = hasty.write("second", async move |mut tx: Tx<Sqlite>| {
        begins.store(true, Ordering::SeqCst);
        insert(&mut tx, "gone").await
    });
    let second = tokio::time::timeout(Duration::from_secs(2), second).await;
    let error = second.expect("it does not wait for the first one").unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains("nothing begun"), "{error}");
    go_on.notify_one();
    writes.join_all().await;
    let third = hasty.write("third", async |mut tx: Tx<Sqlite>| insert(&mut tx, "kept too").await);
    third.await.unwrap();
    assert!(!has_begun.load(Ordering::SeqCst));
    assert_eq!(stage.orders().await, ["kept", "kept too"]);
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
                insert(&mut tx, "first").await
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
                insert(&mut tx, &item.to_string()).await
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
            sql.write("patient", async |mut tx: Tx<Sqlite>| insert(&mut tx, "seat").await).await
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
            lease.complete(Outcome::Value(bytes::Bytes::from("done"))).await.unwrap();
        }
        other => panic!("{other:?}"),
    }
}
