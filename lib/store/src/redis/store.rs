//! The store, and what its tasks share.
//!
//! Steps are sent by tasks that the store owns: a caller that goes away abandons an answer.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use futures_util::future::{BoxFuture, join_all};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::DropGuard;

use super::{
    fleet::Fleet,
    locks::Ears,
    record::Told,
    scan,
    script::{SHIPPED, Script, Scripts},
    step,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Id,
    store::{
        Answer, Capabilities, Durability, Entry, Fault, FaultKind, Found, Page, Reading, Scan,
        Sharing, Step, Store,
    },
};

/// Steps of one call. They go out one by one on the shared connection; more of them would only
/// stand in its queue.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Shards of the hints: a waiter wakes for a 64th of all changes.
const HINTS: usize = 64;

/// A store in Redis or Valkey, single or cluster. Cheap to clone; all clones are one.
///
/// Best effort as claim authority: a fail-over or a crash of the server may lose a claim that
/// was granted, and its work then runs again. An operation that `needs(Durability::Disk)`
/// refuses to be declared on it. Locks are an efficiency layer here as everywhere.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use hapax_core::{Effect, Hapax, Policy};
/// use hapax_store::{Error, redis::RedisStore};
///
/// # async fn open() -> Result<(), Error> {
/// // Of a cluster, some of its servers; whether it is one is asked.
/// let redis = RedisStore::open("redis://10.0.0.1,redis://10.0.0.2").await?;
/// let hapax = Hapax::new(Arc::new(redis));
/// let notice = hapax.declare("notice.send", Policy::new(Effect::Opaque).forever())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore(Arc<Shared>);

/// What all clones share.
pub(super) struct Shared {
    pub(super) fleet: Arc<Fleet>,
    /// What every key begins with.
    pub(super) namespace: String,
    pub(super) scripts: &'static Scripts,
    hints: Vec<watch::Sender<()>>,
    pub(super) ears: Ears,
    /// Ends what goes on in the background when the last clone is gone.
    _end: DropGuard,
}

impl RedisStore {
    pub(super) fn new(fleet: Arc<Fleet>, namespace: String) -> Self {
        Self::with(fleet, namespace, &SHIPPED)
    }

    /// A store that runs other scripts than those that are shipped.
    pub(super) fn with(fleet: Arc<Fleet>, namespace: String, scripts: &'static Scripts) -> Self {
        let (ears, end) = Ears::new(&namespace);
        Self(Arc::new(Shared {
            fleet,
            namespace,
            scripts,
            hints: std::iter::repeat_with(|| watch::Sender::new(())).take(HINTS).collect(),
            ears,
            _end: end,
        }))
    }

    /// Waits for the work that has begun. Call it at shutdown, after the engine was drained.
    pub async fn close(&self) {
        self.0.ears.stop();
        self.0.fleet.tasks.close();
        self.0.fleet.tasks.wait().await;
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Runs `work` on a task that nobody drops.
    pub(super) fn owned<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.fleet.tasks.spawn_on(work, &self.0.fleet.runtime)
    }

    /// The key of a record. The id between braces is what a cluster finds its slot by.
    pub(super) fn key(&self, tag: &str) -> String {
        format!("{}:{{{tag}}}", self.0.namespace)
    }

    async fn take(&self, step: &Step) -> Answer {
        match self.try_take(step).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == Kind::Unsure => Answer::Unsure(error.into_fault()),
            Err(error) => Answer::Away(error.into_fault()),
        }
    }

    async fn try_take(&self, step: &Step) -> Result<Answer, Error> {
        let tag = step.id().hex();
        let (script, call) = step::call(self.0.scripts, &self.key(&tag), step)?;
        let told = self.0.fleet.run(&tag, script, &call).await?;
        // It was taken; what it did cannot be read.
        let unread = |cause| Error::caused(Kind::Unsure, "read the answer of a script", cause);
        let (answer, has_changed) = step::answer(step, told).map_err(unread)?;
        if has_changed {
            self.hints(step.id()).send_replace(());
        }
        Ok(answer)
    }

    /// Looks at a record. `None`: not a record of this build.
    pub(super) async fn look_at(&self, id: Id) -> Result<Found, Error> {
        let mut told = self.read(id, &self.0.scripts.look).await?;
        let _found = told.bytes().map_err(Error::torn)?;
        let now = told.time().map_err(Error::torn)?;
        told.found(now).map_err(Error::torn)
    }

    async fn read(&self, id: Id, script: &Script) -> Result<Told, Error> {
        let tag = id.hex();
        let call = script.on(&self.key(&tag), 0, 0);
        let told = self.0.fleet.run(&tag, script, &call).await?;
        Told::new(told).map_err(Error::torn)
    }

    fn hints(&self, id: Id) -> &watch::Sender<()> {
        let [first, ..] = id.as_bytes();
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
        &self.0.hints[usize::from(*first) % HINTS]
    }
}

/// A future that completes with the next hint.
pub(super) fn next(hints: &watch::Sender<()>) -> BoxFuture<'static, ()> {
    let mut hints = hints.subscribe();
    Box::pin(async move {
        // The sender is gone only if the store is: then nothing changes any more.
        if hints.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Puts an owned task's answer into the words of the engine's traits.
pub(super) fn answer<T: Send + 'static>(
    task: JoinHandle<Result<T, Error>>,
) -> BoxFuture<'static, Result<T, Fault>> {
    Box::pin(async move {
        match task.await {
            Ok(answer) => answer.map_err(Error::into_fault),
            Err(cause) => Err(Fault::new(FaultKind::Unavailable, cause)),
        }
    })
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("namespace", &self.0.namespace)
            .field("is_cluster", &self.0.fleet.is_cluster())
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let (store, count) = (self.clone(), steps.len());
        let task = self.owned(async move {
            match steps.as_slice() {
                [step] => vec![store.take(step).await],
                steps => join_all(steps.iter().map(|step| store.take(step))).await,
            }
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|cause| {
                let fault = Fault::new(FaultKind::Unavailable, cause);
                vec![Answer::Unsure(fault); count]
            })
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        let store = self.clone();
        Box::pin(async move {
            let looks = ids.into_iter().map(|id| store.look_at(id));
            let looks = join_all(looks).await.into_iter();
            looks.map(|found| found.map_err(Error::into_fault)).collect()
        })
    }

    /// Hears of changes that were made through this store; those of other processes are seen at
    /// the caller's next look.
    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        next(self.hints(id))
    }

    /// Reads every key of every master for one page: for operators, not for traffic.
    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        let store = self.clone();
        answer(self.owned(async move { scan::page(&store, &scan).await }))
    }

    /// The journal goes with its record.
    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        let store = self.clone();
        answer(self.owned(async move {
            let lines = store.read(id, &store.0.scripts.history).await?.lines();
            lines.map_err(Error::torn)
        }))
    }

    /// Nothing is left to do: what counts as absent is not shown, and its key expires by itself.
    fn purge(&self, _: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: None,
            batch_max: BATCH_MAX,
            durability: Durability::Volatile,
            sharing: Sharing::Shared,
            reading: Reading::Never,
        }
    }
}
