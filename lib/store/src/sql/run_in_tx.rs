//! A call whose effect and record commit in one transaction.
//!
//! The claim commits first, in its own step, so that duplicates see it and wait in memory. The
//! business transaction then ends with the fenced seal.
//!
//! Invariant: business rows exist if and only if the record is completed with their answer
//! (`a_crash_at_any_point_leaves_all_or_nothing`).

use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};
use sqlx::Transaction;

use super::{
    dialect::Dialect,
    fate::Fate,
    seal,
    store::{Sql, finished},
    tx::{Played, Tx, lend},
    write::{RERUN_PAUSES, RUNS_MAX},
};
use crate::error::{Error, Kind};
use hapax_core::{
    Begin, Call, Class, Clock, Lease, Outcome, Ran, Resolved, Sealing, SystemClock, backoff,
};

/// What a closure says about its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the rows stay or they go; the answer stays")]
pub enum End<T> {
    /// The rows and the answer are committed together.
    Commit(T),
    /// The rows are rolled back; the answer is committed, and repeats get it too.
    Refuse(T),
}

impl<D: Dialect> Sql<D> {
    /// Runs `work` in a transaction if nobody did, and gives every repeat the one answer.
    ///
    /// The call must belong to an engine on this very store. The closure has less than a lease (on
    /// SQLite half of one, since no lease is renewed while it holds the writer); it must not begin
    /// a call of its own. When others are in the way the whole closure runs again under the same
    /// claim.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use hapax_core::{BusinessKey, Effect, Hapax, Policy, Ran, Tenant};
    /// # use hapax_store::{End, Error, SqliteStore, Sqlite, Tx};
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let sql = SqliteStore::open(dir.path().join("shop.db")).await?;
    /// let hapax = Hapax::new(Arc::new(sql.clone()));
    /// let create = hapax.declare("order.create", Policy::new(Effect::Transactional).forever())?;
    /// # sql.write("set_up", async |mut tx: Tx<Sqlite>| {
    /// #     sqlx::query("CREATE TABLE orders (id INTEGER NOT NULL)").execute(&mut **tx).await?;
    /// #     Ok::<_, Error>(())
    /// # }).await?;
    ///
    /// for round in 0..2 {
    ///     let call = create.business(Tenant::parse("shop")?, BusinessKey::of(&["1001"])?);
    ///     let ran = sql
    ///         .run_in_tx(call, async |mut tx: Tx<Sqlite>| {
    ///             sqlx::query("INSERT INTO orders (id) VALUES (1001)").execute(&mut **tx).await?;
    ///             Ok::<_, Error>(End::Commit("created".to_owned()))
    ///         })
    ///         .await?;
    ///     match ran {
    ///         Ran::Fresh(answer) => assert_eq!((round, answer.as_str()), (0, "created")),
    ///         Ran::Replayed(answer) => assert_eq!((round, answer.as_str()), (1, "created")),
    ///         other => panic!("{other:?}"),
    ///     }
    /// }
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// What `work` said, after a rollback: a transactional operation may then run again under
    /// the same key. [`Kind::Fenced`] if another attempt has taken over, [`Kind::Late`] and
    /// [`Kind::Panicked`], all after a rollback. [`Kind::Unsure`] if neither COMMIT nor the
    /// record was answered.
    ///
    /// # Cancellation
    /// Dropping the future drops the waiting. The transaction goes on and its answer is stored.
    pub async fn run_in_tx<T, E, F, W>(&self, call: Call, work: F) -> Result<Ran<T>, E>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: std::error::Error + From<Error> + Send + Sync + 'static,
        F: FnOnce(Tx<D>) -> W + Clone + Send + 'static,
        W: Future<Output = Result<End<T>, E>> + Send + 'static,
    {
        match call.begin().await.map_err(Error::from)? {
            Begin::Run(lease) => {
                let sql = self.clone();
                let running = self.owned(async move { rerun(&sql, lease, work).await });
                finished(running.await).map(Ran::Fresh)
            }
            Begin::Verify(lease) => Ok(Ran::Verify(lease)),
            Begin::Replay(Outcome::Value(stored)) => Ok(Ran::Replayed(decode(&stored)?)),
            Begin::Replay(Outcome::Tombstone(reference)) => Ok(Ran::NotRetained(reference)),
            Begin::Busy { retry_after } => Ok(Ran::Busy { retry_after }),
            Begin::Mismatch => Ok(Ran::Mismatch),
            Begin::Held => Ok(Ran::Held),
            Begin::Expired => Ok(Ran::Expired),
        }
    }
}

fn decode<T: DeserializeOwned>(stored: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(stored)
        .map_err(|cause| Error::caused(Kind::Corrupt, "read the stored answer", cause))
}

/// A run that did not commit.
struct Failed<E> {
    error: E,
    /// The claim, if it is still ours and nothing was done under it.
    lease: Option<Lease>,
    /// Whether the same closure may fare better.
    is_again: bool,
}

impl<E: std::error::Error + From<Error> + 'static> Failed<E> {
    /// Nothing was done under `lease`.
    fn undone(error: E, lease: Option<Lease>) -> Self {
        let is_again = Fate::is_again(&error);
        Self { error, lease, is_again }
    }

    /// The claim is not ours any more, or nobody can say.
    fn lost(error: impl Into<Error>) -> Self {
        Self { error: error.into().into(), lease: None, is_again: false }
    }
}

async fn rerun<D, T, E, F, W>(sql: &Sql<D>, lease: Lease, work: F) -> Result<T, E>
where
    D: Dialect,
    T: Serialize,
    E: std::error::Error + From<Error> + Send + Sync + 'static,
    F: FnOnce(Tx<D>) -> W + Clone,
    W: Future<Output = Result<End<T>, E>>,
{
    let mut pauses = backoff(RERUN_PAUSES).take(RUNS_MAX - 1);
    let mut lease = lease;
    loop {
        let failed = match run(sql, lease, work.clone()).await {
            Ok(said) => return Ok(said),
            Err(failed) => failed,
        };
        match (failed.lease, pauses.next()) {
            (Some(same), Some(pause)) if failed.is_again => {
                SystemClock.sleep(pause).await;
                lease = same;
            }
            (unused, _) => {
                give_back(unused).await;
                return Err(failed.error);
            }
        }
    }
}

/// Gives back a claim whose transaction surely did not commit.
///
/// For a transactional effect that means: nothing happened. What else the closure may have done
/// is for the class to judge, as after a death.
async fn give_back(lease: Option<Lease>) {
    let Some(lease) = lease else { return };
    match lease.class() {
        Class::Transactional => {
            if let Err(error) = lease.release().await {
                // It lapses by itself.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a claim without effect was not given back"
                );
            }
        }
        Class::Keyed | Class::Queryable | Class::Opaque => drop(lease),
    }
}

type Open<D> = Transaction<'static, <D as Dialect>::Db>;

async fn run<D, T, E, F, W>(sql: &Sql<D>, lease: Lease, work: F) -> Result<T, Failed<E>>
where
    D: Dialect,
    T: Serialize,
    E: std::error::Error + From<Error> + Send + Sync + 'static,
    F: FnOnce(Tx<D>) -> W,
    W: Future<Output = Result<End<T>, E>>,
{
    let longest = std::cmp::min(D::hold_max(lease.lease()), sql.shared().hold_max);
    let turn = match sql.gate().await {
        Ok(turn) => turn,
        Err(error) => return Err(Failed::undone(error.into(), Some(lease))),
    };
    let tx = match sql.begin("run_in_tx").await {
        Ok(tx) => tx,
        Err(error) => return Err(Failed::undone(error.into(), Some(lease))),
    };
    let (said, tx) = match lend(sql, tx, work, longest).await {
        Ok(back) => back,
        // The claim is then treated as if its holder had died.
        Err(error) => return Err(Failed::lost(error)),
    };
    let error = match said {
        Played::Ended(Ok(end)) => {
            let finish = commit(sql, lease, tx, end).await;
            drop(turn);
            return match finish {
                Committing::Done(said) => Ok(said),
                Committing::Failed(failed) => Err(failed),
                Committing::Unsure(sealing, said) => resolve(sealing, said).await,
            };
        }
        Played::Panicked => {
            sql.rollback(tx).await;
            return Err(Failed::lost(Error::new(Kind::Panicked, "run the closure")));
        }
        Played::Late => Error::new(Kind::Late, "run the closure").into(),
        Played::Ended(Err(error)) => error,
    };
    sql.rollback(tx).await;
    Err(Failed::undone(error, Some(lease)))
}

/// How far a commit got.
enum Committing<T, E> {
    Done(T),
    Failed(Failed<E>),
    /// The answer to COMMIT was lost.
    Unsure(Sealing, T),
}

async fn commit<D, T, E>(
    sql: &Sql<D>,
    lease: Lease,
    mut tx: Open<D>,
    end: End<T>,
) -> Committing<T, E>
where
    D: Dialect,
    T: Serialize,
    E: std::error::Error + From<Error> + 'static,
{
    let (kept, said) = match end {
        End::Commit(said) => (seal::ask_witness::<D>(&mut tx).await, said),
        End::Refuse(said) => (seal::forget_business::<D>(&mut tx).await, said),
    };
    let outcome = match kept.and_then(|()| seal::encode(&said)) {
        Ok(stored) => lease.bounded(stored),
        Err(error) => {
            sql.rollback(tx).await;
            return Committing::Failed(Failed::undone(error.into(), Some(lease)));
        }
    };
    let sealing = lease.seal();
    let sealed = seal::seal::<D>(&mut tx, &sealing, &outcome).await;
    let now = match sealed {
        Ok(Some(now)) => now,
        Ok(None) => {
            sql.rollback(tx).await;
            return Committing::Failed(Failed::lost(sealing.fenced()));
        }
        Err(error) => {
            sql.rollback(tx).await;
            return Committing::Failed(Failed::undone(error.into(), Some(sealing.rolled_back())));
        }
    };
    let id = sealing.fence().id;
    match sql.commit(tx).await {
        Ok(()) => {
            sealing.committed(outcome, now);
            sql.hint(id);
            sql.announce();
            Committing::Done(said)
        }
        Err(error) if error.kind() == Kind::Unsure => Committing::Unsure(sealing, said),
        Err(error) => Committing::Failed(Failed::undone(error.into(), Some(sealing.rolled_back()))),
    }
}

/// Reads the record back by its fence: it says whether the transaction committed.
async fn resolve<T, E>(sealing: Sealing, said: T) -> Result<T, Failed<E>>
where
    E: std::error::Error + From<Error> + 'static,
{
    match sealing.resolve().await {
        Ok(Resolved::Committed(_)) => Ok(said),
        Ok(Resolved::RolledBack(lease)) => {
            let error = Error::new(Kind::Unavailable, "commit").into();
            Err(Failed { error, lease: Some(lease), is_again: true })
        }
        Ok(Resolved::Fenced(error)) | Err(error) => Err(Failed::lost(error)),
    }
}
