//! Where servers live: one directory below the system's directory for throw-away files.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::geteuid;

use crate::process;

/// Bytes of chance in a name: no two directories meet.
const CHANCE_BYTES: usize = 8;

/// A directory without a process that is older than this is nobody's; a younger one may just be
/// on its way to its process.
const OLD: Duration = Duration::from_secs(600);

/// The directory of this user's servers, locks and ports.
///
/// Servers run as other accounts and must be able to enter it; nobody else may write there.
pub(crate) fn root() -> Result<PathBuf> {
    let user = geteuid().as_raw();
    let root = std::env::temp_dir().join(format!("hapax-testkit-{user}"));
    make(&root)?;
    let owner = fs::symlink_metadata(&root).context("the directory of the servers")?.uid();
    ensure!(owner == user, "{} belongs to somebody else: remove it", root.display());
    Ok(root)
}

/// A directory that others may enter; it may be there already.
pub(crate) fn make(dir: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("failed to make {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// A new directory in `parent` that only its owner may enter.
pub(crate) fn fresh(parent: &Path, begin: &str) -> Result<PathBuf> {
    let dir = parent.join(format!("{begin}-{}", chance()?));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("failed to make {}", dir.display()))?;
    Ok(dir)
}

/// Removes directories in `parent` that a killed guardian left: no process names them.
pub(crate) fn sweep(parent: &Path, begin: &str) -> Result<()> {
    let lines = process::command_lines()?;
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let named = || lines.iter().any(|line| line.contains(&*path.to_string_lossy()));
        let changed = entry.metadata().and_then(|found| found.modified()).ok();
        let is_old = || changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > OLD);
        if entry.file_name().to_string_lossy().starts_with(begin) && is_old() && !named() {
            // Somebody else may be at it too.
            drop(fs::remove_dir_all(&path));
        }
    }
    Ok(())
}

/// A file for locks: opened, made if it is missing, never emptied.
pub(crate) fn lock_file(path: &Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("failed to open {}", path.display()))
}

/// A word that nobody else has, in hexadecimal.
pub(crate) fn chance() -> Result<String> {
    let mut bytes = [0; CHANCE_BYTES];
    getrandom::fill(&mut bytes).context("the operating system gives no randomness")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A shell program without its comments: it is shown where processes are listed.
pub(crate) fn program(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}
