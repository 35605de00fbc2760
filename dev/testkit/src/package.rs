//! Debian's packages: installed when we are root, named when we are not.
//!
//! A package's own service is never started: the servers of tests are ours.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{place, process};

/// Asked by Debian's packages before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// 101 means "not allowed".
const REFUSE: &str = "#!/bin/sh\nexit 101\n";
/// Seconds to wait for another apt-get.
const APT_LOCK: &str = "DPkg::Lock::Timeout=300";

/// Sees to it that `found` finds its programs.
pub(crate) fn need<T>(name: &str, package: &str, found: impl Fn() -> Option<T>) -> Result<T> {
    if let Some(programs) = found() {
        return Ok(programs);
    }
    if !process::is_root() || process::find("apt-get", &[]).is_none() {
        bail!("{name} is not installed: install it, on Debian with `apt-get install {package}`");
    }
    let lock = place::lock_file(&place::root()?.join("install"))?;
    lock.lock().context("failed to lock the installation")?;
    if found().is_none() {
        install(package).with_context(|| format!("failed to install {package}"))?;
    }
    found().with_context(|| format!("{package} is installed, but not the programs of {name}"))
}

fn install(package: &str) -> Result<()> {
    let _services = NoServices::begin()?;
    let install = ["install", "--yes", "--no-install-recommends", package];
    let first = if lists_are_missing() { None } else { Some(apt_get(&install)) };
    match first {
        Some(Ok(())) => Ok(()),
        // The lists may be old: what they name is gone from the registry.
        None | Some(Err(_)) => apt_get(&["update"]).and_then(|()| apt_get(&install)),
    }
}

fn lists_are_missing() -> bool {
    let lists = fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    !lists.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let done = Command::new("apt-get")
        .args(["-o", APT_LOCK])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("failed to start apt-get")?;
    ensure!(
        done.status.success(),
        "`apt-get {}` ended with {}:\n{}",
        arguments.join(" "),
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

/// While this lives, Debian's packages start no service. A policy that is there already stays.
struct NoServices(Option<PathBuf>);

impl NoServices {
    fn begin() -> Result<Self> {
        let policy = Path::new(POLICY);
        if policy.exists() {
            return Ok(Self(None));
        }
        fs::write(policy, REFUSE).context("failed to keep services from starting")?;
        let guard = Self(Some(policy.to_path_buf()));
        fs::set_permissions(policy, fs::Permissions::from_mode(0o755))
            .context("failed to keep services from starting")?;
        Ok(guard)
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.0 {
            // What cannot be removed keeps services from starting, which the next one sees.
            drop(fs::remove_file(policy));
        }
    }
}
