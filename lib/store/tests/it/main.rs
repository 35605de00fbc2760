//! The store on real files: what it keeps, what it costs, and what survives.

mod clock;
mod contract;
mod cost;
mod inbox;
mod join;
mod locks;
mod oracle;
mod outbox;
mod parts;
mod poison;
mod processes;
mod run_in_tx;
mod schema;
mod stage;
mod transition;
mod write;
