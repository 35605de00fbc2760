//! Processes: as whom they run, who belongs to them, how they end.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use rustix::process::geteuid;

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 30;

/// The account under which a server runs that refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// `name` as the system knows it, or `None` if we are not root and run it as ourselves.
    pub(crate) fn of(name: &str) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").context("the list of accounts")?;
        let line = accounts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let mut fields = line.with_context(|| format!("no account `{name}`"))?.split(':').skip(1);
        let mut number =
            || -> Result<u32> { Ok(fields.next().context("an account without numbers")?.parse()?) };
        Ok(Some(Self { user: number()?, group: number()? }))
    }

    pub(crate) fn own(self, dir: &Path) -> Result<()> {
        chown(dir, Some(self.user), Some(self.group))
            .with_context(|| format!("failed to give {} away", dir.display()))
    }
}

/// What stands in front of a server's command line so that it runs as `account`.
pub(crate) fn as_account(account: Option<Account>) -> Vec<String> {
    account.map_or_else(Vec::new, |Account { user, group }| {
        let ids = [format!("--reuid={user}"), format!("--regid={group}")];
        ["setpriv".to_owned()].into_iter().chain(ids).chain(["--clear-groups".to_owned()]).collect()
    })
}

/// A program from its words; it runs in `dir`.
pub(crate) fn command(words: &[String], dir: &Path) -> Result<Command> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir);
    Ok(command)
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// The program in one of `dirs`, or where the shell would find it.
pub(crate) fn find(program: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let all = dirs.iter().cloned().chain(std::env::split_paths(&path)).chain(usual);
    all.map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Whether the process runs: a zombie does not.
pub fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Whether the process runs and was started with `word` on its command line.
pub(crate) fn is_running_with(pid: u32, word: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    is_running(pid) && String::from_utf8_lossy(&line).contains(&*word.to_string_lossy())
}

/// The command lines of all processes.
pub(crate) fn command_lines() -> Result<Vec<String>> {
    let lines = all()?.filter_map(|pid| fs::read(format!("/proc/{pid}/cmdline")).ok());
    Ok(lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect())
}

/// The children of a process.
#[cfg(feature = "tests")]
pub(crate) fn children(pid: u32) -> Result<Vec<u32>> {
    Ok(all()?.filter(|child| state(*child).is_some_and(|(_, parent)| parent == pid)).collect())
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let skip = text.lines().count().saturating_sub(TAIL_LINES);
    text.lines().skip(skip).collect::<Vec<_>>().join("\n")
}

/// The numbers of all processes.
fn all() -> Result<impl Iterator<Item = u32>> {
    let all = fs::read_dir("/proc").context("this needs Linux")?;
    Ok(all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// State and parent of a process, from proc(5).
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets, and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
