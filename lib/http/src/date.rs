//! Moments as the wire writes them.

use hapax_core::Timestamp;

const DAY_SECONDS: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The form of HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// Written piece by piece: every replay has one, and the formatter takes ten times as long.
pub(crate) fn http(at: Timestamp) -> String {
    let Civil { year, month, day, weekday, hour, minute, second, .. } = Civil::of(at);
    let (weekday, month) = (WEEKDAYS.get(weekday), MONTHS.get(month - 1));
    let mut text = String::with_capacity(29);
    text.push_str(weekday.unwrap_or(&"Thu"));
    text.push_str(", ");
    push_two(&mut text, day);
    text.push(' ');
    text.push_str(month.unwrap_or(&"Jan"));
    text.push(' ');
    push_two(&mut text, year / 100);
    push_two(&mut text, year % 100);
    for (before, number) in [(' ', hour), (':', minute), (':', second)] {
        text.push(before);
        push_two(&mut text, number);
    }
    text.push_str(" GMT");
    text
}

fn push_two(text: &mut String, number: i64) {
    for digit in [number / 10 % 10, number % 10] {
        let digit = u32::try_from(digit).ok().and_then(|digit| char::from_digit(digit, 10));
        text.push(digit.unwrap_or('0'));
    }
}

/// RFC 3339 with milliseconds: `1994-11-06T08:49:37.000Z`.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second, milli, .. } = Civil::of(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// A moment in UTC.
struct Civil {
    year: i64,
    month: usize,
    day: i64,
    /// Days since the last Thursday: 1970-01-01 was one.
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
    milli: i64,
}

impl Civil {
    /// Counts in years that begin on the first of March, so that the leap day is the last one.
    fn of(at: Timestamp) -> Self {
        let (seconds, milli) = (at.as_millis().div_euclid(1000), at.as_millis().rem_euclid(1000));
        let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        // Days since 0000-03-01; an era is the 400 years after which the calendar repeats.
        let shifted = days + 719_468;
        let (era, in_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * in_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: usize::try_from(month).unwrap_or(1),
            day: in_year - (153 * from_march + 2) / 5 + 1,
            weekday: usize::try_from(days.rem_euclid(7)).unwrap_or(0),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            milli,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_the_standards_do() {
        for (millis, http_form, rfc3339_form) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37.000Z"),
            (951_782_399_999, "Mon, 28 Feb 2000 23:59:59 GMT", "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.000Z"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT", "1969-12-31T23:59:59.999Z"),
        ] {
            let at = Timestamp::from_millis(millis);
            assert_eq!((http(at).as_str(), rfc3339(at).as_str()), (http_form, rfc3339_form));
        }
    }
}
