#![doc = include_str!("../README.md")]
#![warn(clippy::wildcard_enum_match_arm, clippy::float_arithmetic, clippy::exhaustive_enums)]

mod error;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sql")]
mod sql;

pub use self::error::{Error, Kind};
#[cfg(feature = "sql")]
pub use self::sql::{
    Dialect, End, Handling, Joined, Migration, Moved, Old, Opening, Sealed, Sql, Tx, Unsealed,
};
#[cfg(feature = "mysql")]
pub use self::sql::{MySql, MySqlStore};
#[cfg(feature = "postgres")]
pub use self::sql::{Postgres, PostgresStore};
#[cfg(feature = "sqlite")]
pub use self::sql::{Sqlite, SqliteStore};
