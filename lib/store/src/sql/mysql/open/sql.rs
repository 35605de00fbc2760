//! What a session is told before it is used, and what a server is asked before it is trusted.

/// A session that takes steps: others hold a lock for the length of a seal.
pub(super) const STEPS_SESSION: &str = "\
-- steps_session
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION innodb_lock_wait_timeout = 1,
    SESSION group_concat_max_len = 1048576,
    SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')";

/// A session of business transactions: what follows a transaction that the engine broke off
/// commits nothing by itself.
pub(super) const BUSINESS_SESSION: &str = "\
-- business_session
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION autocommit = 0,
    SESSION innodb_lock_wait_timeout = 10,
    SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')";

pub(super) const READERS_SESSION: &str = "\
-- readers_session
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY";

/// What cannot hold the guarantee: settings of the server.
pub(super) const SETTINGS: &str = "\
-- settings
SELECT VERSION(),
    CAST(@@innodb_flush_log_at_trx_commit AS SIGNED),
    CAST(@@read_only AS SIGNED),
    CAST(@@max_allowed_packet AS SIGNED)";
