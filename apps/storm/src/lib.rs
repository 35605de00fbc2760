#![doc = include_str!("../README.md")]
//!
//! Invariants: a plan with one seed is one workload (`the_same_seed_gives_the_same_workload`);
//! nothing is sent to another machine (`only_this_machine_is_attacked`); a service that keeps the
//! contract gets no finding (`a_correct_service_passes`), and one that breaks a rule is found out
//! by that rule (the tests in `tests/it/verdicts.rs`).

mod answer;
mod attack;
mod book;
mod client;
mod clock;
mod dice;
mod error;
mod fen;
mod merchant;
mod mischief;
mod plan;
mod progress;
mod report;
mod rule;
mod script;
mod simulator;
mod target;
mod wire;

pub use self::attack::run;
pub use self::clock::Control;
pub use self::error::{Error, Kind};
pub use self::merchant::{Manner, Merchant};
pub use self::plan::{Mischief, ORDERS_MAX, Pace, Plan, SUBMITS, Shares, Tenant};
pub use self::progress::{Phase, Progress};
pub use self::report::{Counts, Finding, Latency, NoticeCounts, Report, RuleLine, Verdict};
pub use self::rule::Rule;
pub use self::script::{Script, Story};
