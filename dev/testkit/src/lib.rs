#![doc = include_str!("../README.md")]

mod clock;
#[cfg(feature = "tests")]
mod cluster;
#[cfg(feature = "tests")]
mod database;
pub mod engine;
mod package;
mod place;
mod port;
mod process;
#[cfg(feature = "tests")]
pub mod proxy;
mod resp;
#[cfg(feature = "tests")]
mod server;
pub mod shared;
mod topology;
#[cfg(feature = "tests")]
mod whole;

pub use crate::process::is_running;
#[cfg(feature = "tests")]
pub use crate::{
    cluster::{RedisCluster, redis_cluster},
    database::{Database, mariadb, postgres},
    proxy::Proxy,
    server::Server,
};

/// A private PostgreSQL.
#[cfg(feature = "tests")]
pub type Postgres = Server<engine::PostgresEngine>;
/// A private MariaDB.
#[cfg(feature = "tests")]
pub type MariaDb = Server<engine::MariaDbEngine>;
/// A private Redis.
#[cfg(feature = "tests")]
pub type Redis = Server<engine::RedisEngine>;

/// A Redis of the test's own: empty, durable, gone when dropped.
///
/// Scripts, functions, configuration and FLUSHALL belong to a whole server, and it starts in some
/// milliseconds: one for each test is simpler than names that keep tests apart.
///
/// # Errors
///
/// Fails with one sentence and the end of the server's log if it cannot be started.
#[cfg(feature = "tests")]
pub async fn redis() -> anyhow::Result<Redis> {
    Redis::start().await
}
