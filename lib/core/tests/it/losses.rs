//! Whatever is lost, what was done once stays done once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::bench::{Bench, LEASE, call, pass};
use hapax_contract::{Asked, Delivery, oracle};
use hapax_core::{Effect, End, Ran, State, store::Store};

/// Calls of one life, on three keys.
const CALLS: usize = 12;

/// Plays calls on few keys over a bad line; the effects are counted by a ledger without a
/// unique constraint.
async fn play(effect: Effect, fates: Vec<Delivery>, keys: Vec<u8>) -> Result<(), TestCaseError> {
    let mut fates = fates.into_iter();
    let healed = Arc::new(AtomicBool::new(false));
    let heals = Arc::clone(&healed);
    let (bench, _) = Bench::lossy(move |asked| match asked {
        Asked::Step(_) if !heals.load(Ordering::SeqCst) => fates.next().unwrap_or_default(),
        _ => Delivery::Normal,
    });
    let operation = bench.declare(effect);
    let ledger: Arc<Mutex<BTreeMap<u8, u32>>> = Arc::default();
    let run = |key: u8| {
        let ledger = Arc::clone(&ledger);
        call(&operation, &format!("key-{key}")).run(move |_| async move {
            let mut ledger = ledger.lock().unwrap();
            let effects = ledger.entry(key).or_default();
            *effects += 1;
            End::Done(*effects)
        })
    };
    for key in keys {
        match run(key).await {
            Ok(Ran::Fresh(1) | Ran::Replayed(1) | Ran::Busy { .. } | Ran::Held) => {}
            Err(error) if error.is_retryable() => {}
            ran => return Err(TestCaseError::fail(format!("key {key}: {ran:?}"))),
        }
        pass(Duration::from_millis(100)).await;
    }
    healed.store(true, Ordering::SeqCst);
    bench.hapax.drain().await;
    pass(LEASE * 2).await;
    let written = ledger.lock().unwrap().clone();
    for (key, effects) in written {
        prop_assert_eq!(effects, 1, "key {} ran {} times", key, effects);
        let id = call(&operation, &format!("key-{key}")).id();
        let record = bench.memory.look(vec![id]).await.remove(0).unwrap().record;
        let state = record.map(|record| record.state);
        prop_assert_eq!(state, Some(State::Completed), "the line healed in time");
    }
    // After healing every key answers, with the one answer.
    for key in 0..3 {
        let ran = run(key).await;
        let healed = matches!(ran, Ok(Ran::Fresh(1) | Ran::Replayed(1)));
        prop_assert!(healed, "key {}: {:?}", key, ran);
    }
    Ok(())
}

#[test]
fn effects_happen_once_whatever_is_lost() {
    for effect in [Effect::Opaque, Effect::Transactional] {
        let config = Config { cases: 150, failure_persistence: None, ..Config::default() };
        let lives = (oracle::fates(), prop::collection::vec(0..3_u8, 1..=CALLS));
        let found = TestRunner::new(config).run(&lives, |(fates, keys)| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(play(effect, fates, keys))
        });
        found.unwrap();
    }
}
