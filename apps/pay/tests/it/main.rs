//! Tests of the payment service through its public door.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "in a helper of a test, too, a broken expectation is a failed test"
)]

mod answer_mutations;
mod answers;
mod certificates;
mod gateway;
mod keys;
mod notice_mutations;
mod notices;
mod requests;
mod secrets;
mod stage;
mod vectors;
mod zones;
