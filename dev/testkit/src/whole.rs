//! A server with all its processes: PostgreSQL has one for each session.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{clock, process};

/// A killed process is gone at once; only a broken kernel needs so long.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Holds the process and its children, which are returned.
pub(crate) fn stop(pid: u32) -> Result<Vec<u32>> {
    // The parent first: it makes no more children while it is held, so none is missed.
    signal(pid, Signal::STOP)?;
    let children = process::children(pid)?;
    for child in &children {
        signal(*child, Signal::STOP)?;
    }
    Ok(children)
}

/// Lets all of them go on.
pub(crate) fn cont(pid: u32) -> Result<Vec<u32>> {
    let children = process::children(pid)?;
    for held in children.iter().copied().chain([pid]) {
        signal(held, Signal::CONT)?;
    }
    Ok(children)
}

/// Kills all of them at once; returns the children, which nobody of us can wait for.
pub(crate) fn kill(pid: u32) -> Result<Vec<u32>> {
    let children = stop(pid)?;
    for held in [pid].into_iter().chain(children.iter().copied()) {
        signal(held, Signal::KILL)?;
    }
    Ok(children)
}

/// Asks the parent to end, also if it is held; returns the children.
pub(crate) fn end(pid: u32, by: Signal) -> Result<Vec<u32>> {
    signal(pid, by)?;
    cont(pid)
}

/// Waits until a process has ended.
pub(crate) fn wait_end(pid: u32) -> Result<()> {
    clock::wait_for("the end of a process", END_LIMIT, || {
        Ok((!process::is_running(pid)).then_some(()))
    })
}

/// Sends a signal; a process that is gone is not an error.
fn signal(pid: u32, signal: Signal) -> Result<()> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no such process number")?;
    match kill_process(raw, signal) {
        Err(error) if error != rustix::io::Errno::SRCH => {
            bail!("failed to signal process {pid}: {error}")
        }
        _ => Ok(()),
    }
}
