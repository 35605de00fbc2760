//! The gate before the connections of business transactions: as many pass as there are.
//!
//! Invariant: so many wait and no longer than so long; whoever is turned away has begun nothing
//! (`beyond_the_bound_a_transaction_is_refused_at_once`,
//! `a_transaction_waits_for_its_turn_only_so_long`).

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock};

/// Business transactions that wait. At a millisecond each the last one waits for some seconds,
/// about as long as its caller does; more would only be late.
pub(super) const WAITING_MAX: usize = 4_096;

/// What an error of the gate was about.
const OP: &str = "wait for a connection, with nothing begun";

/// Lets a few through at a time.
pub(super) struct Gate {
    turns: Arc<Semaphore>,
    places: Semaphore,
    wait_max: Duration,
}

impl Gate {
    /// A gate that lets `turns` through at once and that nobody waits at for longer than
    /// `wait_max`.
    pub(super) fn new(turns: usize, wait_max: Duration) -> Self {
        let (turns, places) = (Arc::new(Semaphore::new(turns)), Semaphore::new(WAITING_MAX));
        Self { turns, places, wait_max }
    }

    /// Waits for its turn, which lasts until the permit is dropped.
    ///
    /// # Errors
    /// [`Kind::Full`] if too many wait, [`Kind::Unavailable`] if it took too long. Nothing was
    /// begun.
    pub(super) async fn pass(&self) -> Result<OwnedSemaphorePermit, Error> {
        let _place: SemaphorePermit<'_> =
            self.places.try_acquire().map_err(|full| Error::caused(Kind::Full, OP, full))?;
        let turn = Arc::clone(&self.turns).acquire_owned();
        // A permit that is dropped goes to the next one.
        match select(pin!(turn), SystemClock.sleep(self.wait_max)).await {
            Either::Left((turn, _)) => {
                turn.map_err(|closed| Error::caused(Kind::Unavailable, OP, closed))
            }
            Either::Right(_) => Err(Error::caused(Kind::Unavailable, OP, "others were too slow")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn beyond_the_bound_a_transaction_is_refused_at_once() {
        let gate = Arc::new(Gate::new(1, LONG));
        let turn = gate.pass().await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..WAITING_MAX {
            let gate = Arc::clone(&gate);
            waiting.spawn(async move { gate.pass().await.map(drop) });
        }
        while gate.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(gate.pass().await.unwrap_err().kind(), Kind::Full);
        drop(turn);
        for passed in waiting.join_all().await {
            passed.unwrap();
        }
        drop(gate.pass().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_waits_for_any_more_goes_to_the_next_one() {
        let gate = Gate::new(1, LONG);
        let turn = gate.pass().await.unwrap();
        let error = gate.pass().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("nothing begun"), "{error}");
        drop(turn);
        drop(gate.pass().await.unwrap());
    }
}
