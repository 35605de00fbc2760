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

use super::{SCRIPTS, Sqlite};
use crate::{
    error::{Error, Kind},
    sql::{
        fate::Fate,
        gate::Gate,
        migrate::{self, Migration},
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
/// Connections that read. Two cores gain nothing from more, and none of them ever waits.
const READERS: u32 = 4;
/// The longest that a business transaction may hold the only writer: half of a default lease is
/// more, and everybody else waits meanwhile.
const HOLD_MAX: Duration = Duration::from_secs(5);
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

    /// Looks whether the schema is still that of this build; another build may have changed it.
    ///
    /// # Errors
    /// [`Kind::Schema`] if it is not, and those of the database.
    pub async fn check_schema(&self) -> Result<(), Error> {
        let steps = migrate::list::<Sqlite>(self.readers(), SCRIPTS).await?;
        match steps.iter().find(|step| !step.is_applied) {
            None => Ok(()),
            Some(missing) => Err(migrate::Mismatch::Older(missing.version).into()),
        }
    }

    /// Names the file at `path`, to open it otherwise than by default.
    pub fn at(path: impl AsRef<Path>) -> Opening {
        Opening {
            path: path.as_ref().to_owned(),
            readers: READERS,
            hold_max: HOLD_MAX,
            wait_max: ACQUIRE_TIMEOUT,
        }
    }
}

/// A SQLite file that is about to be opened.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is opened"]
pub struct Opening {
    path: PathBuf,
    readers: u32,
    hold_max: Duration,
    wait_max: Duration,
}

impl Opening {
    /// How many connections read at once; 4 by default.
    pub fn readers(self, readers: u32) -> Self {
        Self { readers, ..self }
    }

    /// The longest that a business transaction may hold the writer; 5 s by default.
    pub fn hold_max(self, hold_max: Duration) -> Self {
        Self { hold_max, ..self }
    }

    /// The longest that a business transaction waits for its turn; 30 s by default.
    pub fn wait_max(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }

    /// Opens the file, makes it if it is missing, and brings its schema up.
    ///
    /// # Errors
    /// Those of [`Sql::open`].
    pub async fn open(&self) -> Result<SqliteStore, Error> {
        let writer = self.writer().await?;
        let is_current = migrate::list::<Sqlite>(&writer, SCRIPTS)
            .await?
            .iter()
            .all(|migration| migration.is_applied);
        if !is_current {
            migrate::up::<Sqlite>(&writer, &migrate::migrator(SCRIPTS)).await?;
        }
        let readers =
            pool(self.readers).connect_lazy_with(self.options().pragma("query_only", "ON"));
        Ok(Sql::new(writer, readers, Gate::new(self.wait_max), self.hold_max))
    }

    /// The steps of the schema, and which of them the file has. Writes nothing.
    ///
    /// # Errors
    /// Those of [`Sql::open`].
    pub async fn migrations(&self) -> Result<Vec<Migration>, Error> {
        self.check()?;
        if !self.path.exists() {
            let pending = |script: &migrate::Script| Migration {
                version: script.version,
                name: script.name,
                sql: script.up,
                is_applied: false,
            };
            return Ok(SCRIPTS.iter().map(pending).collect());
        }
        let pool = pool(1).connect_lazy_with(self.options().pragma("query_only", "ON"));
        let migrations = migrate::list::<Sqlite>(&pool, SCRIPTS).await;
        pool.close().await;
        migrations
    }

    /// Brings the schema up and says what was missing.
    ///
    /// # Errors
    /// Those of [`Sql::open`].
    pub async fn migrate(&self) -> Result<Vec<Migration>, Error> {
        let writer = self.writer().await?;
        let before = migrate::list::<Sqlite>(&writer, SCRIPTS).await?;
        let migrated = migrate::up::<Sqlite>(&writer, &migrate::migrator(SCRIPTS)).await;
        writer.close().await;
        migrated?;
        let missing = before.into_iter().filter(|migration| !migration.is_applied);
        Ok(missing.map(|migration| Migration { is_applied: true, ..migration }).collect())
    }

    /// Takes back every step after `version`, **with all that its tables hold**.
    ///
    /// # Errors
    /// Those of [`Sql::open`].
    pub async fn revert(&self, version: i64) -> Result<(), Error> {
        let writer = self.writer().await?;
        let reverted = migrate::down::<Sqlite>(&writer, &migrate::migrator(SCRIPTS), version).await;
        writer.close().await;
        reverted
    }

    async fn writer(&self) -> Result<Pool<sqlx::Sqlite>, Error> {
        self.check()?;
        self.make_file()?;
        let mut conn = SqliteConnection::connect_with(&self.options())
            .await
            .map_err(|cause| Error::undone("open the database", cause))?;
        let checked = match check_version(&mut conn).await {
            Ok(()) => turn_to_wal(&mut conn).await,
            Err(error) => Err(error),
        };
        conn.close().await?;
        checked?;
        Ok(pool(1).connect_lazy_with(self.options()))
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .row_buffer_size(ROWS_AHEAD)
            .thread_name(|serial| format!("hapax-sqlite-{serial}"))
    }

    fn check(&self) -> Result<(), Error> {
        let name = self.path.to_str();
        let is_memory = |name: &str| {
            name.is_empty() || name.contains(":memory:") || name.contains("mode=memory")
        };
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

    /// Makes the file before the library does, so that nobody else may read it. The library
    /// gives its side files the same mode.
    fn make_file(&self) -> Result<(), Error> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Ok(_) => Ok(()),
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(cause) => Err(Error::caused(Kind::Unavailable, "make the database file", cause)),
        }
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
