#![doc = include_str!("../README.md")]
#![expect(clippy::panic, reason = "a contract that is broken fails as a test does")]

mod alternate;
pub mod case;
mod fault;
pub mod locks;
pub mod oracle;
pub mod outbox;
mod stage;
mod subject;
mod suite;

pub use futures_util::future::BoxFuture;

pub use self::{
    alternate::Alternate,
    fault::{Asked, Delivery, FaultStore, Losses, insist},
    subject::{Memory, Subject},
    suite::{CASES, Case, run},
};
