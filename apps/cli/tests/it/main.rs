//! The operator's verbs: the real executable on a real database.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a helper of a test, too, a broken expectation is a failed test"
)]

mod answers;
mod bad_input;
mod channel;
mod demo;
mod help;
mod keys;
mod outbox;
mod processes;
mod schema;
mod stage;
mod tokens;
mod verify;
