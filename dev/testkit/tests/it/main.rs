//! Tests of the servers that other tests stand on.

#![expect(clippy::panic, clippy::unwrap_used, reason = "what the tests share fails as a test does")]

mod cluster;
mod database;
mod proxy;
mod server;
mod sharing;
