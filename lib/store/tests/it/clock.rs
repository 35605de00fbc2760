//! The store's clock.

use std::time::Duration;

use crate::stage::{Stage, claim, grant, send};
use hapax_core::store::{Answer, Step, Store};

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_never_goes_back() {
    let stage = Stage::set().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_follows_the_machine() {
    let stage = Stage::set().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_look_judges_by_the_time_that_writers_gave_out() {
    let stage = Stage::set().await;
    let (_, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    let future = stage.pass(Duration::from_secs(3600)).await;
    let found = stage.sql.look(vec![fence.id]).await.remove(0).unwrap();
    assert!(found.now >= future);
    assert!(found.record.unwrap().lease_until < found.now, "the lease is over for readers too");
}
