//! The attacker against a small service made for the purpose, right and wrong in turn.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on is to fail loudly, in its helpers too"
)]

mod killed;
mod limits;
mod toy;
mod verdicts;
mod workload;
