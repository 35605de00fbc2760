//! The only place that reads the time, sleeps, or knows the channel's time zone.
//!
//! Invariant: times on the Alipay wire are civil times at +08:00, whatever `TZ` says and whether
//! or not a time-zone database is installed (`beijing_text_does_not_depend_on_the_local_zone`).

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::{Offset, offset};
use jiff::{SignedDuration, Timestamp};

const BEIJING: Offset = offset(8);
const SECONDS: &str = "%Y-%m-%d %H:%M:%S";
const MINUTES: &str = "%Y-%m-%d %H:%M";

/// Real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn now(self) -> Timestamp {
        Timestamp::now()
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

/// Writes `2026-10-01 08:00:31`.
pub(crate) fn beijing(at: Timestamp) -> String {
    BEIJING.to_datetime(at).strftime(SECONDS).to_string()
}

/// Writes `20261001`, the head of the channel's numbers.
pub(crate) fn beijing_day(at: Timestamp) -> String {
    BEIJING.to_datetime(at).strftime("%Y%m%d").to_string()
}

/// Reads `2026-10-01 08:00:31`, no other form.
pub(crate) fn parse_beijing(text: &str) -> Option<Timestamp> {
    parse_as(SECONDS, text)
}

/// Reads `2026-10-01 08:00`, the form that the mobile page takes.
pub(crate) fn parse_beijing_minute(text: &str) -> Option<Timestamp> {
    parse_as(MINUTES, text)
}

/// The next midnight at +08:00.
pub(crate) fn end_of_beijing_day(at: Timestamp) -> Timestamp {
    let midnight = BEIJING.to_datetime(at).date().tomorrow().map(|day| day.at(0, 0, 0, 0));
    midnight.and_then(|midnight| BEIJING.to_timestamp(midnight)).unwrap_or(Timestamp::MAX)
}

/// `at` moved by a span, held at the ends of time.
pub(crate) fn after(at: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span)
        .ok()
        .and_then(|span| at.checked_add(span).ok())
        .unwrap_or(Timestamp::MAX)
}

/// `at` moved by milliseconds in either direction, held at the ends of time.
pub(crate) fn shifted(at: Timestamp, ms: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_millis(ms)).unwrap_or(Timestamp::MAX)
}

/// How long from `now` until `then`; zero if it is over.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(now.duration_until(then)).unwrap_or(Duration::ZERO)
}

fn parse_as(format: &str, text: &str) -> Option<Timestamp> {
    let civil = DateTime::strptime(format, text).ok()?;
    // strptime forgives missing zeros and signs; the channel does not.
    (civil.strftime(format).to_string() == text).then_some(())?;
    BEIJING.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beijing_text_does_not_depend_on_the_local_zone() {
        let at: Timestamp = "2026-09-30T23:59:59Z".parse().unwrap();
        assert_eq!(beijing(at), "2026-10-01 07:59:59");
        assert_eq!(beijing_day(at), "20261001");
        assert_eq!(parse_beijing("2026-10-01 07:59:59"), Some(at));
    }

    #[test]
    fn sloppy_times_are_refused() {
        for text in [
            "2026-10-1 07:59:59",
            "2026-10-01T07:59:59",
            "2026-10-01 07:59",
            "2026-13-01 07:59:59",
            "2026-02-30 00:00:00",
            "2026-10-01 24:00:00",
            " 2026-10-01 07:59:59",
            "2026-10-01 07:59:59Z",
            "",
        ] {
            assert_eq!(parse_beijing(text), None, "{text:?}");
        }
        assert!(parse_beijing_minute("2026-10-01 07:59").is_some());
    }

    #[test]
    fn the_day_ends_at_midnight_in_beijing() {
        let at: Timestamp = "2026-10-01T15:59:59Z".parse().unwrap();
        assert_eq!(beijing(end_of_beijing_day(at)), "2026-10-02 00:00:00");
        assert_eq!(until(at, end_of_beijing_day(at)), Duration::from_secs(1));
    }
}
