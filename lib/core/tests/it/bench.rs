//! What the tests share: an engine, the store under it, and what can be seen of both.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use hapax_contract::{Asked, Delivery, FaultStore};
use hapax_core::{
    Begin, BusinessKey, Call, Clock, Effect, Error, Fingerprint, Hapax, Happening, Id, Lease,
    Observer, Operation, OperationName, Outcome, Policy, Prints, Record, SystemClock, Tenant,
    Timestamp,
    store::{
        Answer, Capabilities, Entry, Fault, Found, MemoryStore, Page, RECORDS_MAX, Scan, Step,
        Store,
    },
};

/// The lease of the operations under test.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// A clock on tokio's paused time: when everybody sleeps, it jumps to the next alarm.
#[derive(Debug)]
pub(crate) struct PausedClock {
    start: Instant,
}

impl PausedClock {
    pub(crate) fn new() -> Self {
        Self { start: SystemClock.now() }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> Timestamp {
        let start = Timestamp::from_millis(1_790_000_000_000);
        start.plus(self.now().duration_since(self.start))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(span)
    }
}

/// An engine with everything around it.
pub(crate) struct Bench {
    pub(crate) hapax: Hapax,
    /// Under everything: what is really kept.
    pub(crate) memory: MemoryStore,
    /// What reached it.
    pub(crate) counted: Arc<Counted>,
    pub(crate) clock: Arc<PausedClock>,
    pub(crate) seen: Arc<Happenings>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::behind(|store| store)
    }

    /// An engine with `line` between it and the store.
    pub(crate) fn behind(line: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let clock = Arc::new(PausedClock::new());
        let memory = MemoryStore::with(Arc::clone(&clock) as Arc<_>, RECORDS_MAX);
        Self::on(memory, clock, line)
    }

    /// An engine before a store that holds its answers back while its gate is closed.
    pub(crate) fn slow() -> (Self, Arc<Slow>) {
        let mut slow = None;
        let bench = Self::behind(|store| Arc::clone(slow.insert(Arc::new(Slow::new(store)))) as _);
        (bench, slow.unwrap())
    }

    /// An engine behind a line that fares as `script` says.
    pub(crate) fn lossy(
        script: impl FnMut(Asked<'_>) -> Delivery + Send + 'static,
    ) -> (Self, FaultStore) {
        let mut line = None;
        let bench =
            Self::behind(|store| Arc::new(line.insert(FaultStore::new(store, script)).clone()));
        (bench, line.unwrap())
    }

    /// Another engine, as in another process, on the same store.
    pub(crate) fn twin(&self) -> Self {
        Self::on(self.memory.clone(), Arc::clone(&self.clock), |store| store)
    }

    fn on(
        memory: MemoryStore,
        clock: Arc<PausedClock>,
        line: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        let counted = Arc::new(Counted::new(Arc::new(memory.clone())));
        let seen = Arc::new(Happenings::default());
        let hapax = Hapax::on(line(Arc::clone(&counted) as Arc<_>))
            .clock(Arc::clone(&clock) as Arc<_>)
            .observer(Arc::clone(&seen) as Arc<_>)
            .build();
        Self { hapax, memory, counted, clock, seen }
    }

    pub(crate) fn declare(&self, effect: Effect) -> Operation {
        self.hapax.declare("bench.op", Policy::new(effect).lease(LEASE)).unwrap()
    }

    pub(crate) async fn record(&self, id: Id) -> Record {
        Arc::unwrap_or_clone(self.found(id).await.record.expect("there is a record"))
    }

    pub(crate) async fn found(&self, id: Id) -> Found {
        self.memory.look(vec![id]).await.remove(0).unwrap()
    }
}

/// Begins a call that nobody keeps.
pub(crate) async fn begun(call: Call) -> Result<Begin, Error> {
    call.begin().await
}

/// The call of `operation` on one key.
pub(crate) fn call(operation: &Operation, key: &str) -> Call {
    operation.business(Tenant::parse("bench").unwrap(), BusinessKey::parse(key).unwrap())
}

/// The lease of a call that must get it.
pub(crate) async fn lease(call: Call) -> Lease {
    match call.begin().await {
        Ok(Begin::Run(lease) | Begin::Verify(lease)) => lease,
        begun => panic!("the work must be ours: {begun:?}"),
    }
}

pub(crate) fn value(answer: &str) -> Outcome {
    Outcome::Value(answer.to_owned().into())
}

pub(crate) fn prints(request: &str) -> Prints {
    Fingerprint::new().text("request", request).prints()
}

/// Lets everybody else go on until nobody has anything to do.
pub(crate) async fn others_go_on() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A script in which the first `times` steps of one kind have the same fate.
pub(crate) fn first(
    wanted: &'static str,
    times: usize,
    fate: Delivery,
) -> impl FnMut(Asked<'_>) -> Delivery + Send + 'static {
    let mut left = times;
    move |asked| match asked {
        Asked::Step(step) if kind(step) == wanted && left > 0 => {
            left -= 1;
            fate
        }
        _ => Delivery::Normal,
    }
}

/// Lets virtual time pass.
pub(crate) async fn pass(span: Duration) {
    SystemClock.sleep(span).await;
}

/// A store that counts what reaches it, by kind.
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    steps: Mutex<BTreeMap<&'static str, usize>>,
    looks: AtomicUsize,
    calls: AtomicUsize,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            steps: Mutex::default(),
            looks: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.steps.lock().unwrap().get(kind).copied().unwrap_or_default()
    }

    /// Calls of `apply`, whatever the number of their steps.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

pub(crate) fn kind(step: &Step) -> &'static str {
    match step {
        Step::Claim(_) => "claim",
        Step::Renew { .. } => "renew",
        Step::Checkpoint { .. } => "checkpoint",
        Step::Complete { .. } => "complete",
        Step::Doubt { .. } => "doubt",
        Step::Release { .. } => "release",
        Step::Settle { .. } => "settle",
        _ => "another",
    }
}

impl Store for Counted {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut counts = self.steps.lock().unwrap();
        for step in &steps {
            *counts.entry(kind(step)).or_default() += 1;
        }
        drop(counts);
        self.inner.apply(steps)
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.inner.look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.inner.scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.inner.history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.inner.purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

/// A store that takes each step at once and holds its answers back until the gate opens.
pub(crate) struct Slow {
    inner: Arc<dyn Store>,
    gate: watch::Sender<bool>,
    capabilities: Capabilities,
}

impl Slow {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        let capabilities = inner.capabilities();
        Self { inner, gate: watch::Sender::new(true), capabilities }
    }

    /// The same with other capabilities.
    pub(crate) fn with(inner: Arc<dyn Store>, change: impl FnOnce(&mut Capabilities)) -> Self {
        let mut slow = Self::new(inner);
        change(&mut slow.capabilities);
        slow
    }

    pub(crate) fn close(&self) {
        self.gate.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.gate.send_replace(true);
    }
}

impl Store for Slow {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let (answers, mut gate) = (self.inner.apply(steps), self.gate.subscribe());
        Box::pin(async move {
            let answers = answers.await;
            gate.wait_for(|open| *open).await.expect("the gate outlives its steps");
            answers
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.inner.look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.inner.scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.inner.history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.inner.purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

/// Everything that the engine told.
#[derive(Default)]
pub(crate) struct Happenings(Mutex<BTreeMap<&'static str, usize>>);

impl Happenings {
    pub(crate) fn count(&self, word: &str) -> usize {
        self.0.lock().unwrap().get(word).copied().unwrap_or_default()
    }
}

impl Observer for Happenings {
    fn observe(&self, _: &OperationName, _: Id, event: &Happening) {
        *self.0.lock().unwrap().entry(event.as_str()).or_default() += 1;
    }
}
