//! Locks: early refusal and less contention, never the guarantee.
//!
//! One lock per business object. [`Turnstile`] lets one through at a time, renews the lease while
//! the work goes on, and tells a holder who has lost it. After gaining a lock, look at the state
//! again; after losing the race for it, wait a little and look again: [`Turnstile::once`] does
//! both.
//!
//! Invariant: no renewal begins after a lock was given back, and a holder who cannot renew is
//! told before the lease ends (`nothing_is_renewed_after_release`,
//! `a_holder_that_cannot_renew_is_told_before_the_lease_ends`).

mod guard;
mod hold;
mod memory;
#[cfg(test)]
mod tests;
mod turnstile;

pub use self::{
    guard::{Guard, Turn},
    hold::{Hold, LockName, Locks},
    memory::{LOCKS_MAX, MemoryLocks},
    turnstile::{Acquired, Happening, LEASE, Once, Turnstile},
};
