//! One server: one connection that all share, dialled again when it breaks.
//!
//! Invariant: what a caller is told is true. An error before anything was sent, or one with which
//! the server refused, is "surely not done"; whatever else happens after that is "perhaps"
//! (`a_step_whose_answer_is_lost_is_sent_once`, `a_server_that_is_away_has_done_nothing`).

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, RedisError, ServerErrorKind,
    Value,
    aio::{MultiplexedConnection, PubSub},
};

use super::script::Script;
use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock};

/// The longest that dialling may take: a loopback or a rack answers in milliseconds, and a
/// caller that is refused sooner can go elsewhere sooner.
const DIAL_MAX: Duration = Duration::from_secs(1);
/// Pauses between two dials of a server that does not answer: from the first to the last they
/// double. Meanwhile callers are refused at once.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A server of the store.
pub(super) struct Node {
    client: Client,
    config: AsyncConnectionConfig,
    standing: Mutex<Standing>,
    /// Whoever holds it dials; the others wait for the outcome.
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Standing {
    line: Option<Line>,
    /// How many lines there were.
    lines: u64,
    failures: u32,
    not_before: Option<Instant>,
}

#[derive(Clone)]
struct Line {
    serial: u64,
    connection: MultiplexedConnection,
}

/// Why a call has no answer.
pub(super) enum Unanswered {
    /// The key is another server's.
    Moved(String),
    /// This key may be another server's while its slot is on the way.
    Ask(String),
    /// The server does not know the script.
    Unknown,
    /// What it is to the caller. [`Kind::Unsure`]: perhaps done; any other kind: surely not.
    Failed(Error),
}

/// Whether the server is asked for a key that it is about to take over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimant {
    Owner,
    Importer,
}

impl Node {
    pub(super) fn new(info: ConnectionInfo, answer_max: Duration) -> Result<Self, Error> {
        let client = Client::open(info)
            .map_err(|cause| Error::caused(Kind::Invalid, "read the address of Redis", cause))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(DIAL_MAX))
            .set_response_timeout(Some(answer_max));
        Ok(Self { client, config, standing: Mutex::default(), dialling: Default::default() })
    }

    /// Where it is.
    pub(super) fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// Sends `call` once.
    pub(super) async fn call(&self, call: &Cmd, as_: Claimant) -> Result<Value, Unanswered> {
        let mut line = self.line().await.map_err(Unanswered::Failed)?;
        let answer = match as_ {
            Claimant::Owner => line.connection.send_packed_command(call).await,
            Claimant::Importer => {
                let mut both = redis::pipe();
                both.cmd("ASKING").add_command(call.clone());
                let answers = line.connection.send_packed_commands(&both, 1, 1).await;
                answers.map(|mut answers| answers.pop().unwrap_or(Value::Nil))
            }
        };
        answer.and_then(Value::extract_error).map_err(|cause| {
            if cause.code().is_none() || cause.kind() == READ_ONLY {
                // Broken, or in doubt, or a master that has become a replica: dialled anew it may
                // be the one that we mean.
                self.hang_up(line.serial);
            }
            unanswered(cause)
        })
    }

    /// Sends a command that may be sent again.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, Error> {
        self.call(command, Claimant::Owner).await.map_err(Unanswered::into_error)
    }

    /// Teaches the server a script.
    pub(super) async fn load(&self, script: &Script) -> Result<(), Error> {
        tracing::debug!(script = script.name, "the server learns a script");
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&script.text);
        self.ask(&load).await.map(drop)
    }

    /// A connection of its own that hears what is published.
    pub(super) async fn listen(&self, channel: &str) -> Result<PubSub, Error> {
        let dial = async {
            let mut ear = self.client.get_async_pubsub().await?;
            ear.subscribe(channel).await?;
            Ok(ear)
        };
        // A connection that was not finished is closed with its future.
        let dialled = match select(pin!(dial), SystemClock.sleep(DIAL_MAX)).await {
            Either::Left((dialled, _)) => dialled,
            Either::Right(_) => return Err(Error::new(Kind::Unavailable, "listen to Redis")),
        };
        dialled.map_err(|cause: RedisError| away("listen to Redis", cause))
    }

    /// Every change under this lock is complete when it is let go.
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn line(&self) -> Result<Line, Error> {
        if let Some(line) = &self.standing().line {
            return Ok(line.clone());
        }
        let _dialling = self.dialling.lock().await;
        let not_before = match &*self.standing() {
            Standing { line: Some(line), .. } => return Ok(line.clone()),
            standing => standing.not_before,
        };
        if not_before.is_some_and(|moment| SystemClock.now() < moment) {
            return Err(Error::new(Kind::Unavailable, "dial Redis, which was not there just now"));
        }
        match self.client.get_multiplexed_async_connection_with_config(&self.config).await {
            Ok(connection) => Ok(self.standing().gained(connection)),
            Err(cause) => {
                self.standing().failed();
                Err(away("dial Redis", cause))
            }
        }
    }

    /// Lets a line go that is broken or in doubt. What is under way on it is still answered.
    fn hang_up(&self, serial: u64) {
        let mut standing = self.standing();
        if standing.line.as_ref().is_some_and(|line| line.serial == serial) {
            standing.line = None;
        }
    }
}

impl Standing {
    fn gained(&mut self, connection: MultiplexedConnection) -> Line {
        self.lines += 1;
        self.failures = 0;
        self.not_before = None;
        let line = Line { serial: self.lines, connection };
        self.line = Some(line.clone());
        line
    }

    fn failed(&mut self) {
        let pause = PAUSE_MIN * 2_u32.saturating_pow(std::cmp::min(self.failures, 16));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(SystemClock.now() + std::cmp::min(pause, PAUSE_MAX));
    }
}

const READ_ONLY: ErrorKind = ErrorKind::Server(ServerErrorKind::ReadOnly);

/// Nothing was sent.
fn away(op: &'static str, cause: RedisError) -> Error {
    let is_refused = cause.kind() == ErrorKind::AuthenticationFailed;
    let kind = if is_refused { Kind::Refused } else { Kind::Unavailable };
    Error::caused(kind, op, cause)
}

/// What an error after sending means.
fn unanswered(cause: RedisError) -> Unanswered {
    let redirected = cause.redirect_node().map(|(address, _)| address.to_owned());
    match (cause.kind(), redirected) {
        (ErrorKind::Server(ServerErrorKind::Moved), Some(address)) => Unanswered::Moved(address),
        (ErrorKind::Server(ServerErrorKind::Ask), Some(address)) => Unanswered::Ask(address),
        (ErrorKind::Server(ServerErrorKind::NoScript), _) => Unanswered::Unknown,
        _ => Unanswered::Failed(Error::caused(fate(&cause), "call Redis", cause)),
    }
}

/// With these words a server refuses a script before it begins. Everything else may have come
/// from within it.
fn fate(cause: &RedisError) -> Kind {
    match cause.code() {
        Some("OOM") => Kind::Full,
        Some(
            "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
            | "READONLY" | "TRYAGAIN",
        ) => Kind::Unavailable,
        Some("NOAUTH") => Kind::Refused,
        // All scripts read the key before they write.
        Some("WRONGTYPE") => Kind::Corrupt,
        Some(_) | None => Kind::Unsure,
    }
}

impl Unanswered {
    /// For what may be asked again: nothing of it is in doubt.
    fn into_error(self) -> Error {
        match self {
            Self::Failed(error) if error.kind() == Kind::Unsure => {
                Error::caused(Kind::Unavailable, "ask Redis", error)
            }
            Self::Failed(error) => error,
            Self::Moved(_) | Self::Ask(_) | Self::Unknown => {
                Error::new(Kind::Unavailable, "ask Redis, which sends us elsewhere")
            }
        }
    }
}
