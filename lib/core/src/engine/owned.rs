//! Work that its caller watches and nobody can drop.
//!
//! It is polled where the caller waits, so that work which ends at once costs no task of its own.
//! If the caller goes away, it goes on without it.
//!
//! Invariant: dropping the caller's end never ends the work
//! (`work_goes_on_when_its_caller_goes_away`).

use std::{
    fmt,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::error::{Error, Kind};

/// Work on its way, owned by the engine it was begun on.
///
/// It makes way only while it is polled: await it, or drop it.
///
/// # Errors
/// [`Kind::Panicked`] if the work panicked.
///
/// # Cancellation
/// Dropped before its end, the work goes on on a task of its own;
/// [`Hapax::drain`](super::Hapax::drain) waits for it. Only outside a runtime it ends with this.
#[must_use = "work that is neither awaited nor dropped stands still"]
pub struct Owned<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    /// Counts as a task from the start, so that a drain waits for it wherever it is polled.
    token: TaskTrackerToken,
}

impl<T: Send + 'static> Owned<T> {
    pub(super) fn begin(
        tasks: &TaskTracker,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self { work: Some(Box::pin(work)), token: tasks.token() }
    }
}

impl<T: Send + 'static> Future for Owned<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Ended before: nothing will ever come.
        let Some(work) = &mut self.work else { return Poll::Pending };
        // It is not polled again after a panic.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.poll_unpin(context)));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(_) => Err(Error::new(Kind::Panicked, "run the work")),
        };
        self.work = None;
        Poll::Ready(ended)
    }
}

impl<T: Send + 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Outside a runtime nothing goes on; what the work holds is dropped as in a crash.
            if tokio::runtime::Handle::try_current().is_ok() {
                self.token.task_tracker().spawn(work);
            }
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("has_ended", &self.work.is_none()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use futures_util::future::poll_immediate;
    use tokio::sync::Notify;

    use super::*;

    fn open() -> TaskTracker {
        TaskTracker::new()
    }

    #[tokio::test]
    async fn work_goes_on_when_its_caller_goes_away() {
        for is_polled_first in [false, true] {
            let (tasks, go, done) =
                (open(), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
            let (gone, told) = (Arc::clone(&go), Arc::clone(&done));
            let mut owned = Owned::begin(&tasks, async move {
                gone.notified().await;
                told.store(true, Ordering::SeqCst);
            });
            if is_polled_first {
                assert!(poll_immediate(&mut owned).await.is_none());
            }
            drop(owned);
            tasks.close();
            go.notify_one();
            tasks.wait().await;
            assert!(done.load(Ordering::SeqCst), "polled before: {is_polled_first}");
        }
    }

    #[tokio::test]
    async fn a_drain_waits_for_work_that_its_caller_polls() {
        let (tasks, go) = (open(), Arc::new(Notify::new()));
        let gone = Arc::clone(&go);
        let owned = Owned::begin(&tasks, async move { gone.notified().await });
        tasks.close();
        assert!(poll_immediate(std::pin::pin!(tasks.wait())).await.is_none());
        go.notify_one();
        owned.await.unwrap();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_not_the_callers_end() {
        let error = Owned::begin(&open(), async { panic!("broken") }).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Panicked);
    }
}
