//! Log lines on stderr.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::output;

/// Starts the log: for people on a terminal, as JSON elsewhere. `RUST_LOG` says how much.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let registry = tracing_subscriber::registry().with(filter);
    let started = if io::stderr().is_terminal() {
        registry.with(fmt::layer().with_writer(io::stderr)).try_init()
    } else {
        registry.with(fmt::layer().json().with_writer(io::stderr)).try_init()
    };
    if let Err(why) = started {
        output::say(format!("hapax: there will be no log: {why}"));
    }
}
