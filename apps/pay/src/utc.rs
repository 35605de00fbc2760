//! Times as the API shows them.

use hapax::Timestamp;

/// RFC 3339 in UTC, to the millisecond. A time that no calendar has is shown as its number.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => format!("{at:.3}"),
        Err(_) => at.as_millis().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc_to_the_millisecond() {
        let shown = rfc3339(Timestamp::from_millis(1_790_812_800_120));
        assert_eq!(shown, "2026-10-01T00:00:00.120Z");
    }
}
