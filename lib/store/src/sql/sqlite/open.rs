//! Opening a database file, and refusing what cannot hold the guarantee.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    Connection, Pool,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous},
};

use super::Sqlite;
use crate::{
    error::{Error, Kind},
    sql::{
        fate::Fate,
        opening::{Opening, Pools},
        store::Sql,
    },
};
use hapax_core::{Clock, Invalid, SystemClock, backoff};

/// A store in a SQLite file.
pub type SqliteStore = Sql<Sqlite>;

/// The oldest library that keeps a WAL of two processes whole: 3.51.3 repairs a lost reset.
const VERSION_MIN: (u32, u32, u32) = (3, 51, 3);
/// How long the library waits for another process's lock before it says "busy".
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a task waits for a connection: several full transactions of others.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);
/// Rows that a statement may be ahead of its reader: a whole batch, so that it never stops.
const ROWS_AHEAD: usize = 512;
/// Tries to turn a new file to WAL while another process does the same.
const WAL_TRIES: usize = 20;

impl Sql<Sqlite> {
    /// Opens the file at `path`, makes it if it is missing, and brings its schema up.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a database in memory, [`Kind::Schema`] if a newer build made the
    /// file, and those of the database.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path).open().await
    }

    /// Names the file at `path`, to open it otherwise than by default.
    pub fn at(path: impl AsRef<Path>) -> Opening<Sqlite> {
        Opening::at(path.as_ref().to_owned())
    }
}

pub(super) async fn connect(opening: &Opening<Sqlite>) -> Result<Pools<Sqlite>, Error> {
    let path = &opening.place;
    check(path)?;
    make_file(path)?;
    let mut conn = SqliteConnection::connect_with(&options(path))
        .await
        .map_err(|cause| Error::undone("open the database", cause))?;
    let checked = match check_version(&mut conn).await {
        Ok(()) => turn_to_wal(&mut conn).await,
        Err(error) => Err(error),
    };
    conn.close().await?;
    checked?;
    let writer = pool(1).connect_lazy_with(options(path));
    Ok(Pools { steps: writer.clone(), business: writer, readers: readers(opening) })
}

/// `None` if there is no file yet.
pub(super) fn connect_reader(
    opening: &Opening<Sqlite>,
) -> Result<Option<Pool<sqlx::Sqlite>>, Error> {
    check(&opening.place)?;
    Ok(opening.place.exists().then(|| readers(opening)))
}

fn readers(opening: &Opening<Sqlite>) -> Pool<sqlx::Sqlite> {
    pool(opening.readers).connect_lazy_with(options(&opening.place).pragma("query_only", "ON"))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .synchronous(SqliteSynchronous::Full)
        .row_buffer_size(ROWS_AHEAD)
        .thread_name(|serial| format!("hapax-sqlite-{serial}"))
}

fn check(path: &Path) -> Result<(), Error> {
    let name = path.to_str();
    let is_memory =
        |name: &str| name.is_empty() || name.contains(":memory:") || name.contains("mode=memory");
    if name.is_some_and(is_memory) {
        let rule = "must be a file: a database in memory is another one for each connection; \
                    use hapax_core's MemoryStore";
        return Err(Invalid::new("database", rule).into());
    }
    if name.is_none_or(|name| name.starts_with("file:") || name.starts_with("sqlite:")) {
        let rule = "must be given as a plain path in UTF-8, not as a URI";
        return Err(Invalid::new("database", rule).into());
    }
    Ok(())
}

/// Makes the file before the library does, so that nobody else may read it. The library gives
/// its side files the same mode.
fn make_file(path: &PathBuf) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(Error::caused(Kind::Unavailable, "make the database file", cause)),
    }
}

/// Connections live as long as the pool: a test before each use would cost as much as a read,
/// and a file does not go away. One that is left in a transaction is closed.
fn pool(connections: u32) -> PoolOptions<sqlx::Sqlite> {
    PoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(None)
        .idle_timeout(None)
        .test_before_acquire(false)
        .after_release(|conn: &mut SqliteConnection, _| {
            let is_free = !conn.is_in_transaction();
            Box::pin(async move { Ok(is_free) })
        })
}

async fn check_version(conn: &mut SqliteConnection) -> Result<(), Error> {
    let version: String = sqlx::query_scalar(super::sql::VERSION).fetch_one(conn).await?;
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    if (next(), next(), next()) >= VERSION_MIN {
        return Ok(());
    }
    let rule = "is older than 3.51.3, which loses commits of two processes; \
                build with the bundled library";
    Err(Error::caused(Kind::Schema, "open the database", Invalid::new("SQLite", rule)))
}

/// Turns a new file to write-ahead logging, which is kept in the file. The library does not wait
/// for another process that does the same, so we do.
async fn turn_to_wal(conn: &mut SqliteConnection) -> Result<(), Error> {
    let mut pauses = backoff(BUSY_TIMEOUT).take(WAL_TRIES);
    loop {
        let mode: Result<String, _> =
            sqlx::query_scalar(super::sql::WAL).fetch_one(&mut *conn).await;
        match (mode, pauses.next()) {
            (Ok(mode), _) if mode == "wal" => return Ok(()),
            (Ok(_), _) => {
                let rule = "cannot use a write-ahead log; put it on a local disk";
                let cause = Invalid::new("database file", rule);
                return Err(Error::caused(Kind::Schema, "open the database", cause));
            }
            (Err(cause), Some(pause)) if Fate::of(&cause) == Fate::Again => {
                SystemClock.sleep(pause).await;
            }
            (Err(cause), _) => return Err(Error::undone("open the database", cause)),
        }
    }
}
