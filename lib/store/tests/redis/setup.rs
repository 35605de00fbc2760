//! Servers on which no store opens, and what is said about them.

use crate::stage::{chain, server, store};
use hapax_core::{
    Effect, Hapax, Policy,
    store::{Durability, Reading, Sharing, Store},
};
use hapax_store::{
    Error, Kind,
    redis::{RedisOpening, RedisStore},
};
use hapax_testkit::Redis;

async fn refused(opening: RedisOpening, cure: &str) {
    let error: Error = opening.open().await.expect_err("it must be refused");
    let why = chain(&error);
    assert_eq!(error.kind(), Kind::Invalid, "{why}");
    assert!(why.contains(cure), "it says what to change: {why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_evicts_is_refused() {
    let lru = Redis::with(&[("maxmemory-policy", "allkeys-lru")]).await.unwrap();
    let cure = "set `maxmemory-policy noeviction`";
    refused(RedisStore::at(&lru.url()), cure).await;
    refused(RedisStore::at(&lru.url()).accept_eviction(), cure).await;
    let volatile = Redis::with(&[("maxmemory-policy", "volatile-ttl")]).await.unwrap();
    refused(RedisStore::at(&volatile.url()), cure).await;
    RedisStore::at(&volatile.url()).accept_eviction().open().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_is_refused() {
    let forgetful = Redis::with(&[("appendonly", "no")]).await.unwrap();
    refused(RedisStore::at(&forgetful.url()), "set `appendonly yes`").await;
    RedisStore::at(&forgetful.url()).accept_no_persistence().open().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_does_not_wait_for_its_replicas_is_refused() {
    let master = server().await;
    let replica = Redis::replica_of(master.port()).await.unwrap();
    let cure = "set `min-replicas-to-write 1`";
    refused(RedisStore::at(&master.url()), cure).await;
    RedisStore::at(&master.url()).accept_no_replica_quorum().open().await.unwrap();
    master.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await.unwrap();
    RedisStore::open(&master.url()).await.unwrap();
    refused(RedisStore::at(&replica.url()), "give the address of its master").await;
}

/// A provider may forbid CONFIG: all is read from INFO.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forbids_its_configuration_is_judged_all_the_same() {
    let closed = Redis::with(&[("maxmemory-policy", "allkeys-lru")]).await.unwrap();
    for rule in ["-config", "-client"] {
        closed.ask(&["ACL", "SETUSER", "default", rule]).await.unwrap();
    }
    refused(RedisStore::at(&closed.url()), "noeviction").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_lead_nowhere_are_told_apart_and_secrets_are_kept() {
    for (urls, kind) in [
        ("", Kind::Invalid),
        (" , ", Kind::Invalid),
        ("postgres://me:s3cret@127.0.0.1:1", Kind::Invalid),
        ("redis://me:s3cret@127.0.0.1:port", Kind::Invalid),
        ("redis://me:s3cret@127.0.0.1:1", Kind::Unavailable),
        ("rediss://me:s3cret@127.0.0.1:1", Kind::Unavailable),
    ] {
        let error = RedisStore::open(urls).await.expect_err("it leads nowhere");
        let why = format!("{} {error:?}", chain(&error));
        assert_eq!(error.kind(), kind, "{urls}: {why}");
        assert!(!why.contains("s3cret"), "{why}");
        assert!(!format!("{:?}", RedisStore::at(urls)).contains("s3cret"));
    }
    let error = RedisStore::at("redis://127.0.0.1").namespace("a{b}").open().await;
    assert_eq!(error.expect_err("braces are the cluster's").kind(), Kind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for_and_taken() {
    let locked = Redis::with(&[("appendfsync", "no")]).await.unwrap();
    locked.ask(&["CONFIG", "SET", "requirepass", "s3cret"]).await.unwrap();
    let error = RedisStore::open(&locked.url()).await.expect_err("no password");
    assert_eq!(error.kind(), Kind::Refused, "{}", chain(&error));
    let port = locked.port();
    let wrong = format!("redis://:wrong@127.0.0.1:{port}/");
    let error = RedisStore::open(&wrong).await.expect_err("a wrong password");
    assert_eq!(error.kind(), Kind::Refused, "{}", chain(&error));
    RedisStore::open(&format!("redis://:s3cret@127.0.0.1:{port}/")).await.unwrap();
}

/// The first seed that answers leads to the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_is_away_is_passed_over() {
    let server = server().await;
    let seeds = format!("redis://127.0.0.1:1,{}", server.url());
    RedisStore::open(&seeds).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_needs_the_disk_is_not_declared_on_redis_alone() {
    let (_server, store) = store().await;
    let can = store.capabilities();
    assert_eq!((can.durability, can.sharing), (Durability::Volatile, Sharing::Shared));
    assert_eq!((can.reading, can.lanes), (Reading::Never, None));
    let hapax = Hapax::new(std::sync::Arc::new(store));
    let policy = || Policy::new(Effect::Opaque).forever();
    let error = hapax.declare("pay", policy().needs(Durability::Disk)).expect_err("refused");
    let why = chain(&error);
    assert!(why.contains("needs a store that survives more"), "{why}");
    hapax.declare("notify", policy().needs(Durability::Volatile)).unwrap();
}
