//! `cargo xtask sql-mutants`: each guard of each statement and script taken away, one at a time.
//!
//! The trials are tests of the store; this runs them all, tells each mutant's fate and counts.

use std::io::{self, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::run::{self, Step};
use crate::servers;

/// One at a time: each trial has the statements of its process to itself.
const TRIALS: &[&str] = &[
    "test",
    "--quiet",
    "--package",
    "hapax-store",
    "--all-features",
    "--lib",
    "--",
    "--nocapture",
    "--test-threads=1",
    "mutants",
];

/// The servers, then the trials.
pub(crate) fn steps() -> Vec<Step> {
    let shown = format!("cargo {}", TRIALS.join(" "));
    vec![servers::step(), Step::ours("sql-mutants", &shown, trials)]
}

/// How many mutants somebody noticed, and how many nobody did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    killed: u32,
    survived: u32,
}

fn trials() -> anyhow::Result<()> {
    let mut trials = Command::new(run::cargo())
        .args(TRIALS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start cargo")?;
    let told = trials.stdout.take().context("the trials say nothing")?;
    let count = count(BufReader::new(told), &mut io::stdout())?;
    let end = trials.wait().context("failed to wait for the trials")?;
    if count.survived > 0 {
        bail!("a guard can be lost without anybody noticing");
    }
    if count.killed == 0 || !end.success() {
        bail!("the trials ended with {end}");
    }
    Ok(())
}

/// Passes the mutants on, one line each, and then their count.
fn count(told: impl io::BufRead, out: &mut impl Write) -> anyhow::Result<Count> {
    let mut count = Count::default();
    for line in told.lines() {
        let line = line.context("failed to read what the trials say")?;
        // The test runner leaves its own words before the first one.
        let Some((word, rest)) = fate(&line) else { continue };
        match word {
            "killed" => count.killed += 1,
            _ => count.survived += 1,
        }
        writeln!(out, "{word} {rest}").context("failed to tell")?;
    }
    writeln!(out, "{} killed, {} survived", count.killed, count.survived)
        .context("failed to tell")?;
    Ok(count)
}

fn fate(line: &str) -> Option<(&str, &str)> {
    ["killed", "SURVIVED"].into_iter().find_map(|word| {
        let rest = line.split_once(word)?.1.strip_prefix(' ')?;
        Some((word, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_is_told_once_and_counted() {
        let told = b"test a::mutants ... killed sqlite renew: AND r.state IN (1)\n\
                     killed redis claim: if 1 == 2 then\n\
                     SURVIVED mysql look: WHERE a\n\
                     noise\n";
        let mut out = Vec::new();
        let count = count(&told[..], &mut out).unwrap();
        assert_eq!(count, Count { killed: 2, survived: 1 });
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "killed sqlite renew: AND r.state IN (1)\n\
             killed redis claim: if 1 == 2 then\n\
             SURVIVED mysql look: WHERE a\n\
             2 killed, 1 survived\n"
        );
    }
}
