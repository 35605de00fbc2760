//! The channel's own numbers.
//!
//! Invariant: no number is given out twice, not even by a simulator that was started again, since
//! merchants keep theirs in a database (`numbers_do_not_repeat_across_starts`).

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;

use crate::clock::beijing_day;

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1_000;

/// Bytes of a page's token: more than anybody guesses.
const TOKEN_BYTES: usize = 16;

/// Gives out numbers.
pub(crate) struct Numbers {
    /// When the simulator started, in milliseconds of its day.
    start_ms: i64,
    secret: [u8; 32],
    next: u64,
}

impl Numbers {
    pub(crate) fn new(start: Timestamp, secret: [u8; 32]) -> Self {
        Self { start_ms: start.as_millisecond().rem_euclid(MS_PER_DAY), secret, next: 0 }
    }

    /// 28 digits, as the channel's.
    pub(super) fn trade_no(&mut self, now: Timestamp) -> String {
        let count = self.count();
        format!("{}22001{:08}{count:07}", beijing_day(now), self.start_ms)
    }

    /// 29 digits.
    pub(super) fn notify_id(&mut self, now: Timestamp) -> String {
        let count = self.count();
        format!("{}00222{:08}{count:08}", beijing_day(now), self.start_ms)
    }

    /// The token of a page, which only who was shown the code can know.
    pub(super) fn token(&mut self) -> String {
        let mut text = self.secret.to_vec();
        text.extend(self.count().to_be_bytes());
        let digest = digest(&SHA256, &text);
        digest.as_ref().iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }

    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl std::fmt::Debug for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbers").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_repeat_across_starts() {
        let now: Timestamp = "2026-10-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-10-01T00:00:00.001Z".parse().unwrap();
        let mut first = Numbers::new(now, [1; 32]);
        let mut second = Numbers::new(later, [2; 32]);
        let trade_no = first.trade_no(later);
        assert_eq!(trade_no.len(), 28);
        assert!(trade_no.starts_with("2026100122001"), "{trade_no}");
        assert_ne!(trade_no, second.trade_no(later));
        assert_ne!(trade_no, first.trade_no(later));
        assert_ne!(first.notify_id(later), second.notify_id(later));
        assert_ne!(first.token(), second.token());
        assert_eq!(first.token().len(), 2 * TOKEN_BYTES);
    }
}
