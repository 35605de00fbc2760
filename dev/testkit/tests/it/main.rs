//! Tests of the servers that other tests stand on.

mod database;
mod server;
