//! Whoever died left a recovery point, and somebody finishes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, LEASE, call, lease, pass, value};
use hapax_core::{Begin, Completer, Effect, Identity, Lease, Policy, Resume, store::Store};

const KEYED: Effect = Effect::Keyed { window: Duration::from_secs(86_400) };

/// Completes what it is given, and remembers how often and from which point.
#[derive(Clone, Default)]
struct Finisher(Arc<Mutex<BTreeMap<String, Vec<Option<Bytes>>>>>);

impl Finisher {
    fn driven(&self) -> BTreeMap<String, Vec<Option<Bytes>>> {
        self.0.lock().unwrap().clone()
    }
}

impl Resume for Finisher {
    fn resume(&self, lease: Lease, identity: Identity) -> BoxFuture<'static, ()> {
        let driven = Arc::clone(&self.0);
        Box::pin(async move {
            let key = identity.key().to_owned();
            driven.lock().unwrap().entry(key).or_default().push(lease.point());
            pass(Duration::from_millis(50)).await;
            lease.complete(value("finished")).await.unwrap();
        })
    }
}

async fn abandon(bench: &Bench, effect: Effect, count: usize) {
    let operation = bench.declare(effect);
    for serial in 0..count {
        let dead = lease(call(&operation, &format!("key-{serial}"))).await;
        let point = Bytes::from(format!("point {serial}"));
        dead.checkpoint(point).await.unwrap();
        // As if its process had been killed.
        drop(dead.seal());
    }
    pass(LEASE).await;
}

#[tokio::test(start_paused = true)]
async fn two_completers_drive_a_record_once() {
    let bench = Bench::new();
    abandon(&bench, KEYED, 250).await;
    let (one, two) = (bench.twin(), bench.twin());
    let finisher = Finisher::default();
    let completer = |bench: &Bench| {
        let operation = bench.declare(KEYED);
        Completer::new(bench.hapax.clone(), LEASE).on(operation, finisher.clone())
    };
    let (first, second) = (completer(&one), completer(&two));
    let (first, second) = futures_util::join!(first.sweep(), second.sweep());
    let (first, second) = (first.unwrap(), second.unwrap());

    assert_eq!(first + second, 250, "{first} and {second}");
    let driven = finisher.driven();
    assert_eq!(driven.len(), 250);
    for (key, points) in driven {
        let serial = key.strip_prefix("key-").unwrap();
        assert_eq!(points, [Some(Bytes::from(format!("point {serial}")))], "{key}");
    }
    assert_eq!(completer_of_a_third(&bench, &finisher).await, 0, "nothing is left");
}

async fn completer_of_a_third(bench: &Bench, finisher: &Finisher) -> usize {
    let third = bench.twin();
    let operation = third.declare(KEYED);
    let completer = Completer::new(third.hapax.clone(), LEASE).on(operation, finisher.clone());
    completer.sweep().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_living_and_the_held_are_left_alone() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let alive = lease(call(&operation, "alive")).await;
    lease(call(&operation, "unknown")).await.doubt("no answer").await.unwrap();
    lease(call(&operation, "released")).await.release().await.unwrap();
    lease(call(&operation, "done")).await.complete(value("done")).await.unwrap();
    let finisher = Finisher::default();
    let completer = Completer::new(bench.hapax.clone(), LEASE).on(operation, finisher.clone());
    assert_eq!(completer.sweep().await.unwrap(), 0);
    assert!(finisher.driven().is_empty());
    alive.complete(value("by itself")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queryable_record_comes_with_a_lease_to_verify() {
    let bench = Bench::new();
    let quiet = Duration::from_secs(60);
    abandon(&bench, Effect::Queryable { quiet }, 1).await;
    let twin = bench.twin();
    let operation = twin.declare(Effect::Queryable { quiet });
    let finisher = Finisher::default();
    let completer = Completer::new(twin.hapax.clone(), LEASE).on(operation, finisher.clone());
    assert_eq!(completer.sweep().await.unwrap(), 0, "its quiet time is not over");
    pass(quiet).await;
    assert_eq!(completer.sweep().await.unwrap(), 1);
    assert_eq!(finisher.driven().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_operation_resumes_its_old_records() {
    let bench = Bench::new();
    abandon(&bench, KEYED, 3).await;
    let twin = bench.twin();
    let policy = Policy::new(KEYED).lease(LEASE).formerly(&["bench.op"]);
    let renamed = twin.hapax.declare("bench.renamed", policy).unwrap();
    let finisher = Finisher::default();
    let completer = Completer::new(twin.hapax.clone(), LEASE).on(renamed.clone(), finisher.clone());
    assert_eq!(completer.sweep().await.unwrap(), 3);
    let again = call(&renamed, "key-0").begin().await;
    assert!(matches!(again, Ok(Begin::Replay(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_resumer_drops_comes_back() {
    let bench = Bench::new();
    abandon(&bench, KEYED, 1).await;
    let twin = bench.twin();
    let operation = twin.declare(KEYED);
    let drops = |lease: Lease, _: Identity| -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(lease) })
    };
    let completer = Completer::new(twin.hapax.clone(), LEASE).on(operation.clone(), drops);
    assert_eq!(completer.sweep().await.unwrap(), 1);
    twin.hapax.drain().await;
    let held = lease(call(&operation, "key-0")).await;
    assert_eq!(held.attempt(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_completer_sweeps_until_it_is_stopped() {
    let bench = Bench::new();
    let twin = bench.twin();
    let finisher = Finisher::default();
    let completer =
        Completer::new(twin.hapax.clone(), LEASE / 3).on(twin.declare(KEYED), finisher.clone());
    let stop = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(completer.run(stop.clone()));
    abandon(&bench, KEYED, 2).await;
    pass(LEASE).await;
    assert_eq!(finisher.driven().len(), 2);
    stop.cancel();
    tasks.join_all().await;
    assert_eq!(bench.memory.purge(10).await.unwrap(), 0);
}
