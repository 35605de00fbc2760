#![doc = include_str!("../README.md")]

pub use hapax_core::*;
/// The HTTP side: a tower layer, axum extractors, problem details and faithful replay.
#[cfg(feature = "axum")]
pub use hapax_http as http;
/// SQL stores, the same-transaction mode, outbox, inbox and locks in your own database.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use hapax_store as sql;
/// The store and the locks in Redis or Valkey: best effort, and called so.
#[cfg(feature = "redis")]
pub use hapax_store::redis;
/// Where the outbox sends.
#[cfg(feature = "webhook")]
pub use hapax_transport as transport;

/// The project's first page is compiled like every other example.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../README.md")]
struct FirstPage;
