//! `cargo xtask servers`: the servers that tests share, kept by a process that ends with us.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, bail};

use crate::run::{self, Step};

/// Without what tests use of it: neither a driver nor a runtime is compiled.
const KEEPER: &[&str] = &[
    "run",
    "--quiet",
    "--package",
    "hapax-testkit",
    "--no-default-features",
    "--bin",
    "hapax-servers",
];
/// The line that the keeper prints when all servers answer.
const READY: &str = "ready";

/// The keeper of this run. Its input ends when we end, however we end, and then it ends.
static KEPT: OnceLock<Child> = OnceLock::new();

/// Installs what is missing and starts the servers, which stay until this run is over.
pub(crate) fn step() -> Step {
    Step::ours("servers", "cargo xtask servers", || {
        let (keeper, _) = keep()?;
        drop(KEPT.set(keeper));
        Ok(())
    })
}

/// Starts the servers, prints where they are, and keeps them until somebody ends this.
pub(crate) fn until_ended() -> anyhow::Result<()> {
    let (mut keeper, lines) = keep()?;
    let mut out = io::stdout();
    for line in lines {
        writeln!(out, "{line}").context("nobody reads where the servers are")?;
    }
    run::say("xtask: the servers stay until you end this, with Ctrl-C for example");
    // Its input stays open: `wait` would close it.
    let input = keeper.stdin.take();
    let end = keeper.wait().context("failed to wait for the keeper of the servers")?;
    drop(input);
    bail!("the keeper of the servers ended with {end}")
}

fn keep() -> anyhow::Result<(Child, Vec<String>)> {
    let mut keeper = Command::new(run::cargo())
        .args(KEEPER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start the keeper of the servers")?;
    let out = keeper.stdout.take().context("the keeper of the servers says nothing")?;
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line.context("failed to read where the servers are")?;
        if line == READY {
            return Ok((keeper, lines));
        }
        lines.push(line);
    }
    bail!("no servers: {}", keeper.wait().context("failed to wait for their keeper")?)
}
