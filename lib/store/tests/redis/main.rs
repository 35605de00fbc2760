//! The store on real servers: what it keeps, what it costs, and what it says when they fail.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what the tests share fails as a test does"
)]

mod away;
mod cluster;
mod contract;
mod cost;
mod keys;
mod locks;
mod lost;
mod setup;
mod stage;
