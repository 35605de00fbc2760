//! A shop on disk: its configuration, its secrets and its database.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

const CONFIG: &str = r#"
listen = "127.0.0.1:0"
database = "sqlite:hapax.db"

[tokens]
secret_file = "tokens.secret"

[[tenants]]
name = "shop"
api_key_file = "shop.api-key"
"#;
const TOKEN_SECRET: &str = "9c1f0a6e2b7d48f35e90c4a18d6273bf0e5a9d3c7f1b2468ace013579bdf8642";
const API_KEY: &str = "51e8b0c7f2a94d36a0c95b7e14d8f326c7a1e0b5d9f84263b7c0a5e1f9d83624";

/// The database of a shop that has been open for a while.
const BOOKS: &str = include_str!("books.sql");

pub(crate) struct Stage {
    home: TempDir,
}

/// What the executable said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The document of a verb that ended well.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// The one sentence of a verb that did not.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, word: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(word), "{word:?} is not in {self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
    }
}

impl Stage {
    /// A configuration and no database.
    pub(crate) fn bare() -> Self {
        let stage = Self { home: tempfile::tempdir().unwrap() };
        fs::write(stage.path("hapax.toml"), CONFIG).unwrap();
        for (file, secret) in [("tokens.secret", TOKEN_SECRET), ("shop.api-key", API_KEY)] {
            fs::write(stage.path(file), secret).unwrap();
            fs::set_permissions(stage.path(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
        stage
    }

    /// An empty database.
    pub(crate) fn empty() -> Self {
        let stage = Self::bare();
        let made = stage.hapax(&["migrate", "up"]);
        assert_eq!(made.code, 0, "{made:?}");
        stage
    }

    /// A database of a shop that has been open for a while.
    pub(crate) async fn open() -> Self {
        let stage = Self::empty();
        stage.run(BOOKS).await;
        stage
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.home.path().join(file)
    }

    /// The executable in the shop's directory, as an operator's shell would start it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command
            .args(args)
            .current_dir(self.home.path())
            .env_clear()
            .env("USER", "ann")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn hapax(&self, args: &[&str]) -> Said {
        said(self.command(args).output().unwrap())
    }

    /// The same on a terminal, where somebody types.
    pub(crate) fn on_terminal(&self, args: &[&str], typed: &str) -> Said {
        let line = [&[env!("CARGO_BIN_EXE_hapax")], args].concat().join(" ");
        let mut terminal = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .current_dir(self.home.path())
            .env_clear()
            .env("USER", "ann")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        terminal.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        said(terminal.wait_with_output().unwrap())
    }

    /// A connection of somebody else.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path("hapax.db"));
        options.foreign_keys(false).connect().await.unwrap()
    }

    /// Runs statements past all rules.
    pub(crate) async fn run(&self, sql: &'static str) {
        let mut conn = self.connect().await;
        sqlx::raw_sql("PRAGMA ignore_check_constraints = ON").execute(&mut conn).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
        sqlx::Connection::close(conn).await.unwrap();
    }
}

pub(crate) fn said(output: std::process::Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
