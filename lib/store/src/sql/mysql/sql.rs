//! Every statement that MySQL and MariaDB speak in their own way.
//!
//! A change is several statements in one text. It reads the clock once into `@hapax_now`, locks in
//! the order of the rows what its guard permits and keeps their places in `@hapax_won`, changes
//! those, tells the journal, and says what it changed.

use super::MySql;
use crate::sql::dialect::{Texts, record};

pub(super) const BEGIN: &str = "\
-- begin
START TRANSACTION;
SAVEPOINT hapax_witness";

/// Goes before a change that is a transaction of its own.
pub(super) const START: &str = "\
START TRANSACTION;
";

pub(super) const ROLLBACK: &str = "\
-- rollback
ROLLBACK";

/// A new transaction would commit the one that is still open, with half of its work.
pub(super) const READ_ONLY: &str = "\
-- read_only
ROLLBACK;
START TRANSACTION READ ONLY";

/// Keeps other processes out. Each step of the schema commits, so that no transaction could.
pub(super) const SCHEMA_LOCK: &str = "\
-- schema_lock
SET SESSION autocommit = 1;
SELECT GET_LOCK(CONCAT(DATABASE(), '.hapax_schema'), 60)";

pub(super) const SCHEMA_UNLOCK: &str = "\
-- schema_unlock
SELECT RELEASE_LOCK(CONCAT(DATABASE(), '.hapax_schema'));
SET SESSION autocommit = 0";

/// Keeps the rows of a change and its moment.
macro_rules! rows {
    () => {
        "SET @hapax_rows = $1,
    @hapax_now = (SELECT now FROM hapax_now);
"
    };
}

macro_rules! clock {
    () => {
        "SET @hapax_now = (SELECT now FROM hapax_now);
"
    };
}

/// The members of claims.
macro_rules! claims {
    () => {
        "JSON_TABLE(@hapax_rows, '$[*]' COLUMNS (
    place FOR ORDINALITY, id CHAR(64) PATH '$.id',
    scope VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.scope',
    tenant VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.tenant',
    subject VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.subject',
    operation VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.operation',
    key_text VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.key',
    nonce CHAR(32) PATH '$.nonce',
    prints VARCHAR(255) PATH '$.prints', print CHAR(68) PATH '$.print',
    older_print CHAR(68) PATH '$.older_print', class BIGINT PATH '$.class',
    lease BIGINT PATH '$.lease', retake_after BIGINT PATH '$.retake_after',
    retake_for BIGINT PATH '$.retake_for', attempts_max BIGINT PATH '$.attempts_max',
    caller VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.caller'
)) AS claim"
    };
}

/// The members of steps.
macro_rules! steps {
    () => {
        "JSON_TABLE(@hapax_rows, '$[*]' COLUMNS (
    place FOR ORDINALITY, id CHAR(64) PATH '$.id', epoch BIGINT PATH '$.epoch',
    nonce CHAR(32) PATH '$.nonce', bytes LONGTEXT PATH '$.bytes',
    lease BIGINT PATH '$.lease', keep BIGINT PATH '$.keep', grace BIGINT PATH '$.grace',
    memory BIGINT PATH '$.memory',
    actor VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.actor',
    note VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.note'
)) AS step"
    };
}

/// Keeps the places of the rows that a guard permits.
macro_rules! win {
    ($rows:ident as $row:literal, $guard:expr) => {
        concat!(
            "SELECT GROUP_CONCAT(",
            $row,
            ".place) INTO @hapax_won
FROM ",
            $rows!(),
            "
STRAIGHT_JOIN hapax_records AS r
    ON r.id = UNHEX(",
            $row,
            ".id)
",
            $guard,
            ";
"
        )
    };
}

/// The rows that were won, each with its record.
macro_rules! won {
    ($rows:ident as $row:literal) => {
        concat!(
            $rows!(),
            "
STRAIGHT_JOIN hapax_records AS r
    ON r.id = UNHEX(",
            $row,
            ".id)"
        )
    };
}

/// The very attempts that steps name, in a state in which the step means something.
macro_rules! ours {
    ($states:literal) => {
        concat!(
            "WHERE r.epoch = step.epoch
    AND r.nonce = UNHEX(step.nonce)
    AND r.state IN ",
            $states,
            "
FOR UPDATE"
        )
    };
}

/// The attempts that are over and may be judged.
macro_rules! over {
    () => {
        "WHERE r.epoch = step.epoch
    AND r.state IN (1, 3)
    AND (r.state = 1 OR r.nonce <> UNHEX(step.nonce))
    AND r.lease_until <= @hapax_now - COALESCE(r.retake_after, 0)
FOR UPDATE"
    };
}

/// Changes what was won, tells the journal, and says what was changed.
macro_rules! change {
    ($rows:ident as $row:literal, $sets:literal, $($told:literal,)? -> $got:literal) => {
        concat!(
            "UPDATE ",
            won!($rows as $row),
            "
SET ",
            $sets,
            "
WHERE FIND_IN_SET(",
            $row,
            ".place, @hapax_won);
",
            $(
                "INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT r.id, @hapax_now, r.epoch, ",
                $told,
                "
FROM ",
                won!($rows as $row),
                "
WHERE FIND_IN_SET(",
                $row,
                ".place, @hapax_won);
",
            )?
            "SELECT ",
            $got,
            "
FROM ",
            won!($rows as $row),
            "
WHERE FIND_IN_SET(",
            $row,
            ".place, @hapax_won)"
        )
    };
}

impl Texts for MySql {
    const CLAIM_INSERT: &'static str = concat!(
        "-- claim_insert\n",
        rows!(),
        "SELECT GROUP_CONCAT(claim.place) INTO @hapax_won
FROM ",
        claims!(),
        "
LEFT JOIN hapax_records AS r
    ON r.id = UNHEX(claim.id)
WHERE r.id IS NULL;
INSERT INTO hapax_records (
    id, scope, tenant, subject, operation, key_text, class, state, epoch, nonce, prints,
    lease_until, retake_after, retake_until, attempts, caller, created_at, format)
SELECT UNHEX(claim.id), claim.scope, claim.tenant, claim.subject, claim.operation, claim.key_text,
    claim.class, 1, @hapax_now, UNHEX(claim.nonce), UNHEX(claim.prints), @hapax_now + claim.lease,
    claim.retake_after, @hapax_now + claim.retake_for, 1, claim.caller, @hapax_now, 1
FROM ",
        claims!(),
        "
WHERE FIND_IN_SET(claim.place, @hapax_won);
INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT r.id, @hapax_now, r.epoch, 'claimed', r.caller, ''
FROM ",
        won!(claims as "claim"),
        "
WHERE FIND_IN_SET(claim.place, @hapax_won);
SELECT r.id, r.epoch, @hapax_now, r.nonce, r.attempts, r.created_at, r.class, r.checkpoint
FROM ",
        won!(claims as "claim"),
        "
WHERE FIND_IN_SET(claim.place, @hapax_won)"
    );

    const CLAIM_REUSE: &'static str = concat!(
        "-- claim_reuse\n",
        rows!(),
        win!(
            claims as "claim",
            "WHERE (
        r.reuse_at <= @hapax_now
        OR (r.state = 4 AND r.nonce <> UNHEX(claim.nonce))
    )
FOR UPDATE SKIP LOCKED"
        ),
        change!(
            claims as "claim",
            "r.class = claim.class,
    r.state = 1,
    r.epoch = GREATEST(r.epoch + 1, @hapax_now),
    r.nonce = UNHEX(claim.nonce),
    r.prints = UNHEX(claim.prints),
    r.lease_until = @hapax_now + claim.lease,
    r.retake_after = claim.retake_after,
    r.retake_until = @hapax_now + claim.retake_for,
    r.expires_at = NULL,
    r.reuse_at = NULL,
    r.checkpoint = NULL,
    r.outcome = NULL,
    r.attempts = 1,
    r.caller = claim.caller,
    r.created_at = @hapax_now,
    r.completed_at = NULL,
    r.format = 1",
            "'claimed', r.caller, ''",
            -> "r.id, r.epoch, @hapax_now, r.nonce, r.attempts, r.created_at, r.class, r.checkpoint"
        )
    );

    const CLAIM_RETAKE: &'static str = concat!(
        "-- claim_retake\n",
        rows!(),
        win!(
            claims as "claim",
            "WHERE r.state IN (1, 3)
    AND r.nonce <> UNHEX(claim.nonce)
    AND r.attempts < claim.attempts_max
    AND r.lease_until <= @hapax_now - r.retake_after
    AND r.lease_until <= @hapax_now - claim.retake_after
    AND (r.retake_until IS NULL OR r.retake_until > @hapax_now)
    AND (claim.retake_for IS NULL OR r.created_at + claim.retake_for > @hapax_now)
    AND (
        LENGTH(r.prints) = 0
        OR claim.print IS NULL
        OR UNHEX(claim.print) IN (SUBSTRING(r.prints, 1, 34), SUBSTRING(r.prints, 35, 34))
        OR UNHEX(claim.older_print) IN (SUBSTRING(r.prints, 1, 34), SUBSTRING(r.prints, 35, 34))
    )
FOR UPDATE SKIP LOCKED"
        ),
        change!(
            claims as "claim",
            "r.class = GREATEST(r.class, claim.class),
    r.state = 1,
    r.epoch = GREATEST(r.epoch + 1, @hapax_now),
    r.nonce = UNHEX(claim.nonce),
    r.lease_until = @hapax_now + claim.lease,
    r.retake_after = GREATEST(r.retake_after, claim.retake_after),
    r.retake_until = COALESCE(
        LEAST(r.retake_until, r.created_at + claim.retake_for),
        r.retake_until,
        r.created_at + claim.retake_for),
    r.attempts = r.attempts + 1,
    r.caller = claim.caller",
            "'retaken', r.caller, ''",
            -> "r.id, r.epoch, @hapax_now, r.nonce, r.attempts, r.created_at, r.class, r.checkpoint"
        )
    );

    const RENEW: &'static str = concat!(
        "-- renew\n",
        rows!(),
        win!(steps as "step", ours!("(1)")),
        change!(
            steps as "step",
            "r.lease_until = @hapax_now + step.lease",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const CHECKPOINT: &'static str = concat!(
        "-- checkpoint\n",
        rows!(),
        win!(steps as "step", ours!("(1)")),
        change!(
            steps as "step",
            "r.checkpoint = UNHEX(step.bytes)",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const COMPLETE: &'static str = concat!(
        "-- complete\n",
        rows!(),
        win!(steps as "step", ours!("(1, 3)")),
        change!(
            steps as "step",
            "r.state = 2,
    r.outcome = UNHEX(step.bytes),
    r.checkpoint = NULL,
    r.completed_at = @hapax_now,
    r.expires_at = @hapax_now + step.keep,
    r.reuse_at = GREATEST(@hapax_now + step.keep + step.grace, step.epoch + 1)",
            "'completed', r.caller, ''",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const DOUBT: &'static str = concat!(
        "-- doubt\n",
        rows!(),
        win!(steps as "step", ours!("(1)")),
        change!(
            steps as "step",
            "r.state = 3,
        r.lease_until = @hapax_now",
            "'doubted', r.caller, step.note",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const RELEASE: &'static str = concat!(
        "-- release\n",
        rows!(),
        win!(steps as "step", ours!("(1, 3)")),
        change!(
            steps as "step",
            "r.state = 4,
    r.prints = '',
    r.checkpoint = NULL,
    r.reuse_at = GREATEST(@hapax_now + step.memory, step.epoch + 1)",
            "'released', r.caller, ''",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const SETTLE_COMPLETED: &'static str = concat!(
        "-- settle_completed\n",
        rows!(),
        win!(steps as "step", over!()),
        change!(
            steps as "step",
            "r.state = 2,
    r.epoch = GREATEST(step.epoch + 1, @hapax_now),
    r.nonce = UNHEX(step.nonce),
    r.outcome = UNHEX(step.bytes),
    r.checkpoint = NULL,
    r.completed_at = @hapax_now,
    r.expires_at = @hapax_now + step.keep,
    r.reuse_at = GREATEST(
        @hapax_now + step.keep + step.grace, step.epoch + 2, @hapax_now + 1)",
            "'settled', step.actor, step.note",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const SETTLE_OPEN: &'static str = concat!(
        "-- settle_open\n",
        rows!(),
        win!(steps as "step", over!()),
        change!(
            steps as "step",
            "r.state = 4,
    r.epoch = GREATEST(step.epoch + 1, @hapax_now),
    r.nonce = UNHEX(step.nonce),
    r.prints = '',
    r.checkpoint = NULL,
    r.reuse_at = GREATEST(@hapax_now + step.memory, step.epoch + 2, @hapax_now + 1)",
            "'settled', step.actor, step.note",
            -> "r.id, r.epoch, @hapax_now"
        )
    );

    const LOOK: &'static str = concat!(
        "-- look
SELECT wanted.place, (SELECT now FROM hapax_now), ",
        record!(),
        "
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    place FOR ORDINALITY,
    id CHAR(64) PATH '$'
)) AS wanted
LEFT JOIN hapax_records AS r
    ON r.id = UNHEX(wanted.id)"
    );

    const SCAN_UNFINISHED: &'static str = concat!(
        "-- scan_unfinished
SELECT ",
        record!(),
        "
FROM hapax_records AS r FORCE INDEX (hapax_records_unfinished)
WHERE r.unfinished > $1
    AND ($4 IS NULL OR r.operation = $4)
    AND (
        ($5 = 'running' AND r.state = 1 AND r.lease_until > $2)
        OR ($5 = 'abandoned' AND r.state = 1 AND r.lease_until <= $2)
        OR ($5 = 'unknown' AND r.state = 3)
    )
ORDER BY r.unfinished
LIMIT $3"
    );

    const PURGE: &'static str = "\
-- purge
DELETE FROM hapax_records
WHERE reuse_at <= (SELECT now FROM hapax_now) - $2
ORDER BY reuse_at
LIMIT $1";

    const JOURNAL_PURGE: &'static str = "\
-- journal_purge
SET @hapax_first = (SELECT MIN(sequence) FROM hapax_journal);
DELETE FROM hapax_journal
WHERE sequence < @hapax_first + $1
    AND at <= (SELECT now FROM hapax_now) - $2";

    const OUTBOX_SEND: &'static str = "\
-- outbox_send
INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
SELECT $1, $2, $3, $4, now + $5, 0, now
FROM hapax_now";

    const OUTBOX_CLAIM: &'static str = concat!(
        "-- outbox_claim\n",
        clock!(),
        "SELECT GROUP_CONCAT(due.sequence) INTO @hapax_won
FROM (
    SELECT due.sequence
    FROM hapax_outbox AS due
    WHERE due.visible_at <= @hapax_now
        AND NOT EXISTS (
            SELECT 1
            FROM hapax_outbox AS earlier
            WHERE earlier.visible_at IS NOT NULL
                AND earlier.key_text <> ''
                AND earlier.key_text = due.key_text
                AND earlier.sequence < due.sequence
        )
    ORDER BY due.visible_at, due.sequence
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS due;
UPDATE JSON_TABLE(CONCAT('[', @hapax_won, ']'), '$[*]' COLUMNS (
    sequence BIGINT PATH '$'
)) AS won
STRAIGHT_JOIN hapax_outbox AS o
    ON o.sequence = won.sequence
SET o.visible_at = @hapax_now + $2,
    o.token = $3
WHERE o.visible_at <= @hapax_now;
SELECT o.sequence, o.id, o.topic, o.key_text, o.payload, o.attempts, o.created_at
FROM JSON_TABLE(CONCAT('[', @hapax_won, ']'), '$[*]' COLUMNS (
    sequence BIGINT PATH '$'
)) AS won
STRAIGHT_JOIN hapax_outbox AS o
    ON o.sequence = won.sequence
WHERE o.token = $3"
    );

    const OUTBOX_ACK: &'static str = "\
-- outbox_ack
SELECT sequence
FROM hapax_outbox
WHERE id = $1
    AND token = $2
FOR UPDATE;
DELETE FROM hapax_outbox
WHERE id = $1
    AND token = $2";

    const OUTBOX_RETRY: &'static str = concat!(
        "-- outbox_retry\n",
        clock!(),
        "SELECT sequence
FROM hapax_outbox
WHERE id = $1
    AND token = $2
FOR UPDATE;
UPDATE hapax_outbox
SET visible_at = @hapax_now + $3,
    token = NULL,
    attempts = $4
WHERE id = $1
    AND token = $2"
    );

    const OUTBOX_BURY: &'static str = concat!(
        "-- outbox_bury\n",
        clock!(),
        "SELECT sequence
FROM hapax_outbox
WHERE id = $1
    AND token = $2
FOR UPDATE;
INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT id, @hapax_now, 'buried', 'relay', $3
FROM hapax_outbox
WHERE id = $1
    AND token = $2;
UPDATE hapax_outbox
SET visible_at = NULL,
    token = NULL,
    why = $3
WHERE id = $1
    AND token = $2"
    );

    const OUTBOX_REPLAY: &'static str = concat!(
        "-- outbox_replay\n",
        clock!(),
        "SELECT sequence
FROM hapax_outbox
WHERE id = $1
    AND visible_at IS NULL
FOR UPDATE;
INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT id, @hapax_now, 'replayed', $2, $3
FROM hapax_outbox
WHERE id = $1
    AND visible_at IS NULL;
UPDATE hapax_outbox
SET visible_at = @hapax_now,
    attempts = 0,
    why = NULL
WHERE id = $1
    AND visible_at IS NULL"
    );

    const OUTBOX_PURGE: &'static str = "\
-- outbox_purge
DELETE FROM hapax_outbox
WHERE visible_at IS NULL
    AND created_at <= (SELECT now FROM hapax_now) - $2
ORDER BY visible_at, sequence
LIMIT $1";

    const OUTBOX_JOURNAL_PURGE: &'static str = "\
-- outbox_journal_purge
SET @hapax_first = (SELECT MIN(sequence) FROM hapax_outbox_journal);
DELETE FROM hapax_outbox_journal
WHERE sequence < @hapax_first + $1
    AND at <= (SELECT now FROM hapax_now) - $2";

    const INBOX_ONCE: &'static str = "\
-- inbox_once
INSERT INTO hapax_inbox (consumer, message, seen_at)
SELECT $1, $2, now
FROM hapax_now";

    const INBOX_PURGE: &'static str = "\
-- inbox_purge
DELETE FROM hapax_inbox
WHERE seen_at <= (SELECT now FROM hapax_now) - $2
ORDER BY seen_at
LIMIT $1";

    /// Assignments are made from left to right: the fence is judged by the old owner.
    const LOCK_ACQUIRE: &'static str = concat!(
        "-- lock_acquire\n",
        clock!(),
        "INSERT INTO hapax_locks (name, owner, fence, held_until)
SELECT $1, NULL, 0, 0
FROM hapax_now
WHERE NOT EXISTS (SELECT 1 FROM hapax_locks WHERE name = $1);
UPDATE hapax_locks
SET fence = CASE
        WHEN owner = $2 AND held_until > @hapax_now THEN fence
        ELSE GREATEST(fence + 1, @hapax_now)
    END,
    owner = $2,
    held_until = @hapax_now + $3
WHERE name = $1
    AND (held_until <= @hapax_now OR owner = $2);
SELECT fence
FROM hapax_locks
WHERE name = $1
    AND owner = $2"
    );

    const LOCK_RENEW: &'static str = concat!(
        "-- lock_renew\n",
        clock!(),
        "SELECT fence
FROM hapax_locks
WHERE name = $1
    AND owner = $2
    AND held_until > @hapax_now
FOR UPDATE;
UPDATE hapax_locks
SET held_until = @hapax_now + $3
WHERE name = $1
    AND owner = $2
    AND held_until > @hapax_now"
    );

    const LOCK_RELEASE: &'static str = concat!(
        "-- lock_release\n",
        clock!(),
        "SELECT fence
FROM hapax_locks
WHERE name = $1
    AND owner = $2
    AND held_until > @hapax_now
FOR UPDATE;
UPDATE hapax_locks
SET owner = NULL,
    held_until = 0
WHERE name = $1
    AND owner = $2
    AND held_until > @hapax_now"
    );

    const LOCK_PURGE: &'static str = "\
-- lock_purge
DELETE FROM hapax_locks
WHERE held_until <= (SELECT now FROM hapax_now) - $2
    AND fence < (SELECT now FROM hapax_now)
ORDER BY held_until
LIMIT $1";

    const TRANSITION_WRITE: &'static str = "\
-- transition_write
INSERT INTO hapax_transitions (
    kind, entity, version, from_state, to_state, event, actor, at)
SELECT $1, $2, $3, $4, $5, $6, $7, now
FROM hapax_now";

    const SCHEMA_EXISTS: &'static str = "\
-- schema_exists
SELECT 1
FROM information_schema.tables
WHERE table_schema = DATABASE()
    AND table_name = '_hapax_migrations'";
}
