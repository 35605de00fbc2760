//! Tests that look behind the public door: the statements one by one, and dialects that fail.

mod lossy;
mod mutants;
mod oracle;

pub(super) use self::{lossy::Lossy, mutants::Bent};
