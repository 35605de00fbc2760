//! `cargo xtask test`: every test there is, then the demo.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::run::{self, Step};
use crate::servers;

const DEMO: &[&str] =
    &["run", "--release", "--package", "hapax-cli", "--bin", "hapax", "--", "demo", "--json"];

/// The servers, unit and integration tests, doc tests, the demo.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        servers::step(),
        unit_and_integration(Runner::installed(), Place::here()),
        Step::cargo("doc tests", &["test", "--workspace", "--doc"]),
        Step::ours("demo", &format!("cargo {}", DEMO.join(" ")), demo),
    ]
}

/// What runs unit and integration tests.
#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    Cargo,
}

/// Where we run: a build server shows all failures at once and accepts no snapshot.
#[derive(Clone, Copy)]
enum Place {
    BuildServer,
    Desk,
}

impl Runner {
    fn installed() -> Self {
        let nextest = Command::new(run::cargo())
            .args(["nextest", "--version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if nextest.is_ok_and(|status| status.success()) { Self::Nextest } else { Self::Cargo }
    }
}

impl Place {
    fn here() -> Self {
        let ci = std::env::var_os("CI");
        let said = ci.is_some_and(|value| !value.is_empty() && value != "false");
        if said { Self::BuildServer } else { Self::Desk }
    }
}

fn unit_and_integration(runner: Runner, place: Place) -> Step {
    let args: &[&str] = match (runner, place) {
        (Runner::Nextest, Place::BuildServer) => {
            &["nextest", "run", "--workspace", "--profile", "ci"]
        }
        (Runner::Nextest, Place::Desk) => &["nextest", "run", "--workspace"],
        (Runner::Cargo, Place::BuildServer) => {
            &["test", "--workspace", "--tests", "--no-fail-fast"]
        }
        (Runner::Cargo, Place::Desk) => &["test", "--workspace", "--tests"],
    };
    let step = Step::cargo("tests", args);
    match place {
        Place::BuildServer => step.env("INSTA_UPDATE", "no"),
        Place::Desk => step,
    }
}

/// Plays the demo, shows its account and believes it only if exit code and verdict agree.
fn demo() -> anyhow::Result<()> {
    let played = Command::new(run::cargo())
        .args(DEMO)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("failed to start cargo")?;
    io::stdout().write_all(&played.stdout).context("failed to show the account")?;
    if !played.status.success() {
        bail!("the demo ended with {}", played.status);
    }
    verdict(&played.stdout)
}

fn verdict(account: &[u8]) -> anyhow::Result<()> {
    let account: Value =
        serde_json::from_slice(account).context("the demo's account is not one JSON document")?;
    match account.get("verdict").and_then(Value::as_str) {
        Some("pass") => Ok(()),
        Some(other) => bail!("the demo ended with exit code 0 but its verdict is `{other}`"),
        None => bail!("the demo's account has no verdict"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_runs_with_and_without_nextest() {
        for (runner, place, shown) in [
            (Runner::Nextest, Place::Desk, "cargo nextest run --workspace"),
            (
                Runner::Nextest,
                Place::BuildServer,
                "INSTA_UPDATE=\"no\" cargo nextest run --workspace --profile ci",
            ),
            (Runner::Cargo, Place::Desk, "cargo test --workspace --tests"),
            (
                Runner::Cargo,
                Place::BuildServer,
                "INSTA_UPDATE=\"no\" cargo test --workspace --tests --no-fail-fast",
            ),
        ] {
            assert_eq!(unit_and_integration(runner, place).shown(), shown);
        }
    }

    #[test]
    fn a_demo_is_believed_only_with_the_verdict_pass() {
        assert!(verdict(br#"{"verdict": "pass", "orders": 200}"#).is_ok());
        for account in [&br#"{"verdict": "fail"}"#[..], br#"{"orders": 200}"#, b"fine", b""] {
            assert!(verdict(account).is_err(), "{}", String::from_utf8_lossy(account));
        }
    }
}
