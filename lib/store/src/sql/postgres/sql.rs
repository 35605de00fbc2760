//! Every statement that PostgreSQL speaks in its own way.
//!
//! A change is one statement: it reads the clock once, locks in the order of its rows what its
//! guard permits, changes that, and tells the journal of what it changed. The planner takes a
//! batch for a hundred rows and a limit for a tenth of the table, so each lookup is written as one
//! that can only use its index.

use super::Postgres;
use crate::sql::dialect::{Texts, record};

/// Begins a transaction, whatever the server's default is.
pub(super) const BEGIN: &str = "\
-- begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SAVEPOINT hapax_witness";

/// Keeps other processes out until the transaction ends; the number is the project's own.
pub(super) const SCHEMA_LOCK: &str = "\
-- schema_lock
SELECT pg_advisory_xact_lock(7522136940871230001)";

/// What cannot hold the guarantee: settings of the server.
pub(super) const SETTINGS: &str = "\
-- settings
SELECT current_setting('server_version_num')::bigint,
    current_setting('fsync'),
    current_setting('synchronous_commit'),
    current_setting('server_encoding'),
    pg_is_in_recovery()::int::bigint";

/// The moment of the change, and the members of its claims.
macro_rules! claims {
    () => {
        "WITH clock AS MATERIALIZED (
    SELECT now
    FROM hapax_now
), claim AS MATERIALIZED (
    SELECT decode(id, 'hex') AS id, scope, tenant, subject, operation, key,
        decode(nonce, 'hex') AS nonce, decode(prints, 'hex') AS prints,
        decode(print, 'hex') AS print, decode(older_print, 'hex') AS older_print,
        class, lease, retake_after, retake_for, attempts_max, caller
    FROM json_to_recordset($1::json) AS entry (
        id text, scope text, tenant text, subject text, operation text, key text, nonce text,
        prints text, print text, older_print text, class bigint, lease bigint,
        retake_after bigint, retake_for bigint, attempts_max bigint, caller text)
)"
    };
}

/// The moment of the change, and the members of its steps.
macro_rules! steps {
    () => {
        "WITH clock AS MATERIALIZED (
    SELECT now
    FROM hapax_now
), step AS MATERIALIZED (
    SELECT decode(id, 'hex') AS id, epoch, decode(nonce, 'hex') AS nonce,
        decode(bytes, 'hex') AS bytes, lease, keep, grace, memory, actor, note
    FROM json_to_recordset($1::json) AS entry (
        id text, epoch bigint, nonce text, bytes text, lease bigint, keep bigint, grace bigint,
        memory bigint, actor text, note text)
)"
    };
}

/// The very attempts that steps name, in a state in which the step means something.
macro_rules! ours {
    ($states:literal) => {
        concat!(
            ", won AS MATERIALIZED (
    SELECT r.id
    FROM step
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM hapax_records AS r
        WHERE r.id = step.id
            AND r.epoch = step.epoch
            AND r.nonce = step.nonce
            AND r.state IN ",
            $states,
            "
        FOR UPDATE
    ) AS r
)"
        )
    };
}

/// The attempts that are over and may be judged.
macro_rules! over {
    () => {
        ", won AS MATERIALIZED (
    SELECT r.id
    FROM step
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM hapax_records AS r
        WHERE r.id = step.id
            AND r.epoch = step.epoch
            AND r.state IN (1, 3)
            AND (r.state = 1 OR r.nonce <> step.nonce)
            AND r.lease_until <= clock.now - coalesce(r.retake_after, 0)
        FOR UPDATE
    ) AS r
)"
    };
}

/// Changes what a claim won, tells the journal and says what it got, in the order in which
/// `batch` reads it.
macro_rules! take {
    ($sets:literal, $event:literal) => {
        concat!(
            ", changed AS (
    UPDATE hapax_records AS r
    SET ",
            $sets,
            "
    FROM claim
    CROSS JOIN clock
    WHERE r.id = claim.id
        AND r.id = ANY (ARRAY (SELECT id FROM won))
    RETURNING r.id, r.epoch, clock.now, r.nonce, r.attempts, r.created_at, r.class,
        r.checkpoint, r.caller
), told AS (
    INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
    SELECT id, now, epoch, '",
            $event,
            "', caller, ''
    FROM changed
)
SELECT id, epoch, now, nonce, attempts, created_at, class, checkpoint
FROM changed"
        )
    };
}

/// Changes what steps won and says so, in the order in which `batch` reads it.
macro_rules! change {
    ($sets:literal) => {
        concat!(
            "
UPDATE hapax_records AS r
SET ",
            $sets,
            "
FROM step
CROSS JOIN clock
WHERE r.id = step.id
    AND r.id = ANY (ARRAY (SELECT id FROM won))
RETURNING r.id, r.epoch, clock.now"
        )
    };
}

/// The same, and tells the journal.
macro_rules! change_and_tell {
    ($sets:literal, $told:literal) => {
        concat!(
            ", changed AS (
    UPDATE hapax_records AS r
    SET ",
            $sets,
            "
    FROM step
    CROSS JOIN clock
    WHERE r.id = step.id
        AND r.id = ANY (ARRAY (SELECT id FROM won))
    RETURNING r.id, r.epoch, clock.now, r.caller, step.actor, step.note
), told AS (
    INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
    SELECT id, now, epoch, ",
            $told,
            "
    FROM changed
)
SELECT id, epoch, now
FROM changed"
        )
    };
}

impl Texts for Postgres {
    const CLAIM_INSERT: &'static str = concat!(
        "-- claim_insert\n",
        claims!(),
        ", changed AS (
    INSERT INTO hapax_records (
        id, scope, tenant, subject, operation, key_text, class, state, epoch, nonce, prints,
        lease_until, retake_after, retake_until, attempts, caller, created_at, format)
    SELECT claim.id, scope, tenant, subject, operation, key, class, 1, clock.now, nonce, prints,
        clock.now + lease, retake_after, clock.now + retake_for, 1, caller, clock.now, 1
    FROM claim
    CROSS JOIN clock
    ORDER BY claim.id
    ON CONFLICT (id) DO NOTHING
    RETURNING id, epoch, nonce, attempts, created_at, class, checkpoint, caller
), told AS (
    INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
    SELECT id, created_at, epoch, 'claimed', caller, ''
    FROM changed
)
SELECT id, epoch, created_at, nonce, attempts, created_at, class, checkpoint
FROM changed"
    );

    const CLAIM_REUSE: &'static str = concat!(
        "-- claim_reuse\n",
        claims!(),
        ", won AS MATERIALIZED (
    SELECT r.id
    FROM claim
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM hapax_records AS r
        WHERE r.id = claim.id
            AND (
                r.reuse_at <= clock.now
                OR (r.state = 4 AND r.nonce <> claim.nonce)
            )
        FOR UPDATE SKIP LOCKED
    ) AS r
)",
        take!(
            "class = claim.class,
        state = 1,
        epoch = greatest(r.epoch + 1, clock.now),
        nonce = claim.nonce,
        prints = claim.prints,
        lease_until = clock.now + claim.lease,
        retake_after = claim.retake_after,
        retake_until = clock.now + claim.retake_for,
        expires_at = NULL,
        reuse_at = NULL,
        checkpoint = NULL,
        outcome = NULL,
        attempts = 1,
        caller = claim.caller,
        created_at = clock.now,
        completed_at = NULL,
        format = 1",
            "claimed"
        )
    );

    const CLAIM_RETAKE: &'static str = concat!(
        "-- claim_retake\n",
        claims!(),
        ", won AS MATERIALIZED (
    SELECT r.id
    FROM claim
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT r.id
        FROM hapax_records AS r
        WHERE r.id = claim.id
            AND r.state IN (1, 3)
            AND r.nonce <> claim.nonce
            AND r.attempts < claim.attempts_max
            AND r.lease_until <= clock.now - r.retake_after
            AND r.lease_until <= clock.now - claim.retake_after
            AND (r.retake_until IS NULL OR r.retake_until > clock.now)
            AND (claim.retake_for IS NULL OR r.created_at + claim.retake_for > clock.now)
            AND (
                length(r.prints) = 0
                OR claim.print IS NULL
                OR claim.print IN (substring(r.prints, 1, 34), substring(r.prints, 35, 34))
                OR claim.older_print IN (substring(r.prints, 1, 34), substring(r.prints, 35, 34))
            )
        FOR UPDATE SKIP LOCKED
    ) AS r
)",
        take!(
            "class = greatest(r.class, claim.class),
        state = 1,
        epoch = greatest(r.epoch + 1, clock.now),
        nonce = claim.nonce,
        lease_until = clock.now + claim.lease,
        retake_after = greatest(r.retake_after, claim.retake_after),
        retake_until = least(r.retake_until, r.created_at + claim.retake_for),
        attempts = r.attempts + 1,
        caller = claim.caller",
            "retaken"
        )
    );

    const RENEW: &'static str = concat!(
        "-- renew\n",
        steps!(),
        ours!("(1)"),
        change!("lease_until = clock.now + step.lease")
    );

    const CHECKPOINT: &'static str =
        concat!("-- checkpoint\n", steps!(), ours!("(1)"), change!("checkpoint = step.bytes"));

    const COMPLETE: &'static str = concat!(
        "-- complete\n",
        steps!(),
        ours!("(1, 3)"),
        change_and_tell!(
            "state = 2,
        outcome = step.bytes,
        checkpoint = NULL,
        completed_at = clock.now,
        expires_at = clock.now + step.keep,
        reuse_at = CASE
            WHEN step.keep IS NULL THEN NULL
            ELSE greatest(clock.now + step.keep + step.grace, r.epoch + 1)
        END",
            "'completed', caller, ''"
        )
    );

    const DOUBT: &'static str = concat!(
        "-- doubt\n",
        steps!(),
        ours!("(1)"),
        change_and_tell!(
            "state = 3,
        lease_until = clock.now",
            "'doubted', caller, note"
        )
    );

    const RELEASE: &'static str = concat!(
        "-- release\n",
        steps!(),
        ours!("(1, 3)"),
        change_and_tell!(
            "state = 4,
        prints = '',
        checkpoint = NULL,
        reuse_at = greatest(clock.now + step.memory, r.epoch + 1)",
            "'released', caller, ''"
        )
    );

    const SETTLE_COMPLETED: &'static str = concat!(
        "-- settle_completed\n",
        steps!(),
        over!(),
        change_and_tell!(
            "state = 2,
        epoch = greatest(r.epoch + 1, clock.now),
        nonce = step.nonce,
        outcome = step.bytes,
        checkpoint = NULL,
        completed_at = clock.now,
        expires_at = clock.now + step.keep,
        reuse_at = CASE
            WHEN step.keep IS NULL THEN NULL
            ELSE greatest(
                clock.now + step.keep + step.grace, r.epoch + 2, clock.now + 1)
        END",
            "'settled', actor, note"
        )
    );

    const SETTLE_OPEN: &'static str = concat!(
        "-- settle_open\n",
        steps!(),
        over!(),
        change_and_tell!(
            "state = 4,
        epoch = greatest(r.epoch + 1, clock.now),
        nonce = step.nonce,
        prints = '',
        checkpoint = NULL,
        reuse_at = greatest(clock.now + step.memory, r.epoch + 2, clock.now + 1)",
            "'settled', actor, note"
        )
    );

    const LOOK: &'static str = concat!(
        "-- look
SELECT wanted.place, (SELECT now FROM hapax_now), ",
        record!(),
        "
FROM json_array_elements_text($1::json) WITH ORDINALITY AS wanted (id, place)
LEFT JOIN LATERAL (
    SELECT ",
        record!(),
        "
    FROM hapax_records AS r
    WHERE r.id = decode(wanted.id, 'hex')
    LIMIT 1
) AS r
    ON true"
    );

    const SCAN_UNFINISHED: &'static str = concat!(
        "-- scan_unfinished
SELECT ",
        record!(),
        "
FROM hapax_records AS r
WHERE r.state IN (1, 3)
    AND r.id > $1
    AND ($4 IS NULL OR r.operation = $4)
    AND (
        ($5 = 'running' AND r.state = 1 AND r.lease_until > $2)
        OR ($5 = 'abandoned' AND r.state = 1 AND r.lease_until <= $2)
        OR ($5 = 'unknown' AND r.state = 3)
    )
ORDER BY r.id
LIMIT $3"
    );

    const PURGE: &'static str = "\
-- purge
DELETE FROM hapax_records
WHERE id = ANY (ARRAY(
    SELECT old.id
    FROM hapax_records AS old
    WHERE old.reuse_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.reuse_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))";

    const JOURNAL_PURGE: &'static str = "\
-- journal_purge
DELETE FROM hapax_journal
WHERE sequence < (SELECT min(oldest.sequence) FROM hapax_journal AS oldest) + $1
    AND at <= (SELECT now FROM hapax_now) - $2";

    const OUTBOX_SEND: &'static str = "\
-- outbox_send
INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
SELECT $1, $2, $3, $4, now + $5, 0, now
FROM hapax_now
ON CONFLICT (id) DO NOTHING
RETURNING sequence";

    const OUTBOX_CLAIM: &'static str = concat!(
        "-- outbox_claim
WITH clock AS MATERIALIZED (
    SELECT now
    FROM hapax_now
), won AS MATERIALIZED (
    SELECT due.sequence
    FROM hapax_outbox AS due
    WHERE due.visible_at <= (SELECT now FROM clock)
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
)
UPDATE hapax_outbox AS o
SET visible_at = clock.now + $2,
    token = $3
FROM clock
WHERE o.sequence = ANY (ARRAY(SELECT won.sequence FROM won))
RETURNING ",
        "o.sequence, o.id, o.topic, o.key_text, o.payload, o.attempts, o.created_at"
    );

    const OUTBOX_ACK: &'static str = "\
-- outbox_ack
DELETE FROM hapax_outbox
WHERE id = $1
    AND token = $2
RETURNING sequence";

    const OUTBOX_RETRY: &'static str = "\
-- outbox_retry
UPDATE hapax_outbox
SET visible_at = (SELECT now FROM hapax_now) + $3,
    token = NULL,
    attempts = $4
WHERE id = $1
    AND token = $2
RETURNING sequence";

    const OUTBOX_BURY: &'static str = "\
-- outbox_bury
WITH changed AS (
    UPDATE hapax_outbox
    SET visible_at = NULL,
        token = NULL,
        why = $3
    WHERE id = $1
        AND token = $2
    RETURNING id, sequence
), told AS (
    INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
    SELECT id, now, 'buried', 'relay', $3
    FROM changed
    CROSS JOIN hapax_now
)
SELECT sequence
FROM changed";

    const OUTBOX_REPLAY: &'static str = "\
-- outbox_replay
WITH changed AS (
    UPDATE hapax_outbox
    SET visible_at = (SELECT now FROM hapax_now),
        attempts = 0,
        why = NULL
    WHERE id = $1
        AND visible_at IS NULL
    RETURNING id, sequence, visible_at
), told AS (
    INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
    SELECT id, visible_at, 'replayed', $2, $3
    FROM changed
)
SELECT sequence
FROM changed";

    const OUTBOX_PURGE: &'static str = "\
-- outbox_purge
DELETE FROM hapax_outbox
WHERE sequence = ANY (ARRAY(
    SELECT old.sequence
    FROM hapax_outbox AS old
    WHERE old.visible_at IS NULL
        AND old.created_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.sequence
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))";

    const OUTBOX_JOURNAL_PURGE: &'static str = "\
-- outbox_journal_purge
DELETE FROM hapax_outbox_journal
WHERE sequence < (
        SELECT min(oldest.sequence)
        FROM hapax_outbox_journal AS oldest
    ) + $1
    AND at <= (SELECT now FROM hapax_now) - $2";

    const INBOX_ONCE: &'static str = "\
-- inbox_once
INSERT INTO hapax_inbox (consumer, message, seen_at)
SELECT $1, $2, now
FROM hapax_now
ON CONFLICT (consumer, message) DO NOTHING
RETURNING seen_at";

    /// A row is never updated: it stays where it was found.
    const INBOX_PURGE: &'static str = "\
-- inbox_purge
DELETE FROM hapax_inbox
WHERE ctid = ANY (ARRAY(
    SELECT old.ctid
    FROM hapax_inbox AS old
    WHERE old.seen_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.seen_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))";

    const LOCK_ACQUIRE: &'static str = "\
-- lock_acquire
INSERT INTO hapax_locks AS k (name, owner, fence, held_until)
SELECT $1, $2, now, now + $3
FROM hapax_now
ON CONFLICT (name) DO UPDATE
SET fence = CASE
        WHEN k.owner = $2 AND k.held_until > excluded.fence THEN k.fence
        ELSE greatest(k.fence + 1, excluded.fence)
    END,
    owner = excluded.owner,
    held_until = excluded.held_until
WHERE k.held_until <= excluded.fence
    OR k.owner = $2
RETURNING fence";

    const LOCK_RENEW: &'static str = "\
-- lock_renew
UPDATE hapax_locks
SET held_until = clock.now + $3
FROM hapax_now AS clock
WHERE name = $1
    AND owner = $2
    AND held_until > clock.now
RETURNING fence";

    const LOCK_RELEASE: &'static str = "\
-- lock_release
UPDATE hapax_locks
SET owner = NULL,
    held_until = 0
FROM hapax_now AS clock
WHERE name = $1
    AND owner = $2
    AND held_until > clock.now
RETURNING fence";

    const LOCK_PURGE: &'static str = "\
-- lock_purge
DELETE FROM hapax_locks
WHERE name = ANY (ARRAY(
    SELECT lapsed.name
    FROM hapax_locks AS lapsed
    WHERE lapsed.held_until <= (SELECT now FROM hapax_now) - $2
        AND lapsed.fence < (SELECT now FROM hapax_now)
    ORDER BY lapsed.held_until
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))";

    const TRANSITION_WRITE: &'static str = "\
-- transition_write
INSERT INTO hapax_transitions (
    kind, entity, version, from_state, to_state, event, actor, at)
SELECT $1, $2, $3, $4, $5, $6, $7, now
FROM hapax_now
ON CONFLICT (kind, entity, version) DO NOTHING
RETURNING version";

    const SCHEMA_EXISTS: &'static str = "\
-- schema_exists
SELECT 1::bigint
WHERE to_regclass('_hapax_migrations') IS NOT NULL";
}
