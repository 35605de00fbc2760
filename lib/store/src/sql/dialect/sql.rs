//! The statements by name, and the text of those that every engine understands.
//!
//! A batch is one JSON array. States: 1 claimed, 2 completed, 3 unknown, 4 open.

#[cfg(test)]
use crate::sql::{
    Dialect,
    tests::{Hitch, Hitched},
};

/// The columns of a record, in the order in which `row` reads them.
macro_rules! record {
    () => {
        "r.id, r.scope, r.tenant, r.subject, r.operation, r.key_text, r.class, r.state, r.epoch,
    r.nonce, r.prints, r.lease_until, r.retake_after, r.retake_until, r.expires_at, r.reuse_at,
    r.checkpoint, r.outcome, r.attempts, r.caller, r.created_at, r.completed_at, r.format"
    };
}
pub(crate) use record;

/// The members of a message, in the order in which `row` reads them.
macro_rules! letter {
    () => {
        "sequence, id, topic, key_text, payload, attempts, created_at"
    };
}
pub(crate) use letter;

/// Sets the witness that a transaction lives: it is gone if the engine broke the transaction off,
/// or if somebody ended it.
pub(crate) const WITNESS_SET: &str = "\
-- witness_set
SAVEPOINT hapax_witness";

/// Fails unless the transaction lives.
pub(crate) const WITNESS_RELEASE: &str = "\
-- witness_release
RELEASE SAVEPOINT hapax_witness";

/// Takes back what came after the witness.
pub(crate) const WITNESS_ROLLBACK: &str = "\
-- witness_rollback
ROLLBACK TO SAVEPOINT hapax_witness";

macro_rules! texts {
    ($($(#[$meaning:meta])* $name:ident $(= $text:expr)?;)+) => {
        /// The statements; those with a text are the same everywhere.
        ///
        /// A *change* is one text, sent in one round trip, which returns a row for each row that
        /// it changed: what changed something says so by its rows, never by a count. A batch of
        /// steps is bound as one JSON array of objects (`$1`), and a step's change returns id,
        /// epoch and now, a claim's also nonce, attempts, `created_at`, class and checkpoint.
        pub(crate) trait Texts {
            $($(#[$meaning])* const $name: &'static str $(= $text)?;)+
        }

        /// Every statement with its name.
        #[cfg(test)]
        pub(crate) fn all<T: Texts>() -> Vec<(&'static str, &'static str)> {
            vec![$((stringify!($name), T::$name)),+]
        }

        #[cfg(test)]
        impl<D: Dialect, H: Hitch> Texts for Hitched<D, H> {
            $(const $name: &'static str = <D as Texts>::$name;)+
        }
    };
}

texts! {
    /// The store's time.
    NOW = "\
-- now
SELECT now
FROM hapax_now";

    /// A first attempt.
    CLAIM_INSERT;
    /// A record that counts as absent, or that was given back.
    CLAIM_REUSE;
    /// A dead attempt.
    CLAIM_RETAKE;
    RENEW;
    CHECKPOINT;
    COMPLETE;
    DOUBT;
    RELEASE;
    SETTLE_COMPLETED;
    SETTLE_OPEN;

    /// The records of a JSON array of ids, each with its place and the store's time.
    LOOK;
    SCAN = concat!(
        "-- scan
SELECT ",
        record!(),
        "
FROM hapax_records AS r
WHERE r.id > $1
    AND ($4 IS NULL OR r.operation = $4)
    AND (
        $5 IS NULL
        OR ($5 = 'open' AND r.state = 4)
        OR ($5 = 'completed' AND r.state = 2 AND (r.expires_at IS NULL OR r.expires_at > $2))
        OR ($5 = 'expired' AND r.state = 2 AND r.expires_at <= $2)
    )
ORDER BY r.id
LIMIT $3"
    );
    SCAN_UNFINISHED;
    HISTORY = "\
-- history
SELECT at, epoch, event, actor, note
FROM hapax_journal
WHERE record = $1
ORDER BY sequence
LIMIT $2";
    PURGE;
    JOURNAL_PURGE;

    /// A message with a delay.
    OUTBOX_SEND;
    OUTBOX_DUE = "\
-- outbox_due
SELECT 1
FROM hapax_outbox
WHERE visible_at <= (SELECT now FROM hapax_now)
ORDER BY visible_at
LIMIT 1";
    /// A change: rows, lease and token; returns the messages.
    OUTBOX_CLAIM;
    /// A change: id and token.
    OUTBOX_ACK;
    /// A change: id, token, pause and attempts.
    OUTBOX_RETRY;
    /// A change: id, token and reason.
    OUTBOX_BURY;
    /// A change: id, actor and reason.
    OUTBOX_REPLAY;
    OUTBOX_JOURNAL = "\
-- outbox_journal
SELECT at, event, actor, reason
FROM hapax_outbox_journal
WHERE message = $1
ORDER BY sequence
LIMIT $2";
    OUTBOX_LETTER = "\
-- outbox_letter
SELECT sequence, id, topic, key_text, payload, attempts, created_at, visible_at, why
FROM hapax_outbox
WHERE id = $1";
    OUTBOX_LETTERS = "\
-- outbox_letters
SELECT sequence, id, topic, key_text, payload, attempts, created_at, visible_at, why
FROM hapax_outbox
WHERE sequence > $1
ORDER BY sequence
LIMIT $2";
    OUTBOX_BURIED = concat!(
        "-- outbox_buried
SELECT ",
        letter!(),
        ", visible_at, why
FROM hapax_outbox
WHERE visible_at IS NULL
    AND sequence > $1
ORDER BY sequence
LIMIT $2"
    );
    OUTBOX_PURGE;
    OUTBOX_JOURNAL_PURGE;
    OUTBOX_DEPTH = "\
-- outbox_depth
SELECT hapax_now.now,
    (SELECT count(*) FROM hapax_outbox WHERE visible_at IS NOT NULL),
    (SELECT count(*) FROM hapax_outbox WHERE visible_at IS NULL),
    (
        SELECT oldest.created_at
        FROM hapax_outbox AS oldest
        WHERE oldest.visible_at IS NOT NULL
        ORDER BY oldest.sequence
        LIMIT 1
    )
FROM hapax_now";

    INBOX_ONCE;
    INBOX_PURGE;

    LOCK_LOOK = "\
-- lock_look
SELECT hapax_now.now, k.owner, k.held_until
FROM hapax_now
LEFT JOIN hapax_locks AS k
    ON k.name = $1";
    /// A change: name, owner and lease; returns the fence.
    LOCK_ACQUIRE;
    /// A change: name, owner and lease; returns the fence.
    LOCK_RENEW;
    /// A change: name and owner; returns the fence.
    LOCK_RELEASE;
    LOCK_PURGE;

    TRANSITION_WRITE;
    TRANSITIONS = "\
-- transitions
SELECT at, version, from_state, to_state, event, actor
FROM hapax_transitions
WHERE kind = $1
    AND entity = $2
    AND version >= $3
ORDER BY version
LIMIT $4";

    SCHEMA_EXISTS;
    SCHEMA_APPLIED = "\
-- schema_applied
SELECT version, checksum
FROM _hapax_migrations
ORDER BY version";
}
