//! The engine on a real store, with faults, and with time that passes by itself.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what the tests share fails as a test does"
)]

mod begin;
mod bench;
mod coalesce;
mod completer;
mod crowd;
mod declare;
mod flight;
mod lease;
mod losses;
mod run;
mod seal;
mod settle;
mod watchdog;
