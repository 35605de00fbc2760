//! The named cases: each is one fact that every store must hold.
//!
//! [`suite!`](crate::suite) makes a test of each; call one by hand to look into a failure.

#![expect(clippy::panic, reason = "a case fails as a test does")]
#![expect(clippy::missing_panics_doc, reason = "every case panics if its fact does not hold")]

pub mod batch;
pub mod claim;
pub mod class;
pub mod content;
pub mod end;
pub mod lease;
pub mod listing;
pub mod retention;
pub mod settle;
