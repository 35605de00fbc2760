//! The one place in this crate that reads a clock.

use std::time::{Duration, Instant};

/// Time since a step began, for people to read.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "shown to a person; nothing is decided by it")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
