#![doc = include_str!("../README.md")]
#![warn(clippy::wildcard_enum_match_arm, clippy::float_arithmetic, clippy::exhaustive_enums)]

mod decide;
mod engine;
mod error;
mod fingerprint;
mod id;
mod invalid;
pub mod jobs;
pub mod lock;
pub mod machine;
pub mod message;
mod outcome;
pub mod purge;
pub mod reconcile;
mod record;
mod rest;
pub mod store;
#[cfg(test)]
mod testing;
mod time;
pub mod token;
mod witness;

pub use self::{
    decide::{Decision, Grant, decide},
    engine::{
        ATTEMPTS_MAX, Begin, Builder, Busy, Call, Completer, End, FOLLOWERS_MAX,
        FOLLOWERS_PER_KEY_MAX, Hapax, Happening, KEEP, LEASE, Lease, Observer, Operation, Owned,
        Policy, Ran, Resolved, Resume, Ruled, Sealing, Unobserved, Work, backoff,
    },
    error::{Error, Kind},
    fingerprint::{Fingerprint, PRINT_BYTES, PRINT_VERSION, Print, Prints},
    id::{
        Actor, BusinessKey, Channel, ChannelKey, Id, Identity, KEY_BYTES_MAX, NAME_BYTES_MAX,
        OPERATION_BYTES_MAX, OperationName, Principal, RequestKey, Scope, Tenant,
    },
    invalid::Invalid,
    outcome::{OUTCOME_BYTES_MAX, Outcome, REFERENCE_BYTES_MAX},
    record::{Class, Effect, Epoch, Fence, Nonce, Record, Retention, State, Status, Terms},
    time::{Clock, SystemClock, TestClock, Timestamp, millis},
    witness::Witness,
};
