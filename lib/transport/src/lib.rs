#![doc = include_str!("../README.md")]
#![warn(clippy::exhaustive_enums)]

mod signature;
mod webhook;

pub use self::{
    signature::{Signature, sign},
    webhook::{Address, Target, Unfit, Webhook},
};
