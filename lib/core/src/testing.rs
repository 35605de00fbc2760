//! What the tests of this crate share: time that passes by itself.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

use crate::{
    time::{Clock, SystemClock, Timestamp},
    witness::Witness,
};

/// A clock on tokio's paused time: when everybody sleeps, it jumps to the next alarm. Hours of
/// outage and backoff pass in milliseconds and always in the same order.
///
/// For tests under `#[tokio::test(start_paused = true)]`.
#[derive(Debug)]
pub(crate) struct VirtualClock {
    start: Instant,
}

/// A moment like any other.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

impl VirtualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { start: SystemClock.now() })
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> Timestamp {
        START.plus(self.now().duration_since(self.start))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(span)
    }
}

/// Everything that was seen, in order.
#[derive(Debug)]
pub(crate) struct Seen<E>(Arc<Mutex<Vec<E>>>);

impl<E> Clone for Seen<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Clone> Seen<E> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn add(&self, event: E) {
        self.0.lock().unwrap().push(event);
    }

    pub(crate) fn all(&self) -> Vec<E> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&E) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| wanted(event)).count()
    }
}

impl<E: Clone + Send + 'static> Witness<E> for Seen<E> {
    fn see(&self, event: &E) {
        self.add(event.clone());
    }
}

/// Random numbers that are the same in every run.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
