//! The engine on a real store, with faults, and with time that passes by itself.

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
mod watchdog;
