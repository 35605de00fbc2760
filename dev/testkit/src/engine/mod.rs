//! What differs between the servers: one file each, read side by side.

mod mariadb;
mod postgres;
mod redis;

use std::{
    fmt::Debug,
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

pub use self::{mariadb::MariaDbEngine, postgres::PostgresEngine, redis::RedisEngine};
use crate::process::{self, Account};

/// How long a server that listens may take to say its first word.
const GREETING: Duration = Duration::from_secs(2);

/// A kind of server.
pub trait Engine: Debug + Send + Sync + 'static {
    /// As people write it.
    const NAME: &'static str;
    /// As directories are called.
    const SLUG: &'static str;
    /// Debian's package.
    const PACKAGE: &'static str;
    /// Debian's account, for root.
    const ACCOUNT: Option<&'static str>;
    /// The variable that names a server of the user's own.
    const VARIABLE: &'static str;
    /// Ends a server whose data is thrown away.
    const END: Signal;

    /// The programs that it needs, if they are installed.
    fn programs() -> Option<Vec<PathBuf>>;

    /// Command lines that make an empty data directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be written or its path is not UTF-8.
    fn prepare(programs: &[PathBuf], home: &Home) -> Result<Vec<Vec<String>>>;

    /// The command line of the server, without settings of the test.
    ///
    /// # Errors
    ///
    /// Fails if the directory's path is not UTF-8.
    fn serve(programs: &[PathBuf], home: &Home) -> Result<Vec<String>>;

    /// A setting as words of the command line.
    fn setting(name: &str, value: &str) -> Vec<String>;

    /// Whether the process `pid` answers.
    fn is_ready(home: &Home, pid: u32) -> bool;

    /// Where an administrator finds it.
    fn url(port: u16) -> String;
}

/// A server's directory and port.
#[derive(Clone, Debug)]
pub struct Home {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
}

impl Home {
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The log, to append to.
    pub(crate) fn open_log(&self) -> Result<File> {
        let options = File::options().create(true).append(true).open(self.log());
        options.context("failed to open a server's log")
    }

    /// Makes the data directory and returns the command line of the server.
    pub(crate) fn settle<E: Engine>(
        &self,
        programs: &[PathBuf],
        settings: &[(String, String)],
    ) -> Result<Vec<String>> {
        let account = E::ACCOUNT.map(Account::of).transpose()?.flatten();
        if let Some(account) = account {
            account.own(&self.dir)?;
        }
        for step in E::prepare(programs, self)? {
            self.run(&[process::as_account(account), step].concat())?;
        }
        let settings = settings.iter().flat_map(|(name, value)| E::setting(name, value)).collect();
        Ok([process::as_account(account), E::serve(programs, self)?, settings].concat())
    }

    fn run(&self, words: &[String]) -> Result<()> {
        let log = self.open_log()?;
        let status = process::command(words, &self.dir)?
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("failed to share a log")?)
            .stderr(log)
            .status()
            .with_context(|| format!("failed to run `{}`", words.join(" ")))?;
        ensure!(
            status.success(),
            "`{}` ended with {status}:\n{}",
            words.join(" "),
            process::tail(&self.log())
        );
        Ok(())
    }
}

/// A path as a word of a command line.
fn word(path: &Path) -> Result<String> {
    Ok(path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// What the server says first, or after `request`.
fn greeting(port: u16, request: &[u8], limit: usize) -> Option<Vec<u8>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, GREETING).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = vec![0; limit];
    let length = stream.read(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}
