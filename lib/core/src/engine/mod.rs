//! The engine: declared operations, calls of them, and the leases that the winners hold.
//!
//! It claims, renews, waits and closes around a [`Store`], and asks
//! [`decide`](crate::decide()) for every judgement.

mod begin;
mod completer;
mod flight;
mod lease;
mod observe;
mod operation;
mod owned;
mod policy;
mod run;
mod settle;
mod watchdog;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio_util::task::TaskTracker;

pub use self::{
    begin::Begin,
    completer::{Completer, Resume},
    flight::{FOLLOWERS_MAX, FOLLOWERS_PER_KEY_MAX},
    lease::{Lease, Resolved, Sealing, Work},
    observe::{Happening, Observer, Unobserved},
    operation::{Call, Operation},
    owned::Owned,
    policy::{ATTEMPTS_MAX, Busy, KEEP, LEASE, Policy},
    run::{End, Ran},
    settle::Ruled,
};
use self::{flight::Flights, operation::Declared, watchdog::Watchdog};
use crate::{
    error::{Error, Kind},
    id::{Actor, Id, OperationName},
    invalid::Invalid,
    record::Nonce,
    store::{Answer, Coalesce, Fault, FaultKind, Found, Reading, Store},
    time::{Clock, SystemClock},
};

/// The engine around one store. Cheap to clone; all clones are one.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use hapax_core::{Begin, BusinessKey, Effect, Hapax, Outcome, Policy, Tenant};
/// use hapax_core::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let hapax = Hapax::new(Arc::new(MemoryStore::new()));
/// let create = hapax.declare("order.create", Policy::new(Effect::Transactional).forever())?;
///
/// for _ in 0..2 {
///     let call = create.business(Tenant::parse("shop")?, BusinessKey::of(&["1001"])?);
///     match call.begin().await? {
///         Begin::Run(lease) => lease.complete(Outcome::Value(Bytes::from("done"))).await?,
///         Begin::Replay(outcome) => assert_eq!(outcome, Outcome::Value(Bytes::from("done"))),
///         other => panic!("{other:?}"),
///     }
/// }
/// # Ok::<_, hapax_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Hapax {
    shared: Arc<Shared>,
}

/// What all clones, operations and leases share.
struct Shared {
    store: Arc<dyn Store>,
    reads_first: bool,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    name: Actor,
    flights: Arc<Flights>,
    watchdog: Arc<Watchdog>,
    /// Last words on their way. Shutdown waits for them.
    tasks: TaskTracker,
    operations: Mutex<HashMap<OperationName, Arc<Declared>>>,
}

/// Sets up an engine that differs from the default.
#[must_use]
pub struct Builder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    name: Option<Actor>,
}

impl Builder {
    /// The clock of this process.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Who sees what happens.
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// The name under which this process claims, in journals.
    pub fn name(self, name: Actor) -> Self {
        Self { name: Some(name), ..self }
    }

    /// The engine.
    pub fn build(self) -> Hapax {
        let reads_first = self.store.capabilities().reading == Reading::First;
        let store = Coalesce::before(self.store);
        let watchdog =
            Watchdog::new(Arc::clone(&store), Arc::clone(&self.clock), Arc::clone(&self.observer));
        let shared = Shared {
            store,
            reads_first,
            clock: self.clock,
            observer: self.observer,
            name: self.name.unwrap_or_else(Actor::this_process),
            flights: Arc::new(Flights::new()),
            watchdog: Arc::new(watchdog),
            tasks: TaskTracker::new(),
            operations: Mutex::default(),
        };
        Hapax { shared: Arc::new(shared) }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Hapax {
    /// The engine on the machine's clock, unobserved.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::on(store).build()
    }

    /// Sets up an engine that differs from the default.
    pub fn on(store: Arc<dyn Store>) -> Builder {
        Builder { store, clock: Arc::new(SystemClock), observer: Arc::new(Unobserved), name: None }
    }

    /// Declares an operation under its stable name. Declare each one once, at start-up.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the name is taken or breaks a rule, if outcomes are kept for a
    /// shorter time than callers may send again, or if the store survives less than is needed.
    pub fn declare(&self, name: &str, policy: Policy) -> Result<Operation, Error> {
        policy.check(&self.shared.store.capabilities())?;
        let name = OperationName::parse(name)?;
        let mut names = vec![name.clone()];
        for former in &policy.formerly {
            names.push(OperationName::parse(former)?);
        }
        let root = names.get(1).unwrap_or(&name).clone();
        let declared = Arc::new(Declared { name, root, policy });
        let mut operations = self.shared.operations();
        if names.iter().any(|name| operations.contains_key(name)) {
            return Err(
                Invalid::new("operation name", "is declared already; choose another").into()
            );
        }
        for name in names {
            operations.insert(name, Arc::clone(&declared));
        }
        drop(operations);
        Ok(Operation { shared: Arc::clone(&self.shared), declared })
    }

    /// The operation of this name, or of this former name.
    pub fn operation(&self, name: &OperationName) -> Option<Operation> {
        let declared = self.shared.operations().get(name).cloned()?;
        Some(Operation { shared: Arc::clone(&self.shared), declared })
    }

    /// The store, with its lanes before it.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    /// The clock of this process.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// Waits until every last word that is on its way has reached the store.
    ///
    /// Call it at shutdown, when no new call can begin.
    pub async fn drain(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.tasks.reopen();
    }
}

impl std::fmt::Debug for Hapax {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hapax").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl Shared {
    async fn look(&self, id: Id) -> Result<Found, Error> {
        let seen = self.store.look(vec![id]).await.pop();
        let found = seen.unwrap_or_else(|| Err(no_answer()));
        found.map_err(|fault| Error::away("look at the record", fault))
    }

    fn operations(&self) -> std::sync::MutexGuard<'_, HashMap<OperationName, Arc<Declared>>> {
        // Inserting leaves nothing half done.
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nonce {
    /// A nonce from the machine's random source.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if the machine has no random bytes.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|cause| Error::caused(Kind::Unavailable, "draw random bytes", cause))?;
        Ok(Self::from_bytes(bytes))
    }
}

/// The answer to the one step that was sent.
fn only(mut answers: Vec<Answer>) -> Answer {
    answers.pop().unwrap_or_else(|| Answer::Unsure(no_answer()))
}

/// A store that breaks its contract: fewer answers than steps, or the wrong kind.
fn no_answer() -> Fault {
    Fault::new(FaultKind::Corrupt, "the store did not answer what was asked")
}

/// Pauses that double from 5 ms to a quarter of `span` or one second, each cut by up to a half so
/// that those who failed together do not come again together.
pub fn backoff(span: Duration) -> impl Iterator<Item = Duration> {
    let longest = std::cmp::min(span / 4, Duration::from_secs(1));
    std::iter::successors(Some(Duration::from_millis(5)), move |pause| {
        Some(std::cmp::min(*pause * 2, longest))
    })
    .map(|pause| {
        // Without randomness the pauses are merely even.
        let part = getrandom::u32().map_or(0, |random| random % 512);
        pause - pause * part / 1024
    })
}
