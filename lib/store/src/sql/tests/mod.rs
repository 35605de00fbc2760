//! Tests that look behind the public door: the statements one by one, and dialects that fail.

mod bend;
mod ground;
mod hitch;
mod house;
mod lossy;
mod mutants;
mod oracle;
pub(super) mod samples;

pub(super) use self::hitch::{Hitch, Hitched};
