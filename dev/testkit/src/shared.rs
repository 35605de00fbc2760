//! Servers that all test processes of a run share.
//!
//! Invariant: a server that somebody holds is not ended, and one that nobody holds for some seconds
//! is; held by `two_processes_share_a_server_and_leave_none`.
//!
//! The first process starts the server under a lock and leaves it to a guardian, a small shell
//! program. Every user holds a shared lock on a file for as long as it lives. Nobody has to clean
//! up: the kernel lets go of the lock when a process is killed, and the guardian sees it.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    marker::PhantomData,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    clock,
    engine::{Engine, Home, RedisEngine},
    package, place,
    port::Port,
    process,
    topology::{self, NODES},
};

/// The guardian.
const KEEP: &str = include_str!("keep.sh");
/// A server that nobody used for so long is ended. Longer than the gap between two tests, short
/// enough that nobody finds servers after a run.
const IDLE_SECONDS: u32 = 5;
/// A first start makes a data directory; a loaded machine with a cold disk takes some seconds.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// A server of this run; while this lives, it lives.
#[derive(Debug)]
pub struct Shared<E> {
    url: String,
    // Empty: the server is the user's own.
    _hold: Vec<File>,
    engine: PhantomData<E>,
}

impl<E: Engine> Shared<E> {
    /// Finds the server of this run or starts it, and keeps it.
    ///
    /// With `HAPAX_TEST_POSTGRES` (`_MARIADB`, `_REDIS`) set, it is the server of that URL. Blocks
    /// for some milliseconds, or for some seconds if the server has to be started.
    ///
    /// # Errors
    ///
    /// Fails with one sentence and the end of the server's log if it cannot be started.
    pub fn hold() -> Result<Self> {
        let (url, hold) = match std::env::var(E::VARIABLE) {
            Ok(url) => (url, Vec::new()),
            Err(_) => keep(E::SLUG, 1, |house| house.start::<E>(&[]).map(E::url))
                .with_context(|| format!("failed to share {}", E::NAME))?,
        };
        Ok(Self { url, _hold: hold, engine: PhantomData })
    }

    /// Where it listens, as an administrator.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The Redis Cluster of this run; while this lives, it lives.
#[derive(Debug)]
pub struct SharedCluster {
    urls: Vec<String>,
    _hold: Vec<File>,
}

impl SharedCluster {
    /// The variable that names the nodes of a cluster of the user's own, with commas between them.
    pub const VARIABLE: &str = "HAPAX_TEST_REDIS_CLUSTER";

    /// Finds the cluster of this run or starts it, and keeps it; blocks as [`Shared::hold`].
    ///
    /// # Errors
    ///
    /// As [`Shared::hold`].
    pub fn hold() -> Result<Self> {
        let (urls, hold) = match std::env::var(Self::VARIABLE) {
            Ok(urls) => (urls, Vec::new()),
            Err(_) => keep("redis-cluster", NODES, |house| {
                let settings = topology::settings();
                let start = |_| house.start::<RedisEngine>(&settings);
                let ports = (0..NODES).map(start).collect::<Result<Vec<u16>>>()?;
                topology::join(&ports)?;
                let urls: Vec<String> = ports.into_iter().map(RedisEngine::url).collect();
                Ok(urls.join(","))
            })
            .context("failed to share a Redis Cluster")?,
        };
        Ok(Self { urls: urls.split(',').map(str::to_owned).collect(), _hold: hold })
    }

    /// Where a client begins: all nodes.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }
}

/// Where one kind of shared server is kept, while its start is locked.
struct House {
    dir: PathBuf,
    /// A file for each server whose lock keeps it: guardians would disturb each other at one.
    used: Vec<PathBuf>,
    /// Directories of the servers that were started.
    runs: Vec<PathBuf>,
}

/// Finds the servers that `start` started, or starts them; returns their URL and what keeps them.
fn keep(
    slug: &str,
    servers: usize,
    start: impl FnOnce(&mut House) -> Result<String>,
) -> Result<(String, Vec<File>)> {
    let dir = place::root()?.join(format!("{slug}-{}", generation()));
    place::make(&dir)?;
    let used: Vec<PathBuf> = (0..servers).map(|at| dir.join(format!("used-{at}"))).collect();
    let mut hold = Vec::new();
    for path in &used {
        let file = place::lock_file(path)?;
        file.lock_shared().context("failed to lock a shared server")?;
        hold.push(file);
    }
    if let Some(url) = running(&dir) {
        return Ok((url, hold));
    }
    let starting = place::lock_file(&dir.join("start"))?;
    starting.lock().context("failed to lock the start of a shared server")?;
    if let Some(url) = running(&dir) {
        return Ok((url, hold));
    }
    place::sweep(&dir, "run-")?;
    place::sweep(&place::root()?.join("private"), "")?;
    let mut house = House { dir: dir.clone(), used, runs: Vec::new() };
    let url = start(&mut house)?;
    let lines = house.runs.iter().map(|run| format!("\n{}", run.display())).collect::<String>();
    let (new, current) = (dir.join("current.new"), dir.join("current"));
    fs::write(&new, format!("{url}{lines}")).context("failed to tell where a server listens")?;
    fs::rename(new, current).context("failed to tell where a server listens")?;
    Ok((url, hold))
}

impl House {
    /// Starts one server under a guardian and waits until it answers.
    fn start<E: Engine>(&mut self, settings: &[(String, String)]) -> Result<u16> {
        let programs = package::need(E::NAME, E::PACKAGE, E::programs)?;
        let port = Port::take()?;
        let home = Home { dir: place::fresh(&self.dir, "run")?, port: port.number };
        let line = home.settle::<E>(&programs, settings)?;
        self.guard(&home, E::END.as_raw(), &line)?;
        let limit = format!("the start of {}", E::NAME);
        clock::wait_for(&limit, START_LIMIT, || {
            // The guardian writes the number once it has started the server.
            let Some(pid) = pid_of(&home.dir) else { return Ok(None) };
            ensure!(process::is_running(pid), "{} ended at its start", E::NAME);
            Ok(E::is_ready(&home, pid).then_some(()))
        })
        .with_context(|| process::tail(&home.log()))?;
        self.runs.push(home.dir);
        Ok(port.number)
    }

    /// Leaves a server to a guardian that survives us.
    fn guard(&self, home: &Home, end: i32, line: &[String]) -> Result<()> {
        let log = home.open_log()?;
        let used = self.used.get(self.runs.len()).context("more servers than locks")?;
        // The kernel ends the server if somebody ends the guardian.
        let tied = ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned);
        let mut guardian = Command::new("sh");
        guardian
            .args(["-c", &place::program(KEEP), "keep.sh"])
            .args([&home.dir, used])
            .args([IDLE_SECONDS.to_string(), end.to_string()])
            .args(tied.iter().chain(line))
            .current_dir(&home.dir)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("failed to share a log")?)
            .stderr(log);
        // Nobody waits for it: it outlives this process.
        drop(guardian.spawn().context("failed to start the guardian of a server")?);
        Ok(())
    }
}

/// The URL in `current`, if all servers that it names run.
fn running(dir: &Path) -> Option<String> {
    let current = fs::read_to_string(dir.join("current")).ok()?;
    let mut lines = current.lines();
    let url = lines.next()?.to_owned();
    let runs: Vec<PathBuf> = lines.map(PathBuf::from).collect();
    let all =
        runs.iter().all(|run| pid_of(run).is_some_and(|pid| process::is_running_with(pid, run)));
    all.then_some(url)
}

fn pid_of(run: &Path) -> Option<u32> {
    fs::read_to_string(run.join("pid")).ok()?.trim().parse().ok()
}

/// Testkits that start their servers differently share none: their sources differ.
fn generation() -> String {
    let mut hash = DefaultHasher::new();
    let sources = [
        include_str!("engine/mariadb.rs"),
        include_str!("engine/postgres.rs"),
        include_str!("engine/redis.rs"),
        include_str!("shared.rs"),
        include_str!("topology.rs"),
        KEEP,
    ];
    sources.hash(&mut hash);
    format!("{:016x}", hash.finish())
}
