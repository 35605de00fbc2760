//! How long an inbox must remember what it has seen.
//!
//! The row itself is written by the store inside the consumer's transaction; it answers
//! [`Received`](super::Received). Here is the rule for when it may be forgotten: not before the
//! last copy can have come.

use std::time::Duration;

use super::backoff::Backoff;
use crate::{invalid::Invalid, time::Timestamp};

/// How late a copy of a message can still come, counted from its first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// From the relay's first try to its last.
    pub retries: Duration,
    /// The longest outage that a message may have to wait for in between.
    pub outage: Duration,
    /// How long after its burial an operator may still replay a message.
    pub replay: Duration,
}

impl Horizon {
    /// The horizon of a relay that tries this often with this backoff.
    pub fn of(backoff: Backoff, tries: u32, outage: Duration, replay: Duration) -> Self {
        Self { retries: backoff.horizon(tries), outage, replay }
    }

    /// All of it.
    pub fn total(self) -> Duration {
        self.retries.saturating_add(self.outage).saturating_add(self.replay)
    }
}

/// How long an inbox keeps a row: the window within which a copy is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(Duration);

impl Window {
    /// A window of `keep` before senders with this horizon. Call it at start-up.
    ///
    /// # Errors
    /// [`Invalid`] if a copy could come after its row was forgotten.
    pub fn new(keep: Duration, horizon: Horizon) -> Result<Self, Invalid> {
        if keep < horizon.total() {
            return Err(Invalid::new(
                "inbox window",
                "is shorter than retries, outage and replay together, so that a late copy would \
                 run again; keep rows longer or shorten those",
            ));
        }
        Ok(Self(keep))
    }

    /// How long a row is kept.
    pub fn keep(self) -> Duration {
        self.0
    }

    /// When a row that was written at the store's `received_at` may go.
    pub fn ends_at(self, received_at: Timestamp) -> Timestamp {
        received_at.plus(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_window_below_the_redelivery_horizon_is_refused() {
        let backoff = Backoff::new(Duration::from_secs(1), HOUR);
        let horizon = Horizon::of(backoff, 12, HOUR * 24, HOUR * 24 * 7);
        assert_eq!(horizon.retries, Duration::from_secs(2047));
        let least = horizon.total();
        assert_eq!(Window::new(least, horizon).map(Window::keep), Ok(least));
        let short = Window::new(least - Duration::from_millis(1), horizon);
        assert!(short.unwrap_err().to_string().starts_with("inbox window is shorter than"));
    }

    #[test]
    fn a_row_goes_when_its_window_is_over() {
        let none = Horizon { retries: HOUR, outage: Duration::ZERO, replay: Duration::ZERO };
        let window = Window::new(HOUR, none).unwrap();
        let seen = Timestamp::from_millis(5);
        assert_eq!(window.ends_at(seen), Timestamp::from_millis(3_600_005));
    }
}
