//! Channel time under foreign time zones and without a time zone database.

use crate::stage::{params, passes_with, protocol, purchase};
use hapax_pay::{beijing::Moment, channel::Way};

#[test]
fn channel_time_is_eight_hours_ahead() {
    let now = Moment::from_epoch_ms(1_790_812_800_000).unwrap();
    assert_eq!(now.beijing(), "2026-10-01 08:00:00");
    assert_eq!(Moment::parse_beijing("2026-10-01 08:00:00"), Ok(now));
    let frozen = protocol().freeze_purchase(&purchase(Way::Code), now).unwrap();
    let params = params(&frozen);
    assert!(params.contains(&("timestamp".to_owned(), "2026-10-01 08:00:00".to_owned())));
    let (_, content) = params.iter().find(|(name, _)| name == "biz_content").unwrap();
    assert!(content.contains("\"time_expire\":\"2026-10-01 08:30:00\""), "{content}");
}

#[test]
fn channel_time_is_the_same_in_utc() {
    runs_with(&[("TZ", "UTC")]);
}

#[test]
fn channel_time_is_the_same_in_new_york() {
    runs_with(&[("TZ", "America/New_York")]);
}

#[test]
fn channel_time_needs_no_time_zone_database() {
    let empty = tempfile::tempdir().unwrap();
    let directory = empty.path().to_str().unwrap();
    runs_with(&[("TZ", "Asia/Shanghai"), ("TZDIR", directory)]);
    runs_with(&[("TZ", "Nowhere/Nothing"), ("TZDIR", directory)]);
}

fn runs_with(environment: &[(&str, &str)]) {
    passes_with("zones::channel_time_is_eight_hours_ahead", environment);
}
