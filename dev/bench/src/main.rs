//! What Hapax costs, as a ratio to a control that runs beside it.
//!
//! Invariant: a figure counts only if its keys were executed once each; otherwise the run fails
//! (`a_key_that_ran_twice_voids_the_figures`).

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum as _};

use crate::server::Variant;

mod clock;
mod http;
mod load;
mod ratio;
mod server;
mod store;

/// Measures what Hapax costs, beside a control in the same run
#[derive(Debug, Parser)]
#[command(name = "hapax-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A bare axum handler against the same handler behind the layer
    Http {
        /// Rounds; each visits every variant once, and the median round is told
        #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=99))]
        rounds: u32,
    },
    /// What a guard costs on each engine, against a hand-written program with the same driver
    Store {
        /// Only this engine; all of them if none is named
        #[arg(long, value_enum)]
        engine: Vec<store::Engine>,
        /// Rounds; each visits every variant once, and the median round is told
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
        rounds: u32,
    },
    /// The server of one variant, on one worker; it ends when its standard input does
    #[command(hide = true)]
    Serve {
        /// What stands in front of the handler
        variant: Variant,
    },
}

#[expect(clippy::print_stderr, reason = "the end of a program is told to a person")]
fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Http { rounds } => http::run(rounds),
        Command::Store { engine, rounds } => {
            let engines = if engine.is_empty() { store::Engine::value_variants() } else { &engine };
            store::run(engines, rounds)
        }
        Command::Serve { variant } => server::run(variant),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hapax-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
