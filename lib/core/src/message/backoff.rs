//! How long to wait after a failure.

use std::{cmp, time::Duration};

/// Pauses that double from the first to the longest. Pure: the chance comes in as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

/// Doublings after which every pause is the longest one.
const DOUBLINGS_MAX: u32 = 31;

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after this many failures, cut by up to a half by `random`, so that those who
    /// failed together do not come again together.
    pub fn pause(self, failures: u32, random: u32) -> Duration {
        let full = self.full(failures);
        full - full / 1024 * (random % 512)
    }

    /// The longest time from the first try to the last of this many.
    pub fn horizon(self, tries: u32) -> Duration {
        let doubling = cmp::min(tries, DOUBLINGS_MAX);
        let pauses = (1..doubling).map(|failures| self.full(failures));
        let rest = self.longest.saturating_mul(tries - doubling);
        pauses.fold(rest, Duration::saturating_add)
    }

    fn full(self, failures: u32) -> Duration {
        let doublings = cmp::min(failures.saturating_sub(1), DOUBLINGS_MAX);
        let doubled = self.first.saturating_mul(1_u32 << doublings);
        cmp::min(doubled, cmp::max(self.longest, self.first))
    }
}

/// A random number; without randomness the pauses are merely even.
pub(crate) fn random() -> u32 {
    getrandom::u32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_to_the_longest() {
        let backoff = Backoff::new(SECOND, SECOND * 60);
        let pauses: Vec<_> = (1..9).map(|failures| backoff.pause(failures, 0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.horizon(9), SECOND * (63 + 120));
        assert_eq!(backoff.horizon(1), Duration::ZERO, "one try, no pause");
    }

    proptest! {
        #[test]
        fn every_pause_is_between_half_and_the_longest(failures: u32, random: u32) {
            let backoff = Backoff::new(SECOND, SECOND * 3600);
            let pause = backoff.pause(failures, random);
            prop_assert!(pause >= SECOND / 2 && pause <= SECOND * 3600);
            prop_assert!(pause <= backoff.pause(failures, 0));
        }
    }
}
