//! Steps that meet at a busy store go together, and every one of them is answered.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{sync::Semaphore, task::JoinSet};

use hapax_contract::{Memory, Subject};
use hapax_core::{
    Actor, BusinessKey, Effect, Fence, Id, Identity, Nonce, OperationName, Prints, Tenant,
    store::{
        Answer, Capabilities, Claim, Coalesce, Entry, Fault, FaultKind, Found, MemoryStore, Page,
        Scan, Step, Store,
    },
};

/// A store with one lane that notes its batches and takes each when it is let.
struct OneLane {
    inner: MemoryStore,
    batches: Mutex<Vec<Vec<Step>>>,
    turns: Arc<Semaphore>,
    at_once: AtomicUsize,
    /// Batches until it panics.
    panics_at: AtomicUsize,
}

impl OneLane {
    fn new(turns: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            batches: Mutex::default(),
            turns: Arc::new(Semaphore::new(turns)),
            at_once: AtomicUsize::new(0),
            panics_at: AtomicUsize::new(usize::MAX),
        })
    }

    fn batches(&self) -> Vec<Vec<Step>> {
        self.batches.lock().unwrap().clone()
    }
}

struct Lane(Arc<OneLane>);

impl Store for Lane {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let lane = Arc::clone(&self.0);
        assert_eq!(lane.at_once.fetch_add(1, Ordering::SeqCst), 0, "one lane, one batch");
        let mut batches = lane.batches.lock().unwrap();
        batches.push(steps.clone());
        let serial = batches.len();
        drop(batches);
        Box::pin(async move {
            lane.turns.acquire().await.unwrap().forget();
            lane.at_once.fetch_sub(1, Ordering::SeqCst);
            assert!(serial != lane.panics_at.load(Ordering::SeqCst), "the lane has a bug");
            lane.inner.apply(steps).await
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.0.inner.look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.0.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.0.inner.scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.0.inner.history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.0.inner.purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        let lanes = Some(NonZeroUsize::MIN);
        Capabilities { lanes, ..self.0.inner.capabilities() }
    }
}

const MANY: usize = 1_000_000;

fn before(lane: &Arc<OneLane>) -> Arc<dyn Store> {
    Coalesce::before(Arc::new(Lane(Arc::clone(lane))))
}

fn claim(serial: usize) -> Step {
    let identity = Identity::business(
        Tenant::parse("lane").unwrap(),
        OperationName::parse("lane.op").unwrap(),
        BusinessKey::parse(&serial.to_string()).unwrap(),
    );
    Step::Claim(Arc::new(Claim {
        id: identity.id(),
        identity,
        nonce: Nonce::from_bytes([1; 16]),
        prints: Prints::NONE,
        lease: Duration::from_secs(60),
        effect: Effect::Opaque,
        attempts_max: 1,
        caller: Actor::parse("tester").unwrap(),
    }))
}

fn renew(serial: usize) -> Step {
    let epoch = hapax_core::Epoch::from_stored(1);
    let fence = Fence { id: claim(serial).id(), epoch, nonce: Nonce::from_bytes([2; 16]) };
    Step::Renew { fence, lease: Duration::ZERO }
}

fn is_claim(step: &Step) -> bool {
    matches!(step, Step::Claim(_))
}

#[tokio::test(start_paused = true)]
async fn a_free_lane_goes_at_once_and_the_rest_goes_together() {
    let lane = OneLane::new(MANY);
    let store = before(&lane);
    let answers: Vec<_> = (0..300).map(|serial| store.apply(vec![claim(serial)])).collect();
    for answers in answers {
        assert!(matches!(answers.await[..], [Answer::Granted(_)]));
    }
    let sizes: Vec<_> = lane.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [256, 44], "one full batch, then the rest");
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_distinct_ids_in_order() {
    let lane = OneLane::new(MANY);
    let store = before(&lane);
    let calls: Vec<_> = (0..200).map(|serial| store.apply(vec![claim(serial % 20)])).collect();
    let mut granted = 0;
    for call in calls {
        granted += usize::from(matches!(call.await[..], [Answer::Granted(_)]));
    }
    assert_eq!(granted, 200, "the same nonce is granted again");
    for batch in lane.batches() {
        let ids: Vec<_> = batch.iter().map(Step::id).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later), "{ids:?}");
    }
    assert_eq!(lane.batches().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn holders_go_before_claims() {
    let lane = OneLane::new(0);
    let store = before(&lane);
    let mut waiting = vec![store.apply(vec![claim(9_999)])];
    tokio::task::yield_now().await;
    assert_eq!(lane.batches().len(), 1, "the lane is busy");
    waiting.extend((0..400).map(|serial| store.apply(vec![claim(serial)])));
    waiting.extend((500..600).map(|serial| store.apply(vec![renew(serial)])));
    // A holder's step on a record that others want to claim.
    waiting.push(store.apply(vec![renew(0)]));
    lane.turns.add_permits(MANY);
    for answers in waiting {
        assert_eq!(answers.await.len(), 1);
    }
    let batches = lane.batches();
    let second = &batches[1];
    assert_eq!(second.iter().filter(|step| !is_claim(step)).count(), 101);
    assert_eq!(second.len(), 256, "claims fill what is left");
    let contested = claim(0).id();
    let place = |wanted: bool| {
        let holds = |batch: &Vec<Step>| {
            batch.iter().any(|step| step.id() == contested && is_claim(step) == wanted)
        };
        batches.iter().position(holds).unwrap()
    };
    assert!(place(false) < place(true), "the holder's step goes first");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_so_at_once() {
    const QUEUE_MAX: usize = 65_536;
    let lane = OneLane::new(0);
    let store = before(&lane);
    let first = store.apply(vec![claim(0)]);
    tokio::task::yield_now().await;
    let steps: Vec<_> = (1..=QUEUE_MAX).map(renew).collect();
    let queued = store.apply(steps);
    let refused = store.apply(vec![renew(QUEUE_MAX + 1)]).now_or_never().expect("at once");
    match &refused[..] {
        [Answer::Away(fault)] => assert_eq!(fault.kind(), FaultKind::Full),
        refused => panic!("{refused:?}"),
    }
    lane.turns.add_permits(MANY);
    assert_eq!((first.await.len(), queued.await.len()), (1, QUEUE_MAX));
    assert!(matches!(store.apply(vec![claim(1)]).await[..], [Answer::Granted(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_dies_leaves_its_callers_unsure() {
    let lane = OneLane::new(0);
    lane.panics_at.store(1, Ordering::SeqCst);
    let store = before(&lane);
    let dying = store.apply(vec![claim(1)]);
    tokio::task::yield_now().await;
    let queued: Vec<_> = (2..40).map(|serial| store.apply(vec![claim(serial)])).collect();
    lane.turns.add_permits(MANY);
    assert!(matches!(dying.await[..], [Answer::Unsure(_)]));
    for answers in queued {
        let answers = tokio::time::timeout(Duration::from_secs(1), answers).await;
        let answers = answers.expect("who queued behind a lane that died is answered too");
        assert!(matches!(answers[..], [Answer::Granted(_)]), "{answers:?}");
    }
    assert!(matches!(store.apply(vec![claim(1)]).await[..], [Answer::Granted(_)]));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_abandons_only_its_answer() {
    let lane = OneLane::new(0);
    let store = before(&lane);
    let first = store.apply(vec![claim(0)]);
    tokio::task::yield_now().await;
    drop(store.apply(vec![claim(1)]));
    drop(first);
    lane.turns.add_permits(MANY);
    let last = store.apply(vec![claim(2)]);
    assert_eq!(last.await.len(), 1);
    for serial in 0..3 {
        let found = store.look(vec![claim(serial).id()]).await.remove(0).unwrap();
        assert!(found.record.is_some(), "step {serial} was forgotten");
    }
}

/// Steps that arrive at the very moment at which the lane goes idle are not left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost() {
    let lane = OneLane::new(MANY);
    let store = before(&lane);
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            for round in 0..4_000 {
                let step = claim(caller * 100_000 + round);
                let answers = store.apply(vec![step]);
                let answers = tokio::time::timeout(Duration::from_secs(10), answers).await;
                let answers = answers.expect("a step was left behind");
                assert!(matches!(answers[..], [Answer::Granted(_)]));
                if round % 7 == caller {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    callers.join_all().await;
    let steps: usize = lane.batches().iter().map(Vec::len).sum();
    assert_eq!(steps, 32_000);
    let ids: BTreeSet<_> = lane.batches().iter().flatten().map(Step::id).collect();
    assert_eq!(ids.len(), 32_000);
}

/// The reference behind one lane holds the whole contract.
struct Narrow(Memory);

impl Subject for Narrow {
    fn name(&self) -> &'static str {
        "memory behind one lane"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let inner = self.0.open().await;
            let narrow = crate::bench::Slow::with(inner, |capabilities| {
                capabilities.lanes = Some(NonZeroUsize::MIN);
            });
            Coalesce::before(Arc::new(narrow))
        })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.pass(span)
    }

    fn beat(&self) -> Duration {
        self.0.beat()
    }
}

mod contract {
    use super::{Memory, Narrow};

    hapax_contract::suite!(Narrow(Memory::new()));
}
