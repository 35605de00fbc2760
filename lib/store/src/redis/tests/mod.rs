//! Tests that look behind the public door: the scripts one by one, and scripts that fail.

mod moved;
mod mutants;
mod oracle;
mod server;
