//! Moments of the store's clock, and the clock of this process.
//!
//! Only a store's clock decides expiry. The process clock measures waiting and never judges.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

/// A moment of a store's clock: milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A moment from milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The moment `span` later, which is at most a thousand years.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// How long after `earlier` this moment is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let gap = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(gap).unwrap_or(0))
    }
}

/// The longest span that anybody means, in milliseconds: a thousand years. Every store adds a few
/// of them without an overflow, also one that counts in doubles.
const SPAN_MAX: i64 = 1_000 * 366 * 24 * 60 * 60 * 1_000;

/// A span as whole milliseconds, as stores keep it. Longer than a thousand years is for ever.
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).map_or(SPAN_MAX, |span| std::cmp::min(span, SPAN_MAX))
}

/// The clock of this process: what waits, renews and times out reads it.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time; only differences mean anything.
    fn now(&self) -> Instant;
    /// Wall time, for stores that live in this process.
    fn wall(&self) -> Timestamp;
    /// Completes when `span` has passed on this clock.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// The clock of the machine, on tokio's timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else reads")]
    fn wall(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.map(millis).unwrap_or(0))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else reads")]
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A clock that stands still until it is told to move; shared by all that hold it.
///
/// Sleepers are woken by [`advance`](Self::advance).
#[derive(Debug)]
pub struct TestClock {
    start: Instant,
    moved: AtomicI64,
    wall: i64,
    ticks: tokio::sync::watch::Sender<i64>,
}

impl TestClock {
    /// A clock that shows `wall` until it is advanced.
    pub fn at(wall: Timestamp) -> Self {
        let start = tokio::time::Instant::now().into_std();
        let ticks = tokio::sync::watch::Sender::new(0);
        Self { start, moved: AtomicI64::new(0), wall: wall.0, ticks }
    }

    /// Moves the clock forward and wakes who has slept long enough.
    pub fn advance(&self, span: Duration) {
        let moved = self.moved.fetch_add(millis(span), Ordering::SeqCst) + millis(span);
        self.ticks.send_replace(moved);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        let moved = u64::try_from(self.moved.load(Ordering::SeqCst)).unwrap_or(0);
        self.start + Duration::from_millis(moved)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.wall + self.moved.load(Ordering::SeqCst))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let due = self.moved.load(Ordering::SeqCst).saturating_add(millis(span));
        let mut ticks = self.ticks.subscribe();
        Box::pin(async move {
            // The sender lives in the clock; if the clock is gone nobody can wait for it.
            if ticks.wait_for(|moved| *moved >= due).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
