//! The one place in this crate that reads a clock.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Between two looks at something that another process does.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Asks `look` until it answers, for at most `limit`; `None` asks for another look.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "measures waiting for real processes")]
    let now = Instant::now;
    let begun = now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if now().duration_since(begun) >= limit {
            bail!("{what} took longer than {} s", limit.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
}
