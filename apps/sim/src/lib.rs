#![doc = include_str!("../README.md")]

mod armed;
mod cert;
mod channel;
mod charset;
mod clock;
mod config;
mod control;
mod error;
pub mod faults;
mod form;
mod gateway;
mod keys;
mod money;
mod notify;
mod page;
mod server;
mod trade;
#[cfg(test)]
mod vectors;
pub mod wire;
mod world;

pub use crate::config::{Account, Config, Proof};
pub use crate::error::{Error, Kind};
pub use crate::keys::{RsaKeyPem, generate_rsa_key_pem};
pub use crate::server::{Simulator, bind};
