//! The wall clock of the channels: `yyyy-MM-dd HH:mm:ss`, always eight hours ahead of UTC.
//!
//! Invariant: neither the machine's time zone nor its time zone database takes part; the offset
//! is a constant. Held by the tests of `tests/it/zones.rs`, which run with `TZ` set and with an
//! empty `TZDIR`.

use jiff::{Timestamp, civil, tz::Offset};

const BEIJING: Offset = Offset::constant(8);

/// A moment since 1970, exact to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Timestamp);

impl Moment {
    /// Takes milliseconds since the epoch, from 1970 to the end of the year 9999.
    pub fn from_epoch_ms(epoch_ms: i64) -> Result<Self, Malformed> {
        let timestamp = Timestamp::from_millisecond(epoch_ms).map_err(|_| Malformed::Range)?;
        if timestamp < Timestamp::UNIX_EPOCH { Err(Malformed::Range) } else { Ok(Self(timestamp)) }
    }

    /// Reads Beijing time: `2026-10-01 08:00:00`, optionally with one to three decimals.
    pub fn parse_beijing(text: &str) -> Result<Self, Malformed> {
        let (seconds, fraction) = match text.split_once('.') {
            Some((seconds, fraction)) => (seconds, milliseconds(fraction)?),
            None => (text, 0),
        };
        let wall = wall_clock(seconds)?;
        let whole = BEIJING.to_timestamp(wall).map_err(|_| Malformed::Range)?.as_millisecond();
        Self::from_epoch_ms(whole + fraction)
    }

    /// The moment in milliseconds since the epoch.
    pub fn epoch_ms(self) -> i64 {
        self.0.as_millisecond()
    }

    /// The second that has begun, in Beijing time: `2026-10-01 08:00:00`.
    pub fn beijing(self) -> String {
        let wall = BEIJING.to_datetime(self.0);
        format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            wall.year(),
            wall.month(),
            wall.day(),
            wall.hour(),
            wall.minute(),
            wall.second()
        )
    }
}

/// Why text or a number is not a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Not written as `yyyy-MM-dd HH:mm:ss`.
    #[error("the time must be written like \"2026-10-01 08:00:00\"")]
    Shape,
    /// No such day or hour.
    #[error("the time names a day or an hour that does not exist")]
    Calendar,
    /// Before 1970 or after 9999.
    #[error("the time must lie between the years 1970 and 9999")]
    Range,
}

const SHAPE: &[u8; 19] = b"dddd-dd-dd dd:dd:dd";

fn wall_clock(text: &str) -> Result<civil::DateTime, Malformed> {
    let fits = text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            mark => byte == *mark,
        });
    if !fits {
        return Err(Malformed::Shape);
    }
    let mut numbers = text
        .split(|mark: char| !mark.is_ascii_digit())
        .map(|number| number.parse::<i16>().map_err(|_| Malformed::Shape));
    let mut next = || numbers.next().unwrap_or(Err(Malformed::Shape));
    let year = next()?;
    let mut small = || next().and_then(|n| i8::try_from(n).map_err(|_| Malformed::Shape));
    civil::DateTime::new(year, small()?, small()?, small()?, small()?, small()?, 0)
        .map_err(|_| Malformed::Calendar)
}

fn milliseconds(fraction: &str) -> Result<i64, Malformed> {
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || !(1..=3).contains(&fraction.len()) {
        return Err(Malformed::Shape);
    }
    format!("{fraction:0<3}").parse().map_err(|_| Malformed::Shape)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn midnight_in_beijing_is_four_in_the_afternoon_before_in_utc() {
        let moment = Moment::parse_beijing("1970-01-02 00:00:00").unwrap();
        assert_eq!(moment.epoch_ms(), 16 * 3_600_000);
        assert_eq!(moment.beijing(), "1970-01-02 00:00:00");
    }

    #[test]
    fn the_epoch_is_eight_in_the_morning() {
        assert_eq!(Moment::from_epoch_ms(0).unwrap().beijing(), "1970-01-01 08:00:00");
        assert_eq!(Moment::from_epoch_ms(-1), Err(Malformed::Range));
    }

    #[test]
    fn milliseconds_are_read_and_not_written() {
        let moment = Moment::parse_beijing("2026-10-01 08:00:30.125").unwrap();
        assert_eq!(moment.epoch_ms() % 1000, 125);
        assert_eq!(moment.beijing(), "2026-10-01 08:00:30");
        let tenth = Moment::parse_beijing("2026-10-01 08:00:30.5").unwrap();
        assert_eq!(tenth.epoch_ms() % 1000, 500);
    }

    #[test]
    fn china_kept_summer_time_once_and_the_channels_do_not() {
        let moment = Moment::parse_beijing("1988-07-01 12:00:00").unwrap();
        assert_eq!(moment.epoch_ms(), 583_732_800_000);
    }

    #[test]
    fn text_of_another_shape_is_refused() {
        for text in [
            "",
            "2026-10-01",
            "2026-10-01T08:00:00",
            "2026-10-01 08:00",
            "2026-1-1 8:0:0",
            " 2026-10-01 08:00:00",
            "2026-10-01 08:00:00 ",
            "2026-10-01 08:00:00.",
            "2026-10-01 08:00:00.1234",
            "2026-10-01 08:00:00.+12",
            "2026-10-01 08:00:00+08",
            "+026-10-01 08:00:00",
            "2026-10-01 08:00:0é",
        ] {
            assert_eq!(Moment::parse_beijing(text), Err(Malformed::Shape), "{text:?}");
        }
    }

    #[test]
    fn days_and_hours_that_do_not_exist_are_refused() {
        for text in ["2026-02-30 08:00:00", "2026-13-01 08:00:00", "2026-10-01 24:00:00"] {
            assert_eq!(Moment::parse_beijing(text), Err(Malformed::Calendar), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_second_survives_its_own_text(second in 0_i64..=4_102_444_800) {
            let moment = Moment::from_epoch_ms(second * 1000).unwrap();
            prop_assert_eq!(Moment::parse_beijing(&moment.beijing()), Ok(moment));
        }

        #[test]
        fn no_stray_text_is_a_time(text in "\\PC*") {
            prop_assert!(Moment::parse_beijing(&text).is_err());
        }

        #[test]
        fn no_number_makes_writing_panic(epoch_ms in any::<i64>()) {
            if let Ok(moment) = Moment::from_epoch_ms(epoch_ms) {
                prop_assert_eq!(moment.beijing().len(), SHAPE.len());
            }
        }
    }
}
