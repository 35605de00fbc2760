//! Business transactions of the caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};

use crate::{
    engine::{Engine, blunder, insert, on_each_engine},
    stage::Stage,
};
use hapax_store::{Error, Kind, Tx};

on_each_engine! {
    a_write_commits_on_ok_and_leaves_nothing_otherwise
    a_write_that_takes_too_long_is_rolled_back
    a_transaction_waits_for_its_turn_only_so_long
}

async fn a_write_commits_on_ok_and_leaves_nothing_otherwise<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let ok = stage.sql.write("ok", async |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "kept").await?;
        Ok::<_, Error>(7)
    });
    assert_eq!(ok.await.unwrap(), 7);
    let failed = stage.sql.write("failed", async |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "gone").await?;
        blunder::<E>(&mut tx).await?;
        Ok::<_, Error>(())
    });
    assert_eq!(failed.await.unwrap_err().kind(), Kind::Refused);
    let panicked = stage.sql.write("panicked", async |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "gone").await?;
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

impl<E: Engine> IsEmpty for Tx<E> {}

async fn a_write_that_takes_too_long_is_rolled_back<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let short = E::at(stage.place()).hold_max(Duration::from_millis(100));
    let short = E::open(&short).await.unwrap();
    let late = short.write("late", async |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "gone").await?;
        std::future::pending::<()>().await;
        Ok::<_, Error>(())
    });
    assert_eq!(late.await.unwrap_err().kind(), Kind::Late);
    let free = stage.sql.write("after", async |mut tx: Tx<E>| insert::<E>(&mut tx, "kept").await);
    free.await.unwrap();
    assert_eq!(stage.orders().await, ["kept"]);
}

async fn a_transaction_waits_for_its_turn_only_so_long<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let hasty = E::at(stage.place()).business(1).wait_max(Duration::from_millis(100));
    let hasty = E::open(&hasty).await.unwrap();
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let mut writes = JoinSet::new();
    let (sql, starts, goes) = (hasty.clone(), Arc::clone(&started), Arc::clone(&go_on));
    writes.spawn(async move {
        let first = sql.write("first", async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "kept").await?;
            starts.notify_one();
            goes.notified().await;
            Ok::<_, Error>(())
        });
        first.await.unwrap();
    });
    started.notified().await;
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&has_begun);
    let second = hasty.write("second", async move |mut tx: Tx<E>| {
        begins.store(true, Ordering::SeqCst);
        insert::<E>(&mut tx, "gone").await
    });
    let second = tokio::time::timeout(Duration::from_secs(2), second).await;
    let error = second.expect("it does not wait for the first one").unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains("nothing begun"), "{error}");
    go_on.notify_one();
    writes.join_all().await;
    let third = hasty.write("third", async |mut tx: Tx<E>| insert::<E>(&mut tx, "kept too").await);
    third.await.unwrap();
    assert!(!has_begun.load(Ordering::SeqCst));
    assert_eq!(stage.orders().await, ["kept", "kept too"]);
}
