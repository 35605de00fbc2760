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
    Dialect, End, Handling, Joined, Migration, Moved, Old, Opening, Sealed, Sql, Sqlite,
    SqliteStore, Tx, Unsealed,
};
