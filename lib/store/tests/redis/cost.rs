//! What a call costs in round trips and in commands, counted on the wire and by the server.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use crate::stage::{self, claim, tell, tenant};
use hapax_core::{
    Begin, BusinessKey, Effect, Hapax, Operation, Outcome, Policy,
    store::{Step, Store},
};
use hapax_store::redis::RedisStore;
use hapax_testkit::{Proxy, Redis};

/// A store whose traffic is counted; it knows all scripts already.
struct Counted {
    server: Redis,
    proxy: Proxy,
    store: RedisStore,
    operation: Operation,
}

impl Counted {
    async fn open() -> Self {
        let server = stage::server().await;
        let proxy = Proxy::before(&server.url()).unwrap();
        let store = RedisStore::open(&proxy.url()).await.unwrap();
        let hapax = Hapax::new(Arc::new(store.clone()));
        let policy = Policy::new(Effect::Transactional).forever();
        let operation = hapax.declare("shop.order", policy).unwrap();
        let counted = Self { server, proxy, store, operation };
        counted.fresh("warm").await;
        counted.replay("warm").await;
        counted
    }

    async fn reset(&self) {
        tell(&self.server, "CONFIG RESETSTAT").await;
        self.proxy.reset();
    }

    async fn begin(&self, key: &str) -> Begin {
        let key = BusinessKey::parse(key).unwrap();
        self.operation.business(tenant(), key).begin().await.unwrap()
    }

    async fn fresh(&self, key: &str) {
        let Begin::Run(lease) = self.begin(key).await else { panic!("{key} is fresh") };
        lease.complete(Outcome::Value(Bytes::from_static(b"done"))).await.unwrap();
    }

    async fn replay(&self, key: &str) {
        let begun = self.begin(key).await;
        assert!(matches!(begun, Begin::Replay(_)), "{key} is done");
    }

    /// What the server ran, scripts and what they called, without our own questions.
    async fn commands(&self) -> BTreeMap<String, u64> {
        let told = tell(&self.server, "INFO commandstats").await;
        let commands = told.lines().filter_map(|line| {
            let (name, stats) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = stats.strip_prefix("calls=")?.split(',').next()?;
            Some((name.to_owned(), calls.parse().ok()?))
        });
        commands.filter(|(name, _)| name != "info" && name != "config|resetstat").collect()
    }
}

fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_call_takes_two_round_trips() {
    let counted = Counted::open().await;
    counted.reset().await;
    counted.fresh("order-1").await;
    let tally = counted.proxy.tally();
    assert_eq!((tally.of("EVALSHA"), tally.total(), tally.round_trips), (2, 2, 2), "{tally:?}");
    let ran = [("evalsha", 2), ("time", 2), ("exists", 1), ("hmget", 1)];
    let written = [("hset", 2), ("hdel", 1)];
    let expected: BTreeMap<_, _> = counts(ran).into_iter().chain(counts(written)).collect();
    assert_eq!(counted.commands().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_takes_one_round_trip_and_writes_nothing() {
    let counted = Counted::open().await;
    counted.fresh("order-1").await;
    counted.reset().await;
    counted.replay("order-1").await;
    let tally = counted.proxy.tally();
    assert_eq!((tally.of("EVALSHA"), tally.total(), tally.round_trips), (1, 1, 1), "{tally:?}");
    let read = counts([("evalsha", 1), ("time", 1), ("exists", 1), ("hmget", 1)]);
    assert_eq!(counted.commands().await, read);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_takes_one_round_trip_and_so_does_a_look() {
    let counted = Counted::open().await;
    let fence = stage::hold(&counted.store, &claim("order-1", 1)).await;
    let memory = stage::LEASE;
    for (step, warm) in [
        (Step::Renew { fence, lease: memory }, true),
        (Step::Renew { fence, lease: memory }, false),
        (Step::Checkpoint { fence, point: Bytes::from_static(b"point") }, true),
        (Step::Checkpoint { fence, point: Bytes::from_static(b"point") }, false),
        (Step::Doubt { fence, why: "nobody knows".to_owned() }, true),
        (Step::Doubt { fence, why: "nobody knows".to_owned() }, false),
        (Step::Release { fence, memory }, true),
        (Step::Release { fence, memory }, false),
    ] {
        counted.reset().await;
        stage::ask(&counted.store, step).await;
        if !warm {
            assert_eq!(counted.proxy.tally().total(), 1);
        }
    }
    stage::look(&counted.store, fence.id).await;
    counted.reset().await;
    stage::look(&counted.store, fence.id).await;
    assert_eq!(counted.proxy.tally().total(), 1);
}

/// Steps on many records share the connection: none waits for the answer to another.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_out_at_once() {
    let counted = Counted::open().await;
    counted.reset().await;
    let mut claims: Vec<_> = (0..64).map(|serial| claim(&serial.to_string(), 1)).collect();
    claims.sort_by_key(|claim| claim.id);
    let steps = claims.into_iter().map(|claim| Step::Claim(Arc::new(claim))).collect();
    counted.store.apply(steps).await;
    let tally = counted.proxy.tally();
    assert_eq!((tally.of("EVALSHA"), tally.total(), tally.connections), (64, 64, 0), "{tally:?}");
    assert!(tally.round_trips < 64, "{tally:?}");
}
