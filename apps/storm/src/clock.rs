//! The only place that reads the time or sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask")]
    pub(crate) fn now(self) -> Instant {
        Instant::now()
    }

    /// Seconds since 1970, as signatures carry them.
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask")]
    pub(crate) fn unix_s(self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask")]
    pub(crate) async fn sleep(self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    /// Runs `work` for at most `span`; `None` if it took longer.
    ///
    /// # Cancellation
    /// `work` is dropped when the time is over.
    pub(crate) async fn within<F: Future>(self, span: Duration, work: F) -> Option<F::Output> {
        tokio::time::timeout(span, work).await.ok()
    }
}

/// Ends a running attack early.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<AtomicBool>);

impl Control {
    /// A control that was not used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the attack end within seconds; its report then tells what was seen so far.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long an attack may still go on.
#[derive(Clone, Debug)]
pub(crate) struct Until {
    deadline: Instant,
    control: Control,
}

impl Until {
    pub(crate) fn new(span: Duration, control: Control) -> Self {
        let now = Clock.now();
        Self { deadline: now.checked_add(span).unwrap_or(now), control }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.control.is_stopped() || Clock.now() >= self.deadline
    }

    /// Whether the attack ended before its time, so that nothing was overdue.
    pub(crate) fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// What is left, nothing once it is over.
    pub(crate) fn left(&self) -> Duration {
        if self.control.is_stopped() {
            return Duration::ZERO;
        }
        self.deadline.saturating_duration_since(Clock.now())
    }

    /// Sleeps, but not beyond the end.
    pub(crate) async fn pause(&self, span: Duration) {
        Clock.sleep(std::cmp::min(span, self.left())).await;
    }
}
