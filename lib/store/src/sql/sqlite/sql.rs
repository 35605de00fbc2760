//! Every statement, as SQLite speaks it.
//!
//! A batch is one JSON array; `json_each` has columns of its own, so each statement first names
//! the members that it wants. States: 1 claimed, 2 completed, 3 unknown, 4 open.

use super::Sqlite;
use crate::sql::dialect::Texts;

pub(super) const VERSION: &str = "\
-- version
SELECT sqlite_version()";

pub(super) const WAL: &str = "\
-- wal
PRAGMA journal_mode = WAL";

/// The columns of a record, in the order in which `row` reads them.
macro_rules! record {
    () => {
        "r.id, r.scope, r.tenant, r.subject, r.operation, r.key_text, r.class, r.state, r.epoch,
    r.nonce, r.prints, r.lease_until, r.retake_after, r.retake_until, r.expires_at, r.reuse_at,
    r.checkpoint, r.outcome, r.attempts, r.caller, r.created_at, r.completed_at, r.format"
    };
}

/// The members of a fenced step.
macro_rules! fenced {
    () => {
        "FROM (
    SELECT unhex(value ->> 'id') AS id,
        value ->> 'epoch' AS epoch,
        unhex(value ->> 'nonce') AS nonce,
        value ->> 'until' AS until,
        unhex(value ->> 'bytes') AS bytes,
        value ->> 'expires_at' AS expires_at,
        value ->> 'reuse_at' AS reuse_at
    FROM json_each(?1)
) AS step"
    };
}

/// What a claim got, in the order in which `batch` reads it.
macro_rules! held {
    () => {
        "RETURNING id, epoch, nonce, attempts, created_at, class, checkpoint"
    };
}

/// What a fenced step changed, in the order in which `batch` reads it.
macro_rules! changed {
    () => {
        "RETURNING id, epoch"
    };
}

/// The members of a message, in the order in which `row` reads them.
macro_rules! letter {
    () => {
        "sequence, id, topic, key_text, payload, attempts, created_at"
    };
}

impl Texts for Sqlite {
    const TICK: &'static str = "\
-- tick
UPDATE hapax_clock
SET latest = (SELECT now FROM hapax_now)
WHERE one = 1
RETURNING latest";

    const NOW: &'static str = "\
-- now
SELECT now
FROM hapax_now";

    const CLAIM_INSERT: &'static str = concat!(
        "-- claim_insert
INSERT INTO hapax_records (
    id, scope, tenant, subject, operation, key_text, class, state, epoch, nonce, prints,
    lease_until, retake_after, retake_until, attempts, caller, created_at, format)
SELECT unhex(value ->> 'id'),
    value ->> 'scope',
    value ->> 'tenant',
    value ->> 'subject',
    value ->> 'operation',
    value ->> 'key',
    value ->> 'class',
    1,
    ?2,
    unhex(value ->> 'nonce'),
    unhex(value ->> 'prints'),
    value ->> 'lease_until',
    value ->> 'retake_after',
    value ->> 'retake_until',
    1,
    value ->> 'caller',
    ?2,
    1
FROM json_each(?1)
WHERE true
ON CONFLICT (id) DO NOTHING
",
        held!()
    );

    const CLAIM_REUSE: &'static str = concat!(
        "-- claim_reuse
UPDATE hapax_records AS r
SET class = claim.class,
    state = 1,
    epoch = max(r.epoch + 1, ?2),
    nonce = claim.nonce,
    prints = claim.prints,
    lease_until = claim.lease_until,
    retake_after = claim.retake_after,
    retake_until = claim.retake_until,
    expires_at = NULL,
    reuse_at = NULL,
    checkpoint = NULL,
    outcome = NULL,
    attempts = 1,
    caller = claim.caller,
    created_at = ?2,
    completed_at = NULL,
    format = 1
FROM (
    SELECT unhex(value ->> 'id') AS id,
        unhex(value ->> 'nonce') AS nonce,
        unhex(value ->> 'prints') AS prints,
        value ->> 'class' AS class,
        value ->> 'lease_until' AS lease_until,
        value ->> 'retake_after' AS retake_after,
        value ->> 'retake_until' AS retake_until,
        value ->> 'caller' AS caller
    FROM json_each(?1)
) AS claim
WHERE r.id = claim.id
    AND (
        r.reuse_at <= ?2
        OR (r.state = 4 AND r.nonce <> claim.nonce)
    )
",
        held!()
    );

    const CLAIM_RETAKE: &'static str = concat!(
        "-- claim_retake
UPDATE hapax_records AS r
SET class = max(r.class, claim.class),
    state = 1,
    epoch = max(r.epoch + 1, ?2),
    nonce = claim.nonce,
    lease_until = claim.lease_until,
    retake_after = max(r.retake_after, claim.retake_after),
    retake_until = coalesce(
        min(r.retake_until, r.created_at + min(claim.window, 9223372036854775807 - r.created_at)),
        r.retake_until,
        r.created_at + min(claim.window, 9223372036854775807 - r.created_at)),
    attempts = r.attempts + 1,
    caller = claim.caller
FROM (
    SELECT unhex(value ->> 'id') AS id,
        unhex(value ->> 'nonce') AS nonce,
        unhex(value ->> 'print') AS print,
        unhex(value ->> 'older_print') AS older_print,
        value ->> 'class' AS class,
        value ->> 'lease_until' AS lease_until,
        value ->> 'retake_after' AS retake_after,
        value ->> 'window' AS window,
        value ->> 'attempts_max' AS attempts_max,
        value ->> 'caller' AS caller
    FROM json_each(?1)
) AS claim
WHERE r.id = claim.id
    AND r.state IN (1, 3)
    AND r.nonce <> claim.nonce
    AND r.attempts < claim.attempts_max
    AND r.lease_until <= ?2 - max(r.retake_after, claim.retake_after)
    AND (r.retake_until IS NULL OR r.retake_until > ?2)
    AND (claim.window IS NULL OR claim.window > ?2 - r.created_at)
    AND (
        length(r.prints) = 0
        OR claim.print IS NULL
        OR claim.print IN (substr(r.prints, 1, 34), substr(r.prints, 35, 34))
        OR claim.older_print IN (substr(r.prints, 1, 34), substr(r.prints, 35, 34))
    )
",
        held!()
    );

    const RENEW: &'static str = concat!(
        "-- renew
UPDATE hapax_records AS r
SET lease_until = step.until
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state = 1
",
        changed!()
    );

    const CHECKPOINT: &'static str = concat!(
        "-- checkpoint
UPDATE hapax_records AS r
SET checkpoint = step.bytes
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state = 1
",
        changed!()
    );

    const COMPLETE: &'static str = concat!(
        "-- complete
UPDATE hapax_records AS r
SET state = 2,
    outcome = step.bytes,
    checkpoint = NULL,
    completed_at = ?2,
    expires_at = step.expires_at,
    reuse_at = step.reuse_at
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state IN (1, 3)
",
        changed!()
    );

    const DOUBT: &'static str = concat!(
        "-- doubt
UPDATE hapax_records AS r
SET state = 3,
    lease_until = ?2
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state = 1
",
        changed!()
    );

    const RELEASE: &'static str = concat!(
        "-- release
UPDATE hapax_records AS r
SET state = 4,
    prints = x'',
    checkpoint = NULL,
    reuse_at = step.reuse_at
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state IN (1, 3)
",
        changed!()
    );

    const SETTLE_COMPLETED: &'static str = concat!(
        "-- settle_completed
UPDATE hapax_records AS r
SET state = 2,
    epoch = max(r.epoch + 1, ?2),
    nonce = step.nonce,
    outcome = step.bytes,
    checkpoint = NULL,
    completed_at = ?2,
    expires_at = step.expires_at,
    reuse_at = step.reuse_at
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.state IN (1, 3)
    AND (r.state = 1 OR r.nonce <> step.nonce)
    AND r.lease_until <= ?2 - coalesce(r.retake_after, 0)
",
        changed!()
    );

    const SETTLE_OPEN: &'static str = concat!(
        "-- settle_open
UPDATE hapax_records AS r
SET state = 4,
    epoch = max(r.epoch + 1, ?2),
    nonce = step.nonce,
    prints = x'',
    checkpoint = NULL,
    reuse_at = step.reuse_at
",
        fenced!(),
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.state IN (1, 3)
    AND (r.state = 1 OR r.nonce <> step.nonce)
    AND r.lease_until <= ?2 - coalesce(r.retake_after, 0)
",
        changed!()
    );

    const JOURNAL_WRITE: &'static str = "\
-- journal_write
INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT r.id,
    ?2,
    r.epoch,
    line.value ->> 'event',
    coalesce(line.value ->> 'actor', r.caller),
    line.value ->> 'note'
FROM json_each(?1) AS line
CROSS JOIN hapax_records AS r
WHERE r.id = unhex(line.value ->> 'id')";

    const LOOK: &'static str = concat!(
        "-- look
SELECT wanted.key, (SELECT now FROM hapax_now), ",
        record!(),
        "
FROM json_each(?1) AS wanted
LEFT JOIN hapax_records AS r
    ON r.id = unhex(wanted.value)"
    );

    const SCAN: &'static str = concat!(
        "-- scan
SELECT ",
        record!(),
        "
FROM hapax_records AS r
WHERE r.id > ?1
    AND (?4 IS NULL OR r.operation = ?4)
    AND (
        ?5 IS NULL
        OR (?5 = 'open' AND r.state = 4)
        OR (?5 = 'completed' AND r.state = 2 AND (r.expires_at IS NULL OR r.expires_at > ?2))
        OR (?5 = 'expired' AND r.state = 2 AND r.expires_at <= ?2)
    )
ORDER BY r.id
LIMIT ?3"
    );

    const SCAN_UNFINISHED: &'static str = concat!(
        "-- scan_unfinished
SELECT ",
        record!(),
        "
FROM hapax_records AS r INDEXED BY hapax_records_unfinished
WHERE r.state IN (1, 3)
    AND r.id > ?1
    AND (?4 IS NULL OR r.operation = ?4)
    AND (
        (?5 = 'running' AND r.state = 1 AND r.lease_until > ?2)
        OR (?5 = 'abandoned' AND r.state = 1 AND r.lease_until <= ?2)
        OR (?5 = 'unknown' AND r.state = 3)
    )
ORDER BY r.id
LIMIT ?3"
    );

    const HISTORY: &'static str = "\
-- history
SELECT at, epoch, event, actor, note
FROM hapax_journal
WHERE record = ?1
ORDER BY sequence
LIMIT ?2";

    const PURGE: &'static str = "\
-- purge
DELETE FROM hapax_records
WHERE id IN (
    SELECT old.id
    FROM hapax_records AS old
    WHERE old.reuse_at <= ?2
    ORDER BY old.reuse_at
    LIMIT ?1
)";

    const JOURNAL_PURGE: &'static str = "\
-- journal_purge
DELETE FROM hapax_journal
WHERE sequence < (SELECT min(oldest.sequence) FROM hapax_journal AS oldest) + ?1
    AND at <= ?2";

    const WITNESS_SET: &'static str = "\
-- witness_set
SAVEPOINT hapax_witness";

    const WITNESS_RELEASE: &'static str = "\
-- witness_release
RELEASE SAVEPOINT hapax_witness";

    const WITNESS_ROLLBACK: &'static str = "\
-- witness_rollback
ROLLBACK TO SAVEPOINT hapax_witness";

    const OUTBOX_SEND: &'static str = "\
-- outbox_send
INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
SELECT ?1, ?2, ?3, ?4, now + ?5, 0, now
FROM hapax_now
WHERE true
ON CONFLICT (id) DO NOTHING";

    const OUTBOX_DUE: &'static str = "\
-- outbox_due
SELECT 1
FROM hapax_outbox
WHERE visible_at <= (SELECT now FROM hapax_now)
LIMIT 1";

    const OUTBOX_CLAIM: &'static str = concat!(
        "-- outbox_claim
UPDATE hapax_outbox
SET visible_at = ?3,
    token = ?4
WHERE sequence IN (
    SELECT due.sequence
    FROM hapax_outbox AS due
    WHERE due.visible_at <= ?2
        AND NOT EXISTS (
            SELECT 1
            FROM hapax_outbox AS earlier
            WHERE earlier.visible_at IS NOT NULL
                AND earlier.key_text <> ''
                AND earlier.key_text = due.key_text
                AND earlier.sequence < due.sequence
        )
    ORDER BY due.visible_at, due.sequence
    LIMIT ?1
)
RETURNING ",
        letter!()
    );

    const OUTBOX_ACK: &'static str = "\
-- outbox_ack
DELETE FROM hapax_outbox
WHERE id = ?1
    AND token = ?3
RETURNING sequence";

    const OUTBOX_RETRY: &'static str = "\
-- outbox_retry
UPDATE hapax_outbox
SET visible_at = ?4,
    token = NULL,
    attempts = ?5
WHERE id = ?1
    AND token = ?3
RETURNING sequence";

    const OUTBOX_BURY: &'static str = "\
-- outbox_bury
UPDATE hapax_outbox
SET visible_at = NULL,
    token = NULL,
    why = ?4
WHERE id = ?1
    AND token = ?3
RETURNING sequence";

    const OUTBOX_REPLAY: &'static str = "\
-- outbox_replay
UPDATE hapax_outbox
SET visible_at = ?2,
    attempts = 0,
    why = NULL
WHERE id = ?1
    AND visible_at IS NULL
RETURNING sequence";

    const OUTBOX_JOURNAL_WRITE: &'static str = "\
-- outbox_journal_write
INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
VALUES (?1, ?2, ?3, ?4, ?5)";

    const OUTBOX_JOURNAL: &'static str = "\
-- outbox_journal
SELECT at, event, actor, reason
FROM hapax_outbox_journal
WHERE message = ?1
ORDER BY sequence
LIMIT ?2";

    const OUTBOX_LETTER: &'static str = concat!(
        "-- outbox_letter
SELECT ",
        letter!(),
        ", visible_at, why
FROM hapax_outbox
WHERE id = ?1"
    );

    const OUTBOX_LETTERS: &'static str = concat!(
        "-- outbox_letters
SELECT ",
        letter!(),
        ", visible_at, why
FROM hapax_outbox
WHERE sequence > ?1
ORDER BY sequence
LIMIT ?2"
    );

    const OUTBOX_BURIED: &'static str = concat!(
        "-- outbox_buried
SELECT ",
        letter!(),
        ", visible_at, why
FROM hapax_outbox
WHERE visible_at IS NULL
    AND sequence > ?1
ORDER BY sequence
LIMIT ?2"
    );

    const OUTBOX_PURGE: &'static str = "\
-- outbox_purge
DELETE FROM hapax_outbox
WHERE sequence IN (
    SELECT old.sequence
    FROM hapax_outbox AS old
    WHERE old.visible_at IS NULL
        AND old.created_at <= ?2
    ORDER BY old.sequence
    LIMIT ?1
)";

    const OUTBOX_JOURNAL_PURGE: &'static str = "\
-- outbox_journal_purge
DELETE FROM hapax_outbox_journal
WHERE sequence < (
        SELECT min(oldest.sequence)
        FROM hapax_outbox_journal AS oldest
    ) + ?1
    AND at <= ?2";

    const OUTBOX_DEPTH: &'static str = "\
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

    const INBOX_ONCE: &'static str = "\
-- inbox_once
INSERT INTO hapax_inbox (consumer, message, seen_at)
SELECT ?1, ?2, now
FROM hapax_now
WHERE true
ON CONFLICT (consumer, message) DO NOTHING
RETURNING seen_at";

    const INBOX_PURGE: &'static str = "\
-- inbox_purge
DELETE FROM hapax_inbox
WHERE (consumer, message) IN (
    SELECT old.consumer, old.message
    FROM hapax_inbox AS old
    WHERE old.seen_at <= ?2
    ORDER BY old.seen_at
    LIMIT ?1
)";

    const LOCK_LOOK: &'static str = "\
-- lock_look
SELECT hapax_now.now, k.owner, k.fence, k.held_until
FROM hapax_now
LEFT JOIN hapax_locks AS k
    ON k.name = ?1";

    const LOCK_ACQUIRE: &'static str = "\
-- lock_acquire
INSERT INTO hapax_locks AS k (name, owner, fence, held_until)
VALUES (?1, ?3, ?2, ?4)
ON CONFLICT (name) DO UPDATE
SET fence = CASE
        WHEN k.owner = ?3 AND k.held_until > ?2 THEN k.fence
        ELSE max(k.fence + 1, ?2)
    END,
    owner = ?3,
    held_until = ?4
WHERE k.held_until <= ?2
    OR k.owner = ?3
RETURNING fence";

    const LOCK_RENEW: &'static str = "\
-- lock_renew
UPDATE hapax_locks
SET held_until = ?4
WHERE name = ?1
    AND owner = ?3
    AND held_until > ?2
RETURNING fence";

    const LOCK_RELEASE: &'static str = "\
-- lock_release
UPDATE hapax_locks
SET owner = NULL,
    held_until = 0
WHERE name = ?1
    AND owner = ?3
    AND held_until > ?2
RETURNING fence";

    const LOCK_PURGE: &'static str = "\
-- lock_purge
DELETE FROM hapax_locks
WHERE name IN (
    SELECT lapsed.name
    FROM hapax_locks AS lapsed
    WHERE lapsed.held_until <= ?2
        AND lapsed.fence < ?2
    ORDER BY lapsed.held_until
    LIMIT ?1
)";

    const TRANSITION_WRITE: &'static str = "\
-- transition_write
INSERT INTO hapax_transitions (
    kind, entity, version, from_state, to_state, event, actor, at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, now
FROM hapax_now
WHERE true
ON CONFLICT (kind, entity, version) DO NOTHING
RETURNING version";

    const TRANSITIONS: &'static str = "\
-- transitions
SELECT at, version, from_state, to_state, event, actor
FROM hapax_transitions
WHERE kind = ?1
    AND entity = ?2
    AND version >= ?3
ORDER BY version
LIMIT ?4";

    const SCHEMA_EXISTS: &'static str = "\
-- schema_exists
SELECT 1
FROM sqlite_schema
WHERE type = 'table'
    AND name = '_hapax_migrations'";

    const SCHEMA_APPLIED: &'static str = "\
-- schema_applied
SELECT version, checksum
FROM _hapax_migrations
ORDER BY version";
}
