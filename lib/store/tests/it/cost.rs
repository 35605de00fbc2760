//! What a call costs: statements and transactions, counted by what the driver sends.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing::field::{Field, Visit};
use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    parts::{Actor, part},
    stage::{Stage, key, tenant, value},
};
use hapax_core::{Begin, Busy, Effect, Operation, Policy};

/// Counts statements by their names and transactions by theirs.
#[derive(Clone, Default)]
struct Count(Arc<Mutex<BTreeMap<String, u32>>>);

impl Count {
    /// What was sent since the last time.
    fn take(&self) -> BTreeMap<String, u32> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<S: tracing::Subscriber> Layer<S> for Count {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut name = Name(None);
        event.record(&mut name);
        if let Some(name) = name.0 {
            *self.0.lock().unwrap().entry(name).or_default() += 1;
        }
    }
}

struct Name(Option<String>);

impl Visit for Name {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            // Our statements begin with their name; the driver's own set a connection up.
            "summary" => {
                let name = value.strip_prefix("-- ").and_then(|rest| rest.split(' ').next());
                self.0 = name.map(str::to_owned);
            }
            "transaction" => self.0 = Some(format!("BEGIN {value}")),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

fn counts(expected: &[(&str, u32)]) -> BTreeMap<String, u32> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn call(order: &Operation, text: &str) {
    match order.business(tenant(), key(text)).begin().await.unwrap() {
        Begin::Run(lease) => lease.complete(value("done")).await.unwrap(),
        Begin::Replay(_) => {}
        other => panic!("{other:?}"),
    }
}

/// The length of a transaction log that is not yet part of the database.
fn wal_bytes(stage: &Stage<hapax_store::Sqlite>) -> u64 {
    std::fs::metadata(format!("{}-wal", stage.place())).map_or(0, |meta| meta.len())
}

async fn count_calls() {
    let count = Count::default();
    tracing_subscriber::registry().with(count.clone()).init();
    let stage = Stage::<hapax_store::Sqlite>::set().await;
    let policy = Policy::new(Effect::Opaque).forever().busy(Busy::Wait(Duration::from_secs(10)));
    let order = stage.operation(policy);
    call(&order, "warm").await;
    count.take();

    call(&order, "fresh").await;
    let fresh = counts(&[("look", 1), ("BEGIN steps", 2), ("claim_insert", 1), ("complete", 1)]);
    assert_eq!(count.take(), fresh, "a fresh call");

    let wal = wal_bytes(&stage);
    call(&order, "fresh").await;
    assert_eq!(count.take(), counts(&[("look", 1)]), "a replay");
    assert_eq!(wal_bytes(&stage), wal, "a replay writes nothing");

    let calls = (0..1000).map(|_| call(&order, "crowd"));
    futures_util::future::join_all(calls).await;
    let mut crowd = count.take();
    crowd.remove("look");
    let once: BTreeMap<_, _> = fresh.into_iter().filter(|(name, _)| name != "look").collect();
    assert_eq!(crowd, once, "a thousand duplicates of one fresh key");

    let calls: Vec<_> = (0..64).map(|at| format!("many/{at}")).collect();
    futures_util::future::join_all(calls.iter().map(|text| call(&order, text))).await;
    let many = count.take();
    assert!(many["BEGIN steps"] <= 32, "128 steps share their transactions: {many:?}");
}

#[test]
fn a_fresh_call_costs_two_transactions_and_a_replay_none() {
    if part().is_some() {
        // In a process of its own, where nobody else sends statements.
        return tokio::runtime::Runtime::new().unwrap().block_on(count_calls());
    }
    let test = "cost::a_fresh_call_costs_two_transactions_and_a_replay_none";
    let nowhere = tempfile::tempdir().unwrap();
    Actor::start(test, "count", nowhere.path().to_str().unwrap()).finish();
}
