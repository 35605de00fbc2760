//! The operator's verbs: the real executable on a real database.
#![expect(missing_docs, reason = "tests")]

mod answers;
mod bad_input;
mod channel;
mod help;
mod keys;
mod outbox;
mod processes;
mod schema;
mod stage;
mod tokens;
mod verify;
