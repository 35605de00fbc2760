//! The payment service proved from outside: the real service, a real simulator and a merchant's
//! server, each on a socket of its own, and the database read from beside it.
//!
//! A number in a comment is that of a behaviour in the list of twenty-five which the payment
//! service was built against: create 1–6, callback 7–15, query, close and reconcile 16–20,
//! refunds 21 and 22, money and time 23 and 24.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "in a helper of a test, too, a broken expectation is a failed test"
)]

mod bad_input;
mod books;
mod callbacks;
mod channel;
mod clock;
mod close;
mod create;
mod drain;
mod guards;
mod huge;
mod instances;
mod kills;
mod late;
mod merchant;
mod money_and_time;
mod orders_of_notices;
mod parts;
mod purge;
mod receiver;
mod refunds;
mod replay;
mod shop;
mod slow;
mod stage;
mod start;
mod sweeps;
mod tenants;
mod tokens;
mod unclear;
