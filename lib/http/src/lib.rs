#![doc = include_str!("../README.md")]
#![warn(clippy::wildcard_enum_match_arm, clippy::float_arithmetic)]

mod axum;
mod body;
mod busy;
mod caller;
mod date;
mod fingerprint;
mod gather;
pub mod header;
mod idempotent;
mod key;
mod layer;
mod outcome;
mod problem;
mod replay;
mod run;
mod service;
mod status;
mod verify;

pub use self::{
    axum::{Checked, NotGuarded},
    busy::{BusyStatus, InFlight, Waiting},
    caller::{Caller, FromExtension, Principals, Refusal},
    idempotent::Idempotent,
    key::KeyRule,
    layer::{IdempotencyLayer, MismatchStatus, StoreDown},
    outcome::{Ended, Streamed},
    problem::{Code, Problem, Row},
    replay::StoredAnswer,
    service::Idempotency,
    status::{STATUS_PATH, StatusRoutes},
    verify::{Verdict, Verify},
};
