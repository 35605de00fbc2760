//! Locks across stores, and what their loss leaves.

use std::{sync::Arc, time::Duration};

use crate::stage::{self, nonce, pass, tell, tenant, until};
use hapax_core::{
    Epoch, Id,
    lock::{Acquired, Hold, LockName, Locks, Turnstile},
};
use hapax_store::redis::RedisStore;

const LEASE: Duration = Duration::from_secs(10);

fn name(object: &str) -> LockName {
    LockName::of(&tenant(), "order", object)
}

async fn acquire(store: &RedisStore, owner: u8) -> Hold {
    store.acquire(name("1"), nonce(owner), LEASE).await.unwrap()
}

fn fence(hold: Hold) -> Epoch {
    match hold {
        Hold::Mine { fence } => fence,
        Hold::Taken { .. } => panic!("{hold:?}"),
    }
}

async fn is_told(freed: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::from_secs(5), freed).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_elsewhere_is_told_that_a_lock_is_free() {
    let (server, store) = stage::store().await;
    let other = RedisStore::open(&server.url()).await.unwrap();
    acquire(&store, 1).await;
    // The first wait begins to listen; once it does, nothing is missed.
    assert!(is_told(other.freed(name("1"))).await, "whoever begins to listen looks again");
    let freed = other.freed(name("1"));
    assert!(store.release(name("1"), nonce(1)).await.unwrap());
    assert!(is_told(freed).await);
    fence(acquire(&other, 2).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_closed_listens_no_more() {
    let (server, store) = stage::store().await;
    assert!(is_told(store.freed(name("1"))).await);
    let channels = async || tell(&server, "PUBSUB CHANNELS").await;
    assert_eq!(channels().await, "hapax:freed");
    assert!(tokio::time::timeout(LEASE, store.close()).await.is_ok(), "nothing is waited for");
    until("it listens no more", async || channels().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_are_heard_again_after_the_server_came_back() {
    let (server, store) = stage::store().await;
    let other = RedisStore::open(&server.url()).await.unwrap();
    assert!(is_told(other.freed(name("1"))).await);
    let again = other.freed(name("1"));
    server.restart().await.unwrap();
    assert!(is_told(again).await, "whoever listens again looks again");
    until("the lock is gained", async || {
        matches!(store.acquire(name("1"), nonce(1), LEASE).await, Ok(Hold::Mine { .. }))
    })
    .await;
    let freed = other.freed(name("1"));
    assert!(store.release(name("1"), nonce(1)).await.unwrap());
    assert!(is_told(freed).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_rises_over_the_loss_of_its_key() {
    let (server, store) = stage::store().await;
    let key = format!("hapax:lock:{{{}}}", Id::from_stored(*name("1").as_bytes()).hex());
    let mut last = fence(acquire(&store, 1).await);
    for owner in 2..6_u8 {
        pass(Duration::from_millis(3)).await;
        assert_eq!(tell(&server, &format!("DEL {key}")).await, "1");
        let next = fence(acquire(&store, owner).await);
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
    // A fence that ran ahead of the clock keeps its key until the clock has passed it.
    let ahead = last.get() + 500_000;
    tell(&server, &format!("HSET {key} fence {ahead}")).await;
    assert!(store.release(name("1"), nonce(5)).await.unwrap());
    let expiry: i64 = tell(&server, &format!("PEXPIRETIME {key}")).await.parse().unwrap();
    assert!(expiry > ahead, "{expiry}");
    assert_eq!(fence(acquire(&store, 6).await).get(), ahead + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_its_turn_at_once_and_a_lost_lock_is_told() {
    let (server, store) = stage::store().await;
    let stile = |store: &RedisStore, lease| Turnstile::new(Arc::new(store.clone())).lease(lease);
    let (mine, theirs) =
        (stile(&store, LEASE), stile(&RedisStore::open(&server.url()).await.unwrap(), LEASE));
    let Acquired::Mine(guard) = mine.acquire(name("1"), LEASE).await.unwrap() else {
        panic!("it is free")
    };
    let waiting = theirs.acquire(name("1"), Duration::from_secs(5));
    let (gained, released) = tokio::join!(waiting, async {
        pass(Duration::from_millis(100)).await;
        guard.release().await
    });
    assert!(released.unwrap());
    let Acquired::Mine(next) = gained.unwrap() else { panic!("its turn has come") };
    drop(next);
    theirs.drain().await;

    let short = stile(&store, Duration::from_millis(300));
    let mut held = None;
    until("the lock is gained", async || {
        match short.acquire(name("2"), LEASE).await.unwrap() {
            Acquired::Mine(guard) => held = Some(guard),
            Acquired::Taken { .. } => {}
        }
        held.is_some()
    })
    .await;
    server.stop().unwrap();
    let guard = held.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(5), guard.lost().cancelled()).await;
    assert!(told.is_ok(), "a holder that cannot renew is told");
    server.cont().unwrap();
    drop(guard);
}
