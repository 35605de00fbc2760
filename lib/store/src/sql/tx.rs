//! A transaction that is lent to the caller's code and always comes back.
//!
//! Invariant: whoever drops a [`Tx`] gives the transaction back to the task that lent it, or
//! leaves its rollback to a task of the store; it never stays open
//! (`dropped_callers_leave_no_open_transaction`).

use std::{
    fmt,
    future::Future,
    ops::{Deref, DerefMut},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{Either, select},
};
use sqlx::Transaction;

use super::{dialect::Dialect, store::Sql};
use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock};

/// A transaction of the store, lent to a closure.
///
/// It is a [`sqlx::Transaction`] behind a reference: run statements on `&mut **tx`. It commits
/// when the closure says so, and in no other way.
pub struct Tx<D: Dialect> {
    open: Option<Open<D>>,
    home: Arc<Home<D>>,
}

type Open<D> = Transaction<'static, <D as Dialect>::Db>;

impl<D: Dialect> Tx<D> {
    /// The store that lent it: what goes into the same transaction is written through it.
    pub fn sql(&self) -> Sql<D> {
        self.home.sql.clone()
    }
}

impl<D: Dialect> Deref for Tx<D> {
    type Target = Transaction<'static, <D as Dialect>::Db>;

    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    fn deref(&self) -> &Self::Target {
        self.open.as_ref().expect("a transaction is open until it is dropped")
    }
}

impl<D: Dialect> DerefMut for Tx<D> {
    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.open.as_mut().expect("a transaction is open until it is dropped")
    }
}

impl<D: Dialect> Drop for Tx<D> {
    fn drop(&mut self) {
        if let Some(tx) = self.open.take() {
            self.home.take_back(tx);
        }
    }
}

impl<D: Dialect> fmt::Debug for Tx<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

/// Where a lent transaction comes back to.
struct Home<D: Dialect> {
    place: Mutex<Place<D>>,
    sql: Sql<D>,
}

enum Place<D: Dialect> {
    /// The closure has it.
    Lent,
    /// It came back.
    Back(Open<D>),
    /// Nobody waits for it any more.
    Left,
}

impl<D: Dialect> Home<D> {
    /// Assigning leaves nothing half done.
    fn place(&self) -> MutexGuard<'_, Place<D>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_back(&self, tx: Open<D>) {
        let mut place = self.place();
        match *place {
            Place::Lent => *place = Place::Back(tx),
            Place::Back(_) | Place::Left => {
                drop(place);
                let sql = self.sql.clone();
                self.sql.owned(async move {
                    let mut tx = tx;
                    // Without it nothing would commit on this connection any more.
                    if let Err(cause) = D::take_back(&mut tx).await {
                        tracing::debug!(
                            error = &cause as &dyn std::error::Error,
                            "a late transaction was not taken back"
                        );
                    }
                    sql.rollback(tx).await;
                });
            }
        }
    }

    fn leave(&self) -> Option<Open<D>> {
        match std::mem::replace(&mut *self.place(), Place::Left) {
            Place::Back(tx) => Some(tx),
            Place::Lent | Place::Left => None,
        }
    }
}

/// How the work of a closure ended.
pub(super) enum Played<R> {
    /// It said something.
    Ended(R),
    /// It panicked.
    Panicked,
    /// Its time was up; it was dropped where it stood.
    Late,
}

/// Lends `tx` to `work` for at most `longest`, and takes it back.
///
/// Nothing commits meanwhile, whatever `work` sends, where the engine can be told so; ask the
/// witness before you commit. An error is a transaction that did not come back: it is rolled back,
/// or `work` has put it where it outlives its own future.
pub(super) async fn lend<D, R, F, W>(
    sql: &Sql<D>,
    mut tx: Open<D>,
    work: F,
    longest: Duration,
) -> Result<(Played<R>, Open<D>), Error>
where
    D: Dialect,
    F: FnOnce(Tx<D>) -> W,
    W: Future<Output = R>,
{
    if let Err(cause) = D::lend(&mut tx).await {
        sql.rollback(tx).await;
        return Err(Error::undone("lend the transaction", cause));
    }
    let home = Arc::new(Home { place: Mutex::new(Place::Lent), sql: sql.clone() });
    let lent = Tx { open: Some(tx), home: Arc::clone(&home) };
    let turn = play(lent, work, longest).await;
    let op = "take the transaction back from its closure";
    let mut tx = home.leave().ok_or_else(|| Error::new(Kind::Invalid, op))?;
    match D::take_back(&mut tx).await {
        Ok(()) => Ok((turn, tx)),
        Err(cause) => {
            sql.rollback(tx).await;
            Err(Error::undone(op, cause))
        }
    }
}

async fn play<D, R, F, W>(tx: Tx<D>, work: F, longest: Duration) -> Played<R>
where
    D: Dialect,
    F: FnOnce(Tx<D>) -> W,
    W: Future<Output = R>,
{
    // The future is not polled again after a panic, and the transaction comes home as it drops.
    let played = AssertUnwindSafe(async move { work(tx).await }).catch_unwind();
    match select(pin!(played), SystemClock.sleep(longest)).await {
        Either::Left((Ok(said), _)) => Played::Ended(said),
        Either::Left((Err(_), _)) => Played::Panicked,
        // Dropping the work rolls its statements back with the transaction.
        Either::Right(_) => Played::Late,
    }
}
