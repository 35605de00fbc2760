//! The store: pools, the writer's gate, and what its tasks share.
//!
//! Invariant: a transaction begins, works and ends on a task that the store owns. Callers hold
//! answers, never transactions (`dropped_callers_leave_no_open_transaction`).

use std::{fmt, future::Future, num::NonZeroUsize, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use sqlx::{Pool, Transaction, migrate::Migrator};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, watch},
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use super::{
    batch,
    dialect::Dialect,
    errand::{Done, Errand},
    fate::Fate,
    gate::Gate,
    gather::Gather,
    migrate, purge, read,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Clock, Id, SystemClock, Timestamp, backoff,
    store::{
        Answer, Capabilities, Durability, Entry, Fault, FaultKind, Found, Page, Reading, Scan,
        Sharing, Step, Store,
    },
};

/// Steps of one transaction: more rows gain nothing and delay everybody in it.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Each try waits for the engine's own busy time-out; after the last one the caller decides.
const BEGIN_TRIES: usize = 3;
/// Pauses between two tries stay below a second.
const BEGIN_PAUSES: Duration = Duration::from_secs(4);
/// Looks that are under way at once. Those that meet at busy readers share the next statement,
/// which costs a fraction of a statement each.
const LOOK_LANES: usize = 2;
/// Shards of the change hints: a waiter wakes for a 64th of all changes.
const HINTS: usize = 64;

/// A store on a SQL engine. Cheap to clone; all clones are one.
pub struct Sql<D: Dialect>(Arc<Shared<D>>);

/// What all clones share.
pub(super) struct Shared<D: Dialect> {
    pub(super) writer: Pool<<D as Dialect>::Db>,
    pub(super) readers: Pool<<D as Dialect>::Db>,
    /// Business transactions pass it one by one and meet batches at the writer: between two of
    /// them a batch that waits has its turn.
    gate: Gate,
    /// The longest that a business transaction may hold the writer.
    pub(super) hold_max: Duration,
    pub(super) errands: Gather<Errand, Done>,
    pub(super) looks: Gather<Id, Found>,
    hints: Vec<watch::Sender<()>>,
    pub(super) freed: watch::Sender<()>,
    pub(super) written: watch::Sender<()>,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

impl<D: Dialect> Sql<D> {
    /// Takes the pools over. The writer's pool has as many connections as may write at once.
    pub(super) fn new(
        writer: Pool<<D as Dialect>::Db>,
        readers: Pool<<D as Dialect>::Db>,
        gate: Gate,
        hold_max: Duration,
    ) -> Self {
        let hint = || watch::Sender::new(());
        Self(Arc::new(Shared {
            writer,
            readers,
            gate,
            hold_max,
            errands: Gather::new(1),
            looks: Gather::new(LOOK_LANES),
            hints: std::iter::repeat_with(hint).take(HINTS).collect(),
            freed: hint(),
            written: hint(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        }))
    }

    /// A store on the connections of another one, which speaks another dialect of its engine.
    #[cfg(test)]
    pub(super) fn beside<Other: Dialect<Db = <D as Dialect>::Db>>(other: &Sql<Other>) -> Self {
        let Shared { writer, readers, hold_max, .. } = other.shared();
        Self::new(writer.clone(), readers.clone(), Gate::new(*hold_max), *hold_max)
    }

    /// Connections that only read. Nothing that is read there waits for a writer.
    pub fn readers(&self) -> &Pool<<D as Dialect>::Db> {
        &self.0.readers
    }

    /// The store's time.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        read::now(self).await
    }

    /// Brings the tables of the caller up, in one transaction that keeps other processes out.
    ///
    /// Give the migrator a table of its own.
    ///
    /// # Errors
    /// [`Kind::Schema`] if a script is unknown or was edited; those of the database.
    pub async fn migrate(&self, migrator: Migrator) -> Result<(), Error> {
        let sql = self.clone();
        let up = self.owned(async move { migrate::up::<D>(&sql.0.writer, &migrator).await });
        finished(up.await)
    }

    /// Waits for the work that has begun, then closes all connections.
    ///
    /// Call it at shutdown, after the engine was drained.
    pub async fn close(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.readers.close().await;
        self.0.writer.close().await;
    }

    pub(super) fn shared(&self) -> &Shared<D> {
        &self.0
    }

    /// Runs `work` on a task that nobody drops.
    pub(super) fn owned<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.tasks.spawn_on(work, &self.0.runtime)
    }

    /// Waits until a business transaction may come to the writer.
    pub(super) async fn gate(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.0.gate.pass().await
    }

    /// Starts a transaction that may write. On a task of the store only.
    pub(super) async fn begin(
        &self,
        name: &'static str,
    ) -> Result<Transaction<'static, <D as Dialect>::Db>, Error> {
        let mut pauses = backoff(BEGIN_PAUSES).take(BEGIN_TRIES - 1);
        loop {
            let cause = match D::begin(&self.0.writer).await {
                Ok(tx) => {
                    tracing::debug!(transaction = name, "a transaction began");
                    return Ok(tx);
                }
                Err(cause) => cause,
            };
            match pauses.next() {
                Some(pause) if Fate::of(&cause) == Fate::Again => SystemClock.sleep(pause).await,
                _ => return Err(Error::undone("begin a transaction", cause)),
            }
        }
    }

    /// Commits. [`Kind::Unsure`] if nobody can say whether it happened; after any other error it
    /// surely did not.
    pub(super) async fn commit(
        &self,
        tx: Transaction<'static, <D as Dialect>::Db>,
    ) -> Result<(), Error> {
        D::commit(tx).await.map_err(commit_error)
    }

    /// Rolls back. If even that fails the driver drops the connection's transaction by itself.
    pub(super) async fn rollback(&self, tx: Transaction<'static, <D as Dialect>::Db>) {
        if let Err(cause) = tx.rollback().await {
            tracing::debug!(
                error = &cause as &dyn std::error::Error,
                "a rollback was not answered"
            );
        }
    }

    /// Hints that a record may have changed.
    pub(super) fn hint(&self, id: Id) {
        self.hints(id).send_replace(());
    }

    fn hints(&self, id: Id) -> &watch::Sender<()> {
        let [first, ..] = id.as_bytes();
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
        &self.0.hints[usize::from(*first) % HINTS]
    }
}

/// What an error of COMMIT means.
pub(super) fn commit_error(cause: sqlx::Error) -> Error {
    match Fate::of_commit(&cause) {
        Some(fate) => Error::caused(fate.kind(), "commit", cause),
        None => Error::caused(Kind::Unsure, "commit", cause),
    }
}

/// The answer of a task that nobody dropped; a panic in it is our bug, and it is told.
pub(super) fn finished<T, E: From<Error>>(
    ended: Result<Result<T, E>, tokio::task::JoinError>,
) -> Result<T, E> {
    ended.unwrap_or_else(|cause| Err(Error::caused(Kind::Panicked, "work", cause).into()))
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
    Box::pin(async move { finished(task.await).map_err(Error::into_fault) })
}

impl<D: Dialect> Clone for Sql<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Dialect> fmt::Debug for Sql<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sql").field("tasks", &self.0.tasks.len()).finish_non_exhaustive()
    }
}

impl<D: Dialect> Store for Sql<D> {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let (sql, count) = (self.clone(), steps.len());
        let task = self.owned(async move { batch::apply(&sql, &steps).await });
        Box::pin(async move {
            task.await.unwrap_or_else(|cause| {
                let fault = Fault::new(FaultKind::Unavailable, cause);
                vec![Answer::Unsure(fault); count]
            })
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        let looks: Vec<_> = ids.into_iter().map(|id| read::look(self, id)).collect();
        Box::pin(join_all(looks))
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        next(self.hints(id))
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        let sql = self.clone();
        answer(self.owned(async move { read::scan(&sql, &scan).await }))
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        let sql = self.clone();
        answer(self.owned(async move { read::history(&sql, id).await }))
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        let sql = self.clone();
        answer(self.owned(async move { purge::records(&sql, rows).await }))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lanes: Some(NonZeroUsize::MIN),
            batch_max: BATCH_MAX,
            durability: Durability::Disk,
            sharing: Sharing::Shared,
            reading: Reading::First,
        }
    }
}
