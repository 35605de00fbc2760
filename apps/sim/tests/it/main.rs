//! The simulator from outside: started on a free port and spoken to over the wire.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that can't go on is to fail loudly, in its helpers too"
)]

mod certificates;
mod client;
mod control;
mod deliveries;
mod faults;
mod gateway;
mod page;
mod races;
mod shop;
mod stage;
