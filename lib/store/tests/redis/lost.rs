//! Answers and requests that are lost on the way, and records that a fail-over loses.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;

use crate::stage::{
    self, ask, claim, complete, fault, grant, hold, pass, record, tell, tenant, try_claim,
};
use hapax_core::{
    Begin, BusinessKey, Effect, Fence, Hapax, Outcome, Policy, State,
    store::{Answer, Durability, FaultKind, Step, Store},
};
use hapax_store::redis::RedisStore;
use hapax_testkit::{
    Proxy, Redis,
    proxy::{Fate, Mode, scripts},
};

/// Answers that are swallowed in the long run.
const LOSSES: u32 = 200;

/// The driver, the store and the connection send a step once, whatever becomes of its answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_answer_is_lost_is_sent_once() {
    let server = stage::server().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    hold(&store, &claim("0", 1)).await;
    for fate in [Fate::AnswerLost, Fate::RequestLost, Fate::AnswerLost] {
        let fresh = claim(&format!("{fate:?}"), 1);
        proxy.reset();
        proxy.next(fate, scripts);
        let (word, kind, why) = fault(&try_claim(&store, &fresh).await);
        assert_eq!((word, kind), ("unsure", FaultKind::Unavailable), "{why}");
        assert_eq!((proxy.tally().of("EVALSHA"), proxy.armed()), (1, 0), "{fate:?}");
        // Who asks again with the same nonce is told what became of it.
        let granted = grant(&store, &fresh).await;
        assert_eq!(grant(&store, &fresh).await.epoch, granted.epoch);
        assert_eq!(store.history(fresh.id).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_whose_answer_is_lost_can_be_asked_again() {
    let server = stage::server().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    let lease = stage::LEASE;
    for (serial, fate) in [(0, Fate::AnswerLost), (1, Fate::RequestLost)] {
        let key = |what: &str| claim(&format!("{what} {serial}"), 1);
        let done = hold(&store, &key("done")).await;
        let freed = hold(&store, &key("freed")).await;
        let doubted = hold(&store, &key("doubted")).await;
        for step in [
            Step::Renew { fence: done, lease },
            Step::Checkpoint { fence: done, point: Bytes::from_static(b"point") },
            complete(done, "done"),
            Step::Release { fence: freed, memory: lease },
            Step::Doubt { fence: doubted, why: "nobody knows".to_owned() },
        ] {
            // The server must know the script: teaching it is no loss.
            learn(&store, &step).await;
            proxy.next(fate, scripts);
            let (word, ..) = fault(&ask(&store, step.clone()).await);
            assert_eq!(word, "unsure");
            let answer = ask(&store, step).await;
            assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
        }
        assert_eq!(proxy.armed(), 0);
        for (fence, state) in
            [(done, State::Completed), (freed, State::Open), (doubted, State::Unknown)]
        {
            assert_eq!(record(&store, fence.id).await.state, state);
            assert_eq!(store.history(fence.id).await.unwrap().len(), 2, "each told once");
        }
    }
}

/// Takes the step on a record that is not there.
async fn learn(store: &RedisStore, step: &Step) {
    let nobody = |fence: Fence| Fence { id: claim("nobody", 9).id, ..fence };
    let step = match step.clone() {
        Step::Renew { fence, lease } => Step::Renew { fence: nobody(fence), lease },
        Step::Checkpoint { fence, point } => Step::Checkpoint { fence: nobody(fence), point },
        Step::Release { fence, memory } => Step::Release { fence: nobody(fence), memory },
        Step::Doubt { fence, why } => Step::Doubt { fence: nobody(fence), why },
        Step::Complete { fence, outcome, retention } => {
            Step::Complete { fence: nobody(fence), outcome, retention }
        }
        step => panic!("no step of a holder: {step:?}"),
    };
    let answer = ask(store, step).await;
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
}

/// The engine on a line that swallows answers: each effect happens once, each repeat is answered.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_swallowed_answers_double_nothing_and_lose_nothing() {
    let server = stage::server().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    let hapax = Hapax::new(Arc::new(store));
    let operation = hapax.declare("shop.order", Policy::new(Effect::Opaque).forever()).unwrap();
    let ledger = Mutex::new(BTreeMap::<String, u32>::new());
    let call = |key: &str| operation.business(tenant(), BusinessKey::parse(key).unwrap());
    let (mut lost, mut serial) = (0, 0);
    while lost < LOSSES {
        let key = format!("order-{serial}");
        let is_of_claim = serial % 2 == 0;
        serial += 1;
        let lose = || proxy.next(Fate::AnswerLost, scripts);
        if is_of_claim {
            lose();
        }
        let Begin::Run(lease) = call(&key).begin().await.unwrap() else { panic!("{key} is fresh") };
        *ledger.lock().unwrap().entry(key.clone()).or_default() += 1;
        if !is_of_claim {
            lose();
        }
        lease.complete(Outcome::Value(Bytes::from(key.clone()))).await.unwrap();
        assert_eq!(proxy.armed(), 0, "an answer was swallowed");
        lost += 1;
        match call(&key).begin().await.unwrap() {
            Begin::Replay(outcome) => assert_eq!(outcome, Outcome::Value(Bytes::from(key))),
            begun => panic!("{key} is done: {begun:?}"),
        }
    }
    assert_eq!(proxy.swallowed(), u64::from(LOSSES));
    assert!(ledger.into_inner().unwrap().values().all(|effects| *effects == 1));
}

/// A master, a replica that is cut off from it unnoticed, and what the fail-over leaves.
struct Parted {
    master: Redis,
    replica: Redis,
    line: Proxy,
}

impl Parted {
    async fn set() -> Self {
        let master = stage::server().await;
        let line = Proxy::before(&master.url()).unwrap();
        let replica = Redis::replica_of(line.port()).await.unwrap();
        Self { master, replica, line }
    }

    async fn store(server: &Redis) -> RedisStore {
        RedisStore::at(&server.url()).accept_no_replica_quorum().open().await.unwrap()
    }

    async fn fail_over(&self) -> RedisStore {
        self.master.kill().await.unwrap();
        tell(&self.replica, "REPLICAOF NO ONE").await;
        Self::store(&self.replica).await
    }
}

/// Redis alone doubles, and this is why it is called best effort: the master said yes, the
/// replica that took its place has never heard of it, and the work runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_may_lose_a_claim() {
    let parted = Parted::set().await;
    let before = Parted::store(&parted.master).await;
    assert_eq!(before.capabilities().durability, Durability::Volatile);
    let kept = hold(&before, &claim("kept", 1)).await;
    assert_eq!(tell(&parted.master, "WAIT 1 5000").await, "1");
    parted.line.set(Mode::BlackHole);
    let mut effects = 0;
    let lost = hold(&before, &claim("lost", 1)).await;
    effects += 1;

    let after = parted.fail_over().await;
    assert_eq!(record(&after, kept.id).await.epoch, kept.epoch, "what was replicated is there");
    let again = hold(&after, &claim("lost", 2)).await;
    effects += 1;
    assert_eq!(effects, 2, "the same opaque work has run twice");
    // What remains: the epoch rises, so the first holder ends nothing of the second one's.
    assert!(again.epoch > lost.epoch);
    let answer = ask(&after, complete(lost, "late")).await;
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
}

/// With `min-replicas-to-write` the window closes after `min-replicas-max-lag`.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_whose_replica_has_fallen_behind_stops_granting() {
    let parted = Parted::set().await;
    tell(&parted.master, "CONFIG SET min-replicas-max-lag 1").await;
    tell(&parted.master, "CONFIG SET min-replicas-to-write 1").await;
    let store = RedisStore::open(&parted.master.url()).await.unwrap();
    stage::until("the replica is counted", async || {
        matches!(try_claim(&store, &claim("1", 1)).await, Answer::Granted(_))
    })
    .await;
    parted.line.set(Mode::BlackHole);
    pass(Duration::from_secs(4)).await;
    let (word, kind, why) = fault(&try_claim(&store, &claim("2", 1)).await);
    assert_eq!((word, kind), ("away", FaultKind::Unavailable), "{why}");
    assert!(why.contains("NOREPLICAS"), "{why}");
}
