//! A server of one test's own, which the test may hurt.
//!
//! Invariant: no server outlives the process that started it, nor its handle; held by
//! `a_dropped_server_is_gone` and `a_killed_test_leaves_no_server`.

use std::{
    io::Write as _,
    marker::PhantomData,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    clock,
    engine::{Engine, Home},
    package, place,
    port::Port,
    process,
    shared::START_LIMIT,
    whole,
};

/// The guardian.
const WATCH: &str = include_str!("watch.sh");

/// A private server: its directory, its port, and its process while it runs.
///
/// Everything that is acknowledged is on disk. Dropping the handle ends the server and removes its
/// directory.
#[derive(Debug)]
pub struct Server<E: Engine> {
    inner: Arc<Inner<E>>,
}

#[derive(Debug)]
struct Inner<E: Engine> {
    home: Home,
    line: Vec<String>,
    process: Mutex<Option<Child>>,
    guardian: Guardian,
    _port: Port,
    engine: PhantomData<E>,
}

impl<E: Engine> Server<E> {
    /// Starts a server in a new directory on a free port.
    ///
    /// # Errors
    ///
    /// Fails with the end of the server's log if it does not answer.
    pub async fn start() -> Result<Self> {
        Self::with(&[]).await
    }

    /// As [`start`](Self::start), with settings of the server's own: name and value.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(owned).collect();
        blocking(move || Self::launch(Port::take()?, &settings)).await
    }

    /// Starts a server on a port that was taken for it; blocks.
    pub(crate) fn launch(port: Port, settings: &[(String, String)]) -> Result<Self> {
        Ok(Self { inner: Arc::new(Inner::start(port, settings)?) })
    }

    /// Where it listens, as an administrator, also while it does not run.
    #[must_use]
    pub fn url(&self) -> String {
        E::url(self.port())
    }

    /// The port on 127.0.0.1 that it keeps for life.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.inner.home.port
    }

    /// The number of its first process, or `None` after a kill.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.inner.process().as_ref().map(Child::id)
    }

    /// Its directory: data and log.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.inner.home.dir
    }

    /// The end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        process::tail(&self.inner.home.log())
    }

    /// Kills all its processes at once with SIGKILL and returns when they are gone.
    ///
    /// # Errors
    ///
    /// Fails if it does not run.
    pub async fn kill(&self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.kill()).await
    }

    /// Starts it again on its directory and port; kills it first if it runs.
    ///
    /// # Errors
    ///
    /// Fails with the end of the server's log if it does not answer.
    pub async fn restart(&self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            if inner.process().is_some() {
                inner.kill()?;
            }
            inner.launch()
        })
        .await
    }

    /// Holds all its processes with SIGSTOP: connections stay, nothing answers.
    ///
    /// # Errors
    ///
    /// Fails if it does not run.
    pub fn stop(&self) -> Result<()> {
        whole::stop(self.pid().context("it does not run")?)?;
        Ok(())
    }

    /// Lets it go on after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// Fails if it does not run.
    pub fn cont(&self) -> Result<()> {
        whole::cont(self.pid().context("it does not run")?)?;
        Ok(())
    }
}

impl<E: Engine> Inner<E> {
    fn start(port: Port, settings: &[(String, String)]) -> Result<Self> {
        let programs = package::need(E::NAME, E::PACKAGE, E::programs)?;
        let private = place::root()?.join("private");
        place::make(&private)?;
        let home = Home { dir: place::fresh(&private, E::SLUG)?, port: port.number };
        // From here on the directory has somebody who removes it.
        let guardian = Guardian::of::<E>(&home.dir)?;
        let line = home.settle::<E>(&programs, settings)?;
        let started = Self {
            home,
            line,
            process: Mutex::new(None),
            guardian,
            _port: port,
            engine: PhantomData,
        };
        started.launch()?;
        Ok(started)
    }

    fn launch(&self) -> Result<()> {
        let log = self.home.open_log()?;
        let child = process::command(&self.line, &self.home.dir)?
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("failed to share a log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to start {}", E::NAME))?;
        self.guardian.tell(&child.id().to_string())?;
        *self.process() = Some(child);
        clock::wait_for(&format!("the start of {}", E::NAME), START_LIMIT, || {
            let mut process = self.process();
            let child = process.as_mut().with_context(|| format!("{} was killed", E::NAME))?;
            if let Some(status) = child.try_wait().context("failed to ask for a process")? {
                bail!("{} ended with {status}", E::NAME);
            }
            let pid = child.id();
            drop(process);
            Ok(E::is_ready(&self.home, pid).then_some(()))
        })
        .with_context(|| process::tail(&self.home.log()))
    }

    fn kill(&self) -> Result<()> {
        let mut child = self.process().take().context("it does not run")?;
        let children = whole::kill(child.id())?;
        self.bury(&mut child, &children)
    }

    /// Ends it in the way that leaves nothing behind.
    fn end(&self) -> Result<()> {
        let Some(mut child) = self.process().take() else { return Ok(()) };
        let children = whole::end(child.id(), E::END)?;
        self.bury(&mut child, &children)
    }

    /// Waits until all of them are gone.
    fn bury(&self, child: &mut Child, children: &[u32]) -> Result<()> {
        child.wait().context("failed to wait for a process")?;
        self.guardian.tell("")?;
        children.iter().copied().try_for_each(whole::wait_end)
    }

    /// A panic elsewhere leaves the process as it is.
    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Engine> Drop for Inner<E> {
    fn drop(&mut self) {
        // The guardian ends what we could not.
        drop(self.end());
    }
}

/// Ends the server if this process is killed; removes the directory in any case.
#[derive(Debug)]
struct Guardian {
    process: Mutex<Child>,
    ear: Mutex<Option<ChildStdin>>,
}

impl Guardian {
    fn of<E: Engine>(dir: &PathBuf) -> Result<Self> {
        let mut process = Command::new("sh")
            .args(["-c", &place::program(WATCH), "watch.sh"])
            .arg(dir)
            .arg(E::END.as_raw().to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start the guardian of a server")?;
        let ear = process.stdin.take();
        Ok(Self { process: Mutex::new(process), ear: Mutex::new(ear) })
    }

    fn tell(&self, pid: &str) -> Result<()> {
        let mut ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        let ear = ear.as_mut().context("the guardian of a server is gone")?;
        writeln!(ear, "{pid}").context("the guardian of a server is gone")
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.ear.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        // It removes the directory and ends; there is nobody to tell if it cannot.
        drop(process.wait());
    }
}

/// Runs `work`, which waits for processes, beside the tests' own tasks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work of the testkit did not end")?
}
