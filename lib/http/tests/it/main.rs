//! The wire contract, through the public door: a real axum server on loopback and raw sockets.
//!
//! Each test says which line of the crate it guards: without that line it fails.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on is to fail loudly, in its helpers too"
)]

mod bodies;
mod callers;
mod crowd;
mod endings;
mod interruptions;
mod keys;
mod logs;
mod problems;
mod replays;
mod sealing;
mod site;
mod sizes;
mod status;
mod stores;
mod table;
mod wire;
