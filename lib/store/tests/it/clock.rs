//! The store's clock.

use std::time::Duration;

use crate::{
    engine::{Engine, on_each_engine},
    stage::{Stage, claim, grant, send},
};
use hapax_core::store::{Answer, Step, Store};

on_each_engine! {
    the_clock_follows_the_machine
    a_look_judges_by_the_time_that_writers_gave_out
    ; on servers: an_epoch_rises_although_the_clock_was_set_back
}

async fn the_clock_follows_the_machine<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let before = std::time::SystemTime::now();
    let now = stage.sql.now().await.unwrap();
    let after = std::time::SystemTime::now();
    let millis = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    };
    let around = millis(before) - 1..=millis(after) + 1;
    assert!(around.contains(&now.as_millis()), "{around:?} and {now:?}");
}

async fn a_look_judges_by_the_time_that_writers_gave_out<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    let (_, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    let future = stage.pass(Duration::from_secs(3600)).await;
    let found = stage.sql.look(vec![fence.id]).await.remove(0).unwrap();
    assert!(found.now >= future);
    assert!(found.record.unwrap().lease_until < found.now, "the lease is over for readers too");
}

async fn an_epoch_rises_although_the_clock_was_set_back<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    stage.pass(Duration::from_secs(3600)).await;
    let (before, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    let step = Step::Release { fence, memory: Duration::ZERO };
    assert!(matches!(send(&stage.sql, step).await, Answer::Applied { .. }));
    stage.execute("UPDATE hapax_test_clock SET latest = 0").await;
    assert!(stage.sql.now().await.unwrap() < before.now, "an hour is gone");
    let (after, _) = grant(&stage.sql, &claim("1001", 2)).await;
    assert!(after.epoch > before.epoch, "{after:?} after {before:?}");
}
