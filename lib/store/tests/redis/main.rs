//! The store on real servers: what it keeps, what it costs, and what it says when they fail.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what the tests share fails as a test does"
)]

mod cluster;
mod contract;
mod stage;
