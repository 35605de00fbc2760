//! Business transactions of the caller: begun, rerun and ended by the store.

use std::{future::Future, time::Duration};

use super::{
    dialect::Dialect,
    fate::Fate,
    seal,
    store::{Sql, finished},
    tx::{Played, Tx, lend},
};
use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock, backoff};

/// Times that one transaction is run when others are in its way.
pub(super) const RUNS_MAX: usize = 5;
/// Pauses between two runs stay below a quarter of this.
pub(super) const RERUN_PAUSES: Duration = Duration::from_secs(2);

impl<D: Dialect> Sql<D> {
    /// Runs `work` in a transaction and commits what it did if it says `Ok`.
    ///
    /// `name` shows in logs. Business transactions hold a connection, on SQLite the only writer,
    /// for a bounded time, so call nothing slow inside. When others are in the way the whole
    /// closure runs again, at most five times.
    ///
    /// ```
    /// # use hapax_store::{Error, SqliteStore, Sqlite, Tx};
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let sql = SqliteStore::open(dir.path().join("shop.db")).await?;
    /// sql.write("shop.stock", async |mut tx: Tx<Sqlite>| {
    ///     sqlx::query("CREATE TABLE stock (item TEXT PRIMARY KEY, left INTEGER NOT NULL)")
    ///         .execute(&mut **tx)
    ///         .await?;
    ///     Ok::<_, Error>(())
    /// })
    /// .await?;
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Kind::Full`] if too many wait for their turn and [`Kind::Unavailable`] if it took too
    /// long, with nothing begun. What `work` said, after a rollback. [`Kind::Late`] and
    /// [`Kind::Panicked`], after a rollback. [`Kind::Refused`] if `work` ended the transaction, or
    /// went on after an error that had broken it off. [`Kind::Unsure`] if the answer to COMMIT was
    /// lost.
    ///
    /// # Cancellation
    /// Dropping the future drops the waiting. The transaction goes on to its end.
    pub async fn write<T, E, F, W>(&self, name: &'static str, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: std::error::Error + From<Error> + Send + Sync + 'static,
        F: FnOnce(Tx<D>) -> W + Clone + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let sql = self.clone();
        finished(self.owned(async move { rerun(&sql, name, work).await }).await)
    }

    /// A business transaction committed: whoever waits for messages looks for them.
    pub(super) fn announce(&self) {
        self.shared().written.send_replace(());
    }
}

async fn rerun<D, T, E, F, W>(sql: &Sql<D>, name: &'static str, work: F) -> Result<T, E>
where
    D: Dialect,
    E: std::error::Error + From<Error> + Send + Sync + 'static,
    F: FnOnce(Tx<D>) -> W + Clone,
    W: Future<Output = Result<T, E>>,
{
    let mut pauses = backoff(RERUN_PAUSES).take(RUNS_MAX - 1);
    loop {
        let error = match run(sql, name, work.clone()).await {
            Ok(said) => return Ok(said),
            Err(error) => error,
        };
        match pauses.next() {
            Some(pause) if Fate::is_again(&error) => SystemClock.sleep(pause).await,
            _ => return Err(error),
        }
    }
}

async fn run<D, T, E, F, W>(sql: &Sql<D>, name: &'static str, work: F) -> Result<T, E>
where
    D: Dialect,
    E: From<Error>,
    F: FnOnce(Tx<D>) -> W,
    W: Future<Output = Result<T, E>>,
{
    let _turn = sql.gate().await?;
    let tx = sql.begin(name).await?;
    let (turn, mut tx) = lend(sql, tx, work, sql.shared().hold_max).await?;
    match turn {
        Played::Ended(Ok(said)) => {
            // A closure may have swallowed the error that broke its transaction off.
            if let Err(error) = seal::ask_witness::<D>(&mut tx).await {
                sql.rollback(tx).await;
                return Err(error.into());
            }
            sql.commit(tx).await?;
            sql.announce();
            Ok(said)
        }
        Played::Ended(Err(error)) => {
            sql.rollback(tx).await;
            Err(error)
        }
        Played::Panicked => {
            sql.rollback(tx).await;
            Err(Error::new(Kind::Panicked, name).into())
        }
        Played::Late => {
            sql.rollback(tx).await;
            Err(Error::new(Kind::Late, name).into())
        }
    }
}
