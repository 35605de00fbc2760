//! The store in Redis or Valkey, single or cluster: each step is one script on one key.
//!
//! A record is one hash, journal included, so a cluster never finds half of it: while a slot
//! moves, its keys are served by the old owner or by the new one. Scripts read the server's clock
//! and no other. A key goes some time after its horizon (`reuse_at`), never with its lease: a
//! lapsed claim stays visible.
//!
//! Invariant: the scripts do to each record what `hapax_core::store::apply` does to it
//! (`any_step_does_what_the_pure_rule_does`), each of their guards is missed if it is taken away
//! (`every_guard_of_a_claim_is_missed` and its neighbours), and no step is sent again unless the
//! server said that it was not taken (`a_step_whose_answer_is_lost_is_sent_once`).
//!
//! What this store can't promise: Redis answers before a replica or the disk has the record, so
//! a fail-over or a crash may lose a claim that was granted (`a_fail_over_may_lose_a_claim`).
//! Its [`Durability`](hapax_core::store::Durability) is `Volatile`, best effort; an operation
//! that needs more refuses to be declared on it.

mod check;
mod fleet;
mod locks;
mod node;
mod open;
mod record;
mod scan;
mod script;
mod slot;
mod step;
mod store;
#[cfg(test)]
mod tests;

pub use self::{open::RedisOpening, store::RedisStore};
