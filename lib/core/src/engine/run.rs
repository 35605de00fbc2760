//! A call with its work: claim, do, close, on a task that nobody drops.

use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    begin::Begin,
    lease::{Lease, Work},
    operation::Call,
};
use crate::{
    error::{Error, Kind},
    outcome::Outcome,
};

/// What the work says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is done, it surely is not, or nobody knows")]
pub enum End<T> {
    /// Done, with this answer; repeats get it too.
    Done(T),
    /// Surely nothing happened; the same key may run again.
    NoEffect,
    /// Nobody knows whether it happened, and why. The class says what may follow.
    Unknown(String),
}

/// What became of a call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "these are the outcomes; a new one must break callers")]
pub enum Ran<T> {
    /// The work ran now and this is its answer.
    Fresh(T),
    /// It ran before and this was its answer.
    Replayed(T),
    /// It ran before; the answer was too large to keep, and this says where it can be had.
    NotRetained(Bytes),
    /// It ran now and surely had no effect.
    NoEffect,
    /// It ran now and nobody knows whether it had an effect.
    Unknown,
    /// An earlier attempt died and its receiver can be asked.
    Verify(Lease),
    /// Somebody works on it.
    Busy {
        /// When another look is worth it.
        retry_after: Duration,
    },
    /// The same key asked for something else before.
    Mismatch,
    /// Nobody may run it; it waits for the reconciler or a person.
    Held,
    /// Done before, and the answer is no longer kept.
    Expired,
}

impl Call {
    /// Runs `work` if nobody did, and gives every repeat the one answer.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use hapax_core::{BusinessKey, Effect, End, Hapax, Policy, Ran, Tenant};
    /// # use hapax_core::store::MemoryStore;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    /// # runtime.unwrap().block_on(async {
    /// # let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    /// let reserve = hapax.declare("seat.reserve", Policy::new(Effect::Opaque))?;
    /// let shop = Tenant::parse("shop").unwrap();
    /// let call = || reserve.business(shop.clone(), BusinessKey::parse("A1").unwrap());
    ///
    /// let first = call().run(|_| async { End::Done(7_u32) }).await?;
    /// let again = call().run(|_| async { End::Done(8_u32) }).await?;
    /// assert!(matches!((first, again), (Ran::Fresh(7), Ran::Replayed(7))));
    /// # Ok::<_, hapax_core::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin) and [`Lease::complete`]; [`Kind::Panicked`] if the work
    /// panicked, which the class then treats as a death; [`Kind::Corrupt`] if a stored answer is
    /// not a `T`.
    ///
    /// # Cancellation
    /// Dropping the future drops the waiting. The work goes on and its answer is stored.
    pub async fn run<T, F, W>(self, work: F) -> Result<Ran<T>, Error>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Work) -> W + Send + 'static,
        W: Future<Output = End<T>> + Send + 'static,
    {
        let bytes_max = self.operation.declared.policy.outcome_bytes_max;
        let tasks = self.operation.shared.tasks.clone();
        match self.begin().await? {
            Begin::Run(lease) => {
                let running = tasks.spawn(drive(lease, work, bytes_max));
                running
                    .await
                    .map_err(|cause| Error::caused(Kind::Panicked, "run the work", cause))?
            }
            Begin::Verify(lease) => Ok(Ran::Verify(lease)),
            Begin::Replay(Outcome::Value(stored)) => decode(&stored).map(Ran::Replayed),
            Begin::Replay(Outcome::Tombstone(reference)) => Ok(Ran::NotRetained(reference)),
            Begin::Busy { retry_after } => Ok(Ran::Busy { retry_after }),
            Begin::Mismatch => Ok(Ran::Mismatch),
            Begin::Held => Ok(Ran::Held),
            Begin::Expired => Ok(Ran::Expired),
        }
    }
}

async fn drive<T, F, W>(lease: Lease, work: F, bytes_max: usize) -> Result<Ran<T>, Error>
where
    T: Serialize,
    F: FnOnce(Work) -> W,
    W: Future<Output = End<T>>,
{
    let view = lease.work();
    // The future is not polled again after a panic, and the lease is outside of it.
    let ended = AssertUnwindSafe(async move { work(view).await }).catch_unwind().await;
    match ended {
        Ok(End::Done(answer)) => {
            let stored = encode(&answer)?;
            lease.complete(Outcome::bounded(stored, b"", bytes_max)).await?;
            Ok(Ran::Fresh(answer))
        }
        Ok(End::NoEffect) => lease.release().await.map(|()| Ran::NoEffect),
        Ok(End::Unknown(why)) => lease.unknown(why).await.map(|()| Ran::Unknown),
        // The lease is dropped here, as if its holder had died.
        Err(_) => Err(Error::new(Kind::Panicked, "run the work")),
    }
}

fn encode<T: Serialize>(answer: &T) -> Result<Bytes, Error> {
    let stored = serde_json::to_vec(answer);
    stored.map(Bytes::from).map_err(|cause| Error::caused(Kind::Invalid, "store the answer", cause))
}

fn decode<T: DeserializeOwned>(stored: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(stored)
        .map_err(|cause| Error::caused(Kind::Corrupt, "read the stored answer", cause))
}
