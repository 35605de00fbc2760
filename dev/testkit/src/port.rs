//! Loopback ports that two servers never share, also while one of them is down.
//!
//! Ports come from below the range from which the kernel gives ports to outgoing connections, so a
//! server that was killed finds its port again. Each is held by a lock on a file of its number.

use std::{
    fs::{File, TryLockError},
    net::{Ipv4Addr, TcpListener},
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use crate::place;

/// First port that is given out.
const FIRST: u16 = 10_240;
/// So many ports: Redis Cluster's bus uses the port plus [`BUS`], which must stay below 32768.
const COUNT: u16 = 12_000;
/// From a cluster node's port to the port of its bus.
pub(crate) const BUS: u16 = 10_000;
/// Tries before the machine counts as full.
const TRIES: u32 = 1_000;

/// A free port and, ten thousand above it, its free bus port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _held: [File; 2],
}

impl Port {
    /// Takes a port that is free now and that no other testkit takes until this is dropped.
    pub(crate) fn take() -> Result<Self> {
        let dir = place::root()?.join("ports");
        place::make(&dir)?;
        for _ in 0..TRIES {
            let mut chance = [0; 2];
            getrandom::fill(&mut chance).context("the operating system gives no randomness")?;
            let number = FIRST + u16::from_ne_bytes(chance) % COUNT;
            if let (Some(port), Some(bus)) = (hold(&dir, number)?, hold(&dir, number + BUS)?) {
                return Ok(Self { number, _held: [port, bus] });
            }
        }
        bail!("no free port between {FIRST} and {}", FIRST + COUNT)
    }
}

fn hold(dir: &Path, number: u16) -> Result<Option<File>> {
    let file = place::lock_file(&dir.join(number.to_string()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).context("failed to lock a port"),
    }
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok().then_some(file))
}
