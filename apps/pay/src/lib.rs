//! Payment service of Hapax: order → payment → channel callback → benefit, each with one outcome.
//!
//! | room | what is in it |
//! |---|---|
//! | [`money`], [`beijing`] | whole minor units, decimal text; the channels' wall clock |
//! | [`channel`] | what a payment channel can be asked and what its answers may mean |
//! | [`payment`], [`refund`], [`benefit`], [`order`] | the states, as pure tables |
//! | `ledger` | the books: what each fact changes, in one transaction |
//! | `db` | rows and statements |
//! | `flow` | what happens between two transactions: ask the channel, wait, answer |
//! | `work` | what the service does by itself: relay, completer, sweeps, purge |
//! | `api`, `connections` | the HTTP API and its sockets |
//! | [`operator`] | what an operator can see and do |
//! | [`Service`] | all of it, opened from a [`Config`](config::Config) |
#![warn(clippy::wildcard_enum_match_arm, clippy::float_arithmetic)]

mod api;
pub mod beijing;
pub mod benefit;
pub mod channel;
pub mod config;
mod connections;
mod db;
mod error;
mod flow;
mod ledger;
mod merchant;
pub mod money;
mod number;
pub mod operator;
pub mod order;
pub mod payment;
pub mod refund;
mod service;
pub mod stored;
mod telemetry;
mod utc;
mod work;

pub use self::{
    error::{Error, Kind},
    merchant::PRINCIPAL,
    service::{CREATE_OPERATION, Service},
};
