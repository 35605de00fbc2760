//! Tests that look behind the public door: the scripts against the pure rule, on a clock that can
//! be moved, and with one guard taken away.

mod moved;
mod mutants;
mod oracle;

use hapax_testkit::Redis;

/// A server as the store wants it, without the price of the disk.
///
/// Call it outside of a runtime.
fn server() -> Redis {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Redis::with(&[("appendfsync", "no")])).unwrap()
}
