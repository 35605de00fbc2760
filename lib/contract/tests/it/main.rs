//! The contract tried on the reference, and on stores that break it.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what the tests share fails as a test does"
)]

mod clocks;
mod line;
mod model;
mod mutant;
mod places;
mod reference;
