//! The only runner of the workspace: `cargo xtask <command>`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::run::{OnFailure, Step};

mod bench;
mod bless;
mod ci;
mod clock;
mod features;
mod run;
mod servers;
mod sql_mutants;
mod test;
mod tidy;

/// Runs the tests, lints and house rules of the workspace
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Exit codes: 0 every step passed, 1 a step failed, 2 the command line was wrong."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks formatting, house rules, lints and documentation, then runs every test
    ///
    /// Stops at the first step that fails. This is what `.ci/run` calls.
    Ci {
        /// Runs the remaining steps after a failure, to see all of them in one run
        #[arg(long)]
        keep_going: bool,
    },
    /// Runs every test: unit, integration and doc tests, then the demo
    ///
    /// Starts the database servers first, installing them if need be, and keeps them meanwhile.
    /// Uses nextest where it is installed (its `ci` profile when CI is set) and `cargo test`
    /// where it is not. The demo runs from the release profile and must end with exit code 0
    /// and the verdict `pass`.
    Test,
    /// Starts the database servers that tests share, prints their URLs and keeps them until Ctrl-C
    ///
    /// Installs Debian's packages when it is root and they are missing. Tests find the servers by
    /// themselves, and start them when nobody keeps them.
    Servers,
    /// Checks the house rules that no other tool checks
    ///
    /// Prints each finding as `path:line: message` on standard output.
    Tidy,
    /// Checks each published crate without features and with each feature alone
    Features,
    /// Measures what Hapax costs, beside a control in the same run
    ///
    /// Figures are ratios: of processor time and of requests per second. A run whose keys were
    /// not executed once each fails.
    Bench {
        /// What to measure
        what: bench::What,
        /// Rounds; the median round is told [default: what the measurement needs]
        #[arg(long, value_name = "N")]
        rounds: Option<u32>,
    },
    /// Takes each guard of each engine's statements and scripts away, and looks who notices
    ///
    /// Prints one line for each mutant, `killed` or `SURVIVED`, and their count. Fails if one
    /// survived. Takes the better part of an hour.
    SqlMutants,
    /// Runs the tests and accepts changed snapshots and compiler messages; review the diff
    Bless {
        /// Only the tests of this package
        #[arg(short, long, value_name = "NAME")]
        package: Option<String>,
    },
}

fn main() -> ExitCode {
    match dispatch(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            run::say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    let root = root()?;
    Ok(match command {
        Command::Ci { keep_going: false } => run::all(ci::steps(&root), OnFailure::Stop),
        Command::Ci { keep_going: true } => run::all(ci::steps(&root), OnFailure::Continue),
        Command::Test => run::all(test::steps(), OnFailure::Stop),
        Command::Servers => {
            servers::until_ended()?;
            ExitCode::SUCCESS
        }
        Command::Tidy => run::all(vec![tidy_step(root)], OnFailure::Stop),
        Command::Features => run::all(features::steps(&root)?, OnFailure::Continue),
        Command::Bench { what, rounds } => run::all(bench::steps(what, rounds), OnFailure::Stop),
        Command::SqlMutants => run::all(sql_mutants::steps(), OnFailure::Stop),
        Command::Bless { package } => {
            run::all(bless::steps(package.as_deref()), OnFailure::Continue)
        }
    })
}

fn tidy_step(root: PathBuf) -> Step {
    Step::ours("tidy", "cargo xtask tidy", move || tidy::report(&root))
}

/// The workspace root: this crate lies two folders below it.
fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = here.ancestors().nth(2).context("run me as `cargo xtask` inside the workspace")?;
    Ok(root.to_path_buf())
}
