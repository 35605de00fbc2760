//! One database for each test.

use std::{fmt, thread};

use anyhow::{Context as _, Result};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection};

use crate::{
    engine::{Engine, MariaDbEngine, PostgresEngine},
    place,
    server::blocking,
    shared::Shared,
};

/// A database that nobody else uses; dropped with this.
pub struct Database {
    name: String,
    kind: Kind,
    admin_url: String,
    url: String,
    _server: Box<dyn Send + Sync>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Postgres,
    MySql,
}

/// A new, empty database in the PostgreSQL of this run.
///
/// # Errors
///
/// Fails with one sentence and the end of the server's log if the server cannot be started.
pub async fn postgres() -> Result<Database> {
    shared::<PostgresEngine>(Kind::Postgres).await
}

/// A new, empty database in the MariaDB of this run.
///
/// # Errors
///
/// Fails with one sentence and the end of the server's log if the server cannot be started.
pub async fn mariadb() -> Result<Database> {
    shared::<MariaDbEngine>(Kind::MySql).await
}

async fn shared<E: Engine>(kind: Kind) -> Result<Database> {
    let server = blocking(Shared::<E>::hold).await?;
    let url = server.url().to_owned();
    Database::create(kind, url, Box::new(server)).await
}

impl Database {
    /// A new, empty database in the server of an administrator's URL (`postgres://` or `mysql://`).
    ///
    /// # Errors
    ///
    /// Fails if the server does not answer or does not let this account make databases.
    pub async fn on(admin_url: &str) -> Result<Self> {
        let kind = if admin_url.starts_with("mysql:") { Kind::MySql } else { Kind::Postgres };
        Self::create(kind, admin_url.to_owned(), Box::new(())).await
    }

    async fn create(kind: Kind, admin_url: String, server: Box<dyn Send + Sync>) -> Result<Self> {
        let name = format!("test_{}", place::chance()?);
        let url = with_database(&admin_url, &name).context("an URL without a host")?;
        execute(kind, &admin_url, &format!("CREATE DATABASE {name}"))
            .await
            .context("failed to make a test's database")?;
        Ok(Self { name, kind, admin_url, url, _server: server })
    }

    /// Where the database is, with an account that may do anything in it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name in the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let statement = match self.kind {
            // Sessions of tasks that a test left running end with it.
            Kind::Postgres => format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
            Kind::MySql => format!("DROP DATABASE IF EXISTS {}", self.name),
        };
        let (kind, url) = (self.kind, self.admin_url.clone());
        // A thread, since a drop may happen on a runtime that cannot wait. What it cannot remove
        // goes with the server.
        let gone = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            drop(runtime.map(|runtime| runtime.block_on(execute(kind, &url, &statement))));
        });
        drop(gone.join());
    }
}

async fn execute(kind: Kind, url: &str, statement: &str) -> Result<()> {
    // A name of ours: hexadecimal digits.
    let statement = AssertSqlSafe(statement.to_owned());
    match kind {
        Kind::Postgres => {
            let mut connection = PgConnection::connect(url).await?;
            connection.execute(statement).await?;
            connection.close().await?;
        }
        Kind::MySql => {
            let mut connection = MySqlConnection::connect(url).await?;
            connection.execute(statement).await?;
            connection.close().await?;
        }
    }
    Ok(())
}

/// The URL with another database.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, format!("?{query}")),
        None => (url, String::new()),
    };
    let (scheme, rest) = base.split_once("://")?;
    let host = rest.split('/').next()?;
    Some(format!("{scheme}://{host}/{name}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_takes_the_place_of_the_administrators() {
        for (url, expected) in [
            ("postgres://hapax@127.0.0.1:1/postgres", "postgres://hapax@127.0.0.1:1/x"),
            ("mysql://a:b@host:1", "mysql://a:b@host:1/x"),
            ("mysql://a:b@host/y?ssl-mode=DISABLED", "mysql://a:b@host/x?ssl-mode=DISABLED"),
        ] {
            assert_eq!(with_database(url, "x").unwrap(), expected);
        }
        assert_eq!(with_database("nonsense", "x"), None);
    }
}
