//! The one place in this crate that reads clocks.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context as _;

/// Ticks in a second of `/proc`: fixed by the kernel's interface to programs (proc(5)).
const TICKS_PER_SECOND: u64 = 100;

/// Time since a measurement began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "to measure time is what this program is for")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The processor time of another process, all its threads together.
#[derive(Debug)]
pub(crate) struct Processor(PathBuf);

impl Processor {
    /// Watches the process `id`.
    pub(crate) fn of(id: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{id}/stat")))
    }

    /// What it used so far, in user and kernel mode, exact to 10 ms.
    pub(crate) fn used(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(&self.0)
            .with_context(|| format!("{} cannot be read: this needs Linux", self.0.display()))?;
        // The second field is a name in brackets, and may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("a stat without a name")?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || -> anyhow::Result<u64> {
            Ok(fields.next().context("a stat without times")?.parse()?)
        };
        let (user, kernel) = (ticks()?, ticks()?);
        Ok(Duration::from_millis((user + kernel) * 1000 / TICKS_PER_SECOND))
    }
}
