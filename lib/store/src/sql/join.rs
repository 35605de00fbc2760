//! The caller's own transaction: the seal joins it, the caller commits it.
//!
//! Invariant: a joined or sealed handle that is dropped is judged by what the record says, and
//! never released on a guess (`a_dropped_seal_is_read_back`).

use std::{fmt, ops::Deref};

use serde::Serialize;
use sqlx::Transaction;

use super::{
    dialect::Dialect,
    read, seal,
    store::{Sql, finished},
};
use crate::error::{Error, Kind};
use hapax_core::{Lease, Outcome, Resolved, Sealing, State, Timestamp, Work};

impl<D: Dialect> Sql<D> {
    /// Ties the lease to a transaction of the caller on this database.
    ///
    /// Begin it after the claim, so that its snapshot shows the claim, and so that it may write at
    /// once (`BEGIN IMMEDIATE` on SQLite), keep it short (no lease is renewed while it holds the
    /// writer), seal last, then commit:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use hapax_core::{Begin, BusinessKey, Effect, Hapax, Policy, Tenant};
    /// # use hapax_store::{Error, SqliteStore};
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("shop.db");
    /// # let sql = SqliteStore::open(&path).await?;
    /// # let hapax = Hapax::new(Arc::new(sql.clone()));
    /// # let create = hapax.declare("order.create", Policy::new(Effect::Transactional).forever())?;
    /// # let call = create.business(Tenant::parse("shop")?, BusinessKey::of(&["1001"])?);
    /// # let url = format!("sqlite://{}", path.display());
    /// # let pool = sqlx::SqlitePool::connect(&url).await?;
    /// if let Begin::Run(lease) = call.begin().await? {
    ///     let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    ///     let joined = sql.join(lease, &mut tx).await?;
    ///     // … business rows on `&mut *tx` …
    ///     joined.seal(&mut tx, &"created").await?.commit(tx).await?;
    /// }
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the database; the lease is in [`Unsealed`].
    pub async fn join(
        &self,
        lease: Lease,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
    ) -> Result<Joined<D>, Unsealed> {
        match seal::set_witness::<D>(tx).await {
            Ok(()) => Ok(Joined { sql: self.clone(), lease }),
            Err(error) => {
                D::spoil(tx, &error).await;
                Err(Unsealed { error, lease: Some(lease) })
            }
        }
    }
}

/// A lease whose last word will be part of the caller's transaction.
#[must_use = "seal it as the last write before COMMIT"]
pub struct Joined<D: Dialect> {
    sql: Sql<D>,
    lease: Lease,
}

impl<D: Dialect> Joined<D> {
    /// Completes the record inside the transaction, with `answer` for every repeat.
    ///
    /// # Errors
    /// [`Kind::Fenced`] if another attempt has taken over, [`Kind::Unavailable`] if the
    /// transaction's snapshot is older than the claim or its last renewal, and what the database
    /// says: roll the transaction back. Where nothing was lost the lease is in [`Unsealed`], for
    /// another try.
    ///
    /// # Cancellation
    /// A seal that is dropped half-way leaves the record to its lease: roll back.
    pub async fn seal<T: Serialize + Sync>(
        self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        answer: &T,
    ) -> Result<Sealed<D>, Unsealed> {
        match seal::encode(answer) {
            Ok(stored) => {
                let outcome = self.lease.bounded(stored);
                self.seal_with(tx, outcome).await
            }
            Err(error) => Err(Unsealed { error, lease: Some(self.lease) }),
        }
    }

    /// The same with an outcome that is already encoded.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub async fn seal_with(
        self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        outcome: Outcome,
    ) -> Result<Sealed<D>, Unsealed> {
        if let Err(error) = seal::ask_witness::<D>(tx).await {
            D::spoil(tx, &error).await;
            return Err(Unsealed { error, lease: Some(self.lease) });
        }
        let sealing = self.lease.seal();
        match seal::seal::<D>(tx, &sealing, &outcome).await {
            Ok(Some(now)) => {
                let sealing = Some(Box::new(Unanswered { sealing, outcome, now }));
                Ok(Sealed { sql: self.sql, sealing })
            }
            Ok(None) => Err(unseen(&self.sql, sealing).await),
            Err(error) => {
                D::spoil(tx, &error).await;
                Err(Unsealed { error, lease: Some(sealing.rolled_back()) })
            }
        }
    }
}

/// The seal changed nothing: another attempt has taken over, or the transaction's snapshot is older
/// than the claim, which is then there for everybody else.
async fn unseen<D: Dialect>(sql: &Sql<D>, sealing: Sealing) -> Unsealed {
    let fence = sealing.fence();
    let is_ours = match read::look(sql, fence.id).await {
        Ok(found) => found.record.is_some_and(|record| {
            record.is_held_by(&fence) && matches!(record.state, State::Claimed | State::Unknown)
        }),
        // Nobody can say; a lease that is ours lapses by itself.
        Err(_) => false,
    };
    if is_ours {
        let cause = "its snapshot is older than the claim; begin it after the claim";
        let error = Error::caused(Kind::Unavailable, "seal the transaction", cause);
        return Unsealed { error, lease: Some(sealing.rolled_back()) };
    }
    Unsealed { error: sealing.fenced().into(), lease: None }
}

impl<D: Dialect> Deref for Joined<D> {
    type Target = Work;

    fn deref(&self) -> &Work {
        &self.lease
    }
}

impl<D: Dialect> fmt::Debug for Joined<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// A seal that waits for COMMIT.
///
/// Dropped without a word, the record is read back by its fence in the background.
#[must_use = "commit the transaction, or say that it was committed"]
pub struct Sealed<D: Dialect> {
    sql: Sql<D>,
    sealing: Option<Box<Unanswered>>,
}

struct Unanswered {
    sealing: Sealing,
    outcome: Outcome,
    now: Timestamp,
}

impl<D: Dialect> Sealed<D> {
    /// Commits the transaction, on a task that nobody drops.
    ///
    /// # Errors
    /// What COMMIT said; the lease is in [`Unsealed`] if it surely did not happen.
    /// [`Kind::Unsure`] if neither COMMIT nor the record was answered.
    ///
    /// # Cancellation
    /// Dropping the future drops the waiting; the commit goes on.
    pub async fn commit(
        mut self,
        tx: Transaction<'static, <D as Dialect>::Db>,
    ) -> Result<(), Unsealed> {
        let Some(sealing) = self.sealing.take() else { return Ok(()) };
        let sql = self.sql.clone();
        let task = self.sql.owned(async move {
            match sql.commit(tx).await {
                Ok(()) => {
                    settle(&sql, *sealing);
                    Ok(())
                }
                Err(error) if error.kind() == Kind::Unsure => read_back(&sql, *sealing).await,
                Err(error) => Err(Unsealed { error, lease: Some(sealing.sealing.rolled_back()) }),
            }
        });
        finished(task.await)
    }

    /// The caller committed the transaction.
    pub fn committed(mut self) {
        if let Some(sealing) = self.sealing.take() {
            settle(&self.sql, *sealing);
        }
    }

    /// The caller rolled the transaction back: the lease goes on, if it has not lapsed.
    pub fn rolled_back(mut self) -> Option<Lease> {
        Some(self.sealing.take()?.sealing.rolled_back())
    }
}

impl<D: Dialect> Drop for Sealed<D> {
    fn drop(&mut self) {
        if let Some(sealing) = self.sealing.take() {
            let sql = self.sql.clone();
            self.sql.owned(async move {
                if let Err(unsealed) = read_back(&sql, *sealing).await {
                    tracing::warn!(
                        error = &unsealed.error as &dyn std::error::Error,
                        "a seal was dropped without a commit"
                    );
                }
            });
        }
    }
}

impl<D: Dialect> fmt::Debug for Sealed<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").finish_non_exhaustive()
    }
}

fn settle<D: Dialect>(sql: &Sql<D>, unanswered: Unanswered) {
    let Unanswered { sealing, outcome, now } = unanswered;
    let id = sealing.fence().id;
    sealing.committed(outcome, now);
    sql.hint(id);
    sql.announce();
}

async fn read_back<D: Dialect>(sql: &Sql<D>, unanswered: Unanswered) -> Result<(), Unsealed> {
    match unanswered.sealing.resolve().await {
        Ok(Resolved::Committed(_)) => {
            sql.announce();
            Ok(())
        }
        Ok(Resolved::RolledBack(lease)) => {
            let error = Error::new(Kind::Unavailable, "commit");
            Err(Unsealed { error, lease: Some(lease) })
        }
        Ok(Resolved::Fenced(error)) | Err(error) => {
            Err(Unsealed { error: error.into(), lease: None })
        }
    }
}

/// A transaction that was not sealed or not committed: why, and the lease if it is still ours.
pub struct Unsealed {
    error: Error,
    lease: Option<Lease>,
}

impl Unsealed {
    /// Why.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The lease, to run the transaction again under the same claim.
    pub fn into_lease(self) -> Option<Lease> {
        self.lease
    }
}

impl From<Error> for Unsealed {
    fn from(error: Error) -> Self {
        Self { error, lease: None }
    }
}

impl From<Unsealed> for Error {
    /// The lease, if any, is handed on by its class.
    fn from(unsealed: Unsealed) -> Self {
        unsealed.error
    }
}

impl fmt::Debug for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsealed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for Unsealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unsealed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
