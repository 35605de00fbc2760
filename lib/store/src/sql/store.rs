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
    dialect::{Bind, Dialect},
    errand::{Done, Errand},
    fate::Fate,
    gate::Gate,
    gather::Gather,
    migrate,
    opening::Pools,
    purge, read,
    row::Row,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Clock, Id, SystemClock, Timestamp, backoff,
    store::{
        Answer, Capabilities, Durability, Entry, Fault, FaultKind, Found, Page, Reading, Scan,
        Sharing, Step, Store,
    },
};

/// Steps of one batch: more rows gain nothing and delay everybody in it.
const BATCH_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Each try waits for the engine's own busy time-out; after the last one the caller decides.
const BEGIN_TRIES: usize = 3;
/// Pauses between two tries stay below a second.
const BEGIN_PAUSES: Duration = Duration::from_secs(4);
/// Shards of the change hints: a waiter wakes for a 64th of all changes.
const HINTS: usize = 64;

/// A store on a SQL engine. Cheap to clone; all clones are one.
pub struct Sql<D: Dialect>(Arc<Shared<D>>);

/// What all clones share.
pub(super) struct Shared<D: Dialect> {
    pub(super) pools: Pools<D>,
    /// Business transactions pass it, as many as have a connection.
    gate: Gate,
    /// The longest that a business transaction may last.
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
    /// Takes the pools over. A business transaction waits for its turn at most `wait_max`, and
    /// lasts at most `hold_max`.
    pub(super) fn new(pools: Pools<D>, wait_max: Duration, hold_max: Duration) -> Self {
        let hint = || watch::Sender::new(());
        let count = |pool: &Pool<_>| usize::try_from(pool.options().get_max_connections());
        let turns = count(&pools.business).unwrap_or(1);
        // A lane of looks leaves half of the readers to others.
        let looks = std::cmp::max(count(&pools.readers).unwrap_or(1) / 2, 1);
        // Where each errand is a transaction of its own it gains nothing by company.
        let errands = match D::COMMITS_EACH {
            true => Gather::new(count(&pools.steps).unwrap_or(1), 1),
            false => Gather::new(1, BATCH_MAX.get()),
        };
        Self(Arc::new(Shared {
            gate: Gate::new(turns, wait_max),
            hold_max,
            pools,
            errands,
            looks: Gather::new(looks, BATCH_MAX.get()),
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
        let Shared { pools: Pools { steps, business, readers }, hold_max, .. } = other.shared();
        let pools =
            Pools { steps: steps.clone(), business: business.clone(), readers: readers.clone() };
        Self::new(pools, *hold_max, *hold_max)
    }

    /// Looks whether the schema is still that of this build; another build may have changed it.
    ///
    /// # Errors
    /// [`Kind::Schema`] if it is not, and those of the database.
    pub async fn check_schema(&self) -> Result<(), Error> {
        let steps = migrate::list::<D>(self.readers(), D::SCRIPTS).await?;
        match steps.iter().find(|step| !step.is_applied) {
            None => Ok(()),
            Some(missing) => Err(migrate::Mismatch::Older(missing.version).into()),
        }
    }

    /// Connections that only read. Nothing that is read there waits for a writer.
    pub fn readers(&self) -> &Pool<<D as Dialect>::Db> {
        &self.0.pools.readers
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
        let up =
            self.owned(async move { migrate::up::<D>(&sql.0.pools.business, &migrator).await });
        finished(up.await)
    }

    /// Waits for the work that has begun, then closes all connections.
    ///
    /// Call it at shutdown, after the engine was drained.
    pub async fn close(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.pools.close().await;
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

    /// Waits until there is a connection for a business transaction.
    pub(super) async fn gate(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.0.gate.pass().await
    }

    /// Starts a business transaction. On a task of the store only.
    pub(super) async fn begin(
        &self,
        name: &'static str,
    ) -> Result<Transaction<'static, <D as Dialect>::Db>, Error> {
        let tx = begin::<D>(&self.0.pools.business).await?;
        tracing::debug!(transaction = name, "a transaction began");
        Ok(tx)
    }

    /// Starts a transaction of the store's own. On a task of the store only.
    pub(super) async fn begin_steps(
        &self,
    ) -> Result<Transaction<'static, <D as Dialect>::Db>, Error> {
        let tx = begin::<D>(&self.0.pools.steps).await?;
        tracing::debug!(transaction = "steps", "a transaction began");
        Ok(tx)
    }

    /// Sends a change as a transaction of its own. [`Kind::Unsure`] if nobody can say whether it
    /// happened; after any other error it surely did not.
    pub(super) async fn change(
        &self,
        change: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, Error> {
        let op = "change rows";
        let mut pauses = backoff(BEGIN_PAUSES).take(BEGIN_TRIES - 1);
        loop {
            let mut conn =
                self.0.pools.steps.acquire().await.map_err(|cause| Error::undone(op, cause))?;
            let cause = match D::change(&mut conn, change, binds.clone()).await {
                Ok(rows) => return Ok(rows),
                Err(cause) => cause,
            };
            drop(conn);
            match (Fate::of_commit(&cause), pauses.next()) {
                // Others were in the way: the engine has taken all of it back.
                (Some(Fate::Again), Some(pause)) => SystemClock.sleep(pause).await,
                (Some(fate), _) => return Err(Error::caused(fate.kind(), op, cause)),
                (None, _) => return Err(Error::caused(Kind::Unsure, op, cause)),
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

async fn begin<D: Dialect>(
    pool: &Pool<<D as Dialect>::Db>,
) -> Result<Transaction<'static, <D as Dialect>::Db>, Error> {
    let mut pauses = backoff(BEGIN_PAUSES).take(BEGIN_TRIES - 1);
    loop {
        let cause = match D::begin(pool).await {
            Ok(tx) => return Ok(tx),
            Err(cause) => cause,
        };
        match pauses.next() {
            Some(pause) if Fate::of(&cause) == Fate::Again => SystemClock.sleep(pause).await,
            _ => return Err(Error::undone("begin a transaction", cause)),
        }
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
        let lanes = usize::try_from(self.0.pools.steps.options().get_max_connections());
        Capabilities {
            lanes: lanes.ok().and_then(NonZeroUsize::new),
            batch_max: BATCH_MAX,
            durability: Durability::Disk,
            sharing: Sharing::Shared,
            reading: Reading::First,
        }
    }
}
