//! The store on real engines: what it keeps, what it costs, and what survives.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what the tests share fails as a test does, and waits on the real clock"
)]

mod broken_off;
mod clock;
mod contract;
mod cost;
mod engine;
mod fairness;
mod file;
mod inbox;
mod isolation;
mod join;
mod ledger;
mod leftovers;
mod locks;
mod losses;
mod one_writer;
mod outbox;
mod parts;
mod poison;
mod processes;
mod run_in_tx;
mod schema;
mod server_cost;
mod server_kills;
mod stage;
mod transition;
mod write;
