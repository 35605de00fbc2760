//! `cargo xtask bench`: what Hapax costs, beside a control.

use clap::ValueEnum;

use crate::run::Step;

/// What is measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum What {
    /// A bare axum handler against the same handler behind the layer, in memory and in SQLite
    Http,
    /// Claim and complete in SQLite against one commit for each statement
    Store,
}

/// The measurement, from the release profile.
pub(crate) fn steps(what: What, rounds: Option<u32>) -> Vec<Step> {
    let name = match what {
        What::Http => "http",
        What::Store => "store",
    };
    let rounds = rounds.map(|rounds| rounds.to_string());
    let mut args = vec!["run", "--release", "--package", "hapax-bench", "--", name];
    if let Some(rounds) = &rounds {
        args.extend(["--rounds", rounds]);
    }
    vec![Step::cargo("bench", &args)]
}
