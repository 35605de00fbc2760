//! Every statement that SQLite speaks in its own way.
//!
//! A change is several statements in one text: the clock ticks, the journal is told, the rows are
//! changed. `json_each` has columns of its own, so each statement first names the members
//! that it wants.

use super::Sqlite;
use crate::sql::dialect::{Texts, letter, record};

pub(super) const VERSION: &str = "\
-- version
SELECT sqlite_version()";

pub(super) const WAL: &str = "\
-- wal
PRAGMA journal_mode = WAL";

/// A transaction that will write takes the lock at once: waiting for it later, with a snapshot
/// in hand, can't succeed.
pub(super) const BEGIN: &str = "\
-- begin
BEGIN IMMEDIATE;
SAVEPOINT hapax_witness";

/// Raises the clock's mark; what follows in the text reads the mark.
macro_rules! tick {
    () => {
        "UPDATE hapax_clock
SET latest = (SELECT now FROM hapax_now);
"
    };
}

/// The members of a claim.
macro_rules! claim {
    () => {
        "FROM (
    SELECT (SELECT latest FROM hapax_clock) AS now,
        unhex(value ->> 'id') AS id,
        value ->> 'scope' AS scope,
        value ->> 'tenant' AS tenant,
        value ->> 'subject' AS subject,
        value ->> 'operation' AS operation,
        value ->> 'key' AS key,
        unhex(value ->> 'nonce') AS nonce,
        unhex(value ->> 'prints') AS prints,
        unhex(value ->> 'print') AS print,
        unhex(value ->> 'older_print') AS older_print,
        value ->> 'class' AS class,
        value ->> 'lease' AS lease,
        value ->> 'retake_after' AS retake_after,
        value ->> 'retake_for' AS retake_for,
        value ->> 'attempts_max' AS attempts_max,
        value ->> 'caller' AS caller
    FROM json_each($1)
) AS claim"
    };
}

/// The members of a step that is taken under a fence.
macro_rules! fenced {
    () => {
        "FROM (
    SELECT (SELECT latest FROM hapax_clock) AS now,
        unhex(value ->> 'id') AS id,
        value ->> 'epoch' AS epoch,
        unhex(value ->> 'nonce') AS nonce,
        unhex(value ->> 'bytes') AS bytes,
        value ->> 'lease' AS lease,
        value ->> 'keep' AS keep,
        value ->> 'grace' AS grace,
        value ->> 'memory' AS memory,
        value ->> 'actor' AS actor,
        value ->> 'note' AS note
    FROM json_each($1)
) AS step"
    };
}

/// What a claim got, in the order in which `batch` reads it.
macro_rules! held {
    () => {
        "RETURNING id, epoch, (SELECT latest FROM hapax_clock), nonce, attempts, created_at, class,
    checkpoint"
    };
}

/// What a step changed, in the order in which `batch` reads it.
macro_rules! changed {
    () => {
        "RETURNING id, epoch, (SELECT latest FROM hapax_clock)"
    };
}

/// A record that counts as absent, or that was given back.
macro_rules! free {
    () => {
        "
WHERE r.id = claim.id
    AND (
        r.reuse_at <= claim.now
        OR (r.state = 4 AND r.nonce <> claim.nonce)
    )
"
    };
}

/// An attempt that died, under terms that permit a take-over.
macro_rules! dead {
    () => {
        "
WHERE r.id = claim.id
    AND r.state IN (1, 3)
    AND r.nonce <> claim.nonce
    AND r.attempts < claim.attempts_max
    AND r.lease_until <= claim.now - r.retake_after
    AND r.lease_until <= claim.now - claim.retake_after
    AND (r.retake_until IS NULL OR r.retake_until > claim.now)
    AND (claim.retake_for IS NULL OR r.created_at + claim.retake_for > claim.now)
    AND (
        length(r.prints) = 0
        OR claim.print IS NULL
        OR claim.print IN (substr(r.prints, 1, 34), substr(r.prints, 35, 34))
        OR claim.older_print IN (substr(r.prints, 1, 34), substr(r.prints, 35, 34))
    )
"
    };
}

/// The very attempt that a step names, in a state in which the step means something.
macro_rules! ours {
    ($states:literal) => {
        concat!(
            "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.nonce = step.nonce
    AND r.state IN ",
            $states,
            "
"
        )
    };
}

/// An attempt that is over and may be judged.
macro_rules! over {
    () => {
        "
WHERE r.id = step.id
    AND r.epoch = step.epoch
    AND r.state IN (1, 3)
    AND (r.state = 1 OR r.nonce <> step.nonce)
    AND r.lease_until <= step.now - coalesce(r.retake_after, 0)
"
    };
}

/// Tells the journal what the change that follows is about to do, under the same guard.
macro_rules! tell {
    ($values:literal) => {
        concat!(
            "INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT ",
            $values,
            "
"
        )
    };
}

impl Texts for Sqlite {
    const CLAIM_INSERT: &'static str = concat!(
        "-- claim_insert\n",
        tick!(),
        tell!("claim.id, claim.now, claim.now, 'claimed', claim.caller, ''"),
        claim!(),
        "
WHERE NOT EXISTS (SELECT 1 FROM hapax_records AS r WHERE r.id = claim.id);
INSERT INTO hapax_records (
    id, scope, tenant, subject, operation, key_text, class, state, epoch, nonce, prints,
    lease_until, retake_after, retake_until, attempts, caller, created_at, format)
SELECT claim.id, claim.scope, claim.tenant, claim.subject, claim.operation, claim.key, claim.class,
    1, claim.now, claim.nonce, claim.prints, claim.now + claim.lease, claim.retake_after,
    claim.now + claim.retake_for, 1, claim.caller, claim.now, 1
",
        claim!(),
        "
WHERE true
ON CONFLICT (id) DO NOTHING
",
        held!()
    );

    const CLAIM_REUSE: &'static str = concat!(
        "-- claim_reuse\n",
        tick!(),
        tell!("r.id, claim.now, max(r.epoch + 1, claim.now), 'claimed', claim.caller, ''"),
        claim!(),
        "
CROSS JOIN hapax_records AS r",
        free!(),
        ";
UPDATE hapax_records AS r
SET class = claim.class,
    state = 1,
    epoch = max(r.epoch + 1, claim.now),
    nonce = claim.nonce,
    prints = claim.prints,
    lease_until = claim.now + claim.lease,
    retake_after = claim.retake_after,
    retake_until = claim.now + claim.retake_for,
    expires_at = NULL,
    reuse_at = NULL,
    checkpoint = NULL,
    outcome = NULL,
    attempts = 1,
    caller = claim.caller,
    created_at = claim.now,
    completed_at = NULL,
    format = 1
",
        claim!(),
        free!(),
        held!()
    );

    const CLAIM_RETAKE: &'static str = concat!(
        "-- claim_retake\n",
        tick!(),
        tell!("r.id, claim.now, max(r.epoch + 1, claim.now), 'retaken', claim.caller, ''"),
        claim!(),
        "
CROSS JOIN hapax_records AS r",
        dead!(),
        ";
UPDATE hapax_records AS r
SET class = max(r.class, claim.class),
    state = 1,
    epoch = max(r.epoch + 1, claim.now),
    nonce = claim.nonce,
    lease_until = claim.now + claim.lease,
    retake_after = max(r.retake_after, claim.retake_after),
    retake_until = coalesce(
        min(r.retake_until, r.created_at + claim.retake_for),
        r.retake_until,
        r.created_at + claim.retake_for),
    attempts = r.attempts + 1,
    caller = claim.caller
",
        claim!(),
        dead!(),
        held!()
    );

    const RENEW: &'static str = concat!(
        "-- renew\n",
        tick!(),
        "UPDATE hapax_records AS r
SET lease_until = step.now + step.lease
",
        fenced!(),
        ours!("(1)"),
        changed!()
    );

    const CHECKPOINT: &'static str = concat!(
        "-- checkpoint\n",
        tick!(),
        "UPDATE hapax_records AS r
SET checkpoint = step.bytes
",
        fenced!(),
        ours!("(1)"),
        changed!()
    );

    const COMPLETE: &'static str = concat!(
        "-- complete\n",
        tick!(),
        tell!("r.id, step.now, r.epoch, 'completed', r.caller, ''"),
        fenced!(),
        "
CROSS JOIN hapax_records AS r",
        ours!("(1, 3)"),
        ";
UPDATE hapax_records AS r
SET state = 2,
    outcome = step.bytes,
    checkpoint = NULL,
    completed_at = step.now,
    expires_at = step.now + step.keep,
    reuse_at = max(step.now + step.keep + step.grace, r.epoch + 1)
",
        fenced!(),
        ours!("(1, 3)"),
        changed!()
    );

    const DOUBT: &'static str = concat!(
        "-- doubt\n",
        tick!(),
        tell!("r.id, step.now, r.epoch, 'doubted', r.caller, step.note"),
        fenced!(),
        "
CROSS JOIN hapax_records AS r",
        ours!("(1)"),
        ";
UPDATE hapax_records AS r
SET state = 3,
    lease_until = step.now
",
        fenced!(),
        ours!("(1)"),
        changed!()
    );

    const RELEASE: &'static str = concat!(
        "-- release\n",
        tick!(),
        tell!("r.id, step.now, r.epoch, 'released', r.caller, ''"),
        fenced!(),
        "
CROSS JOIN hapax_records AS r",
        ours!("(1, 3)"),
        ";
UPDATE hapax_records AS r
SET state = 4,
    prints = x'',
    checkpoint = NULL,
    reuse_at = max(step.now + step.memory, r.epoch + 1)
",
        fenced!(),
        ours!("(1, 3)"),
        changed!()
    );

    const SETTLE_COMPLETED: &'static str = concat!(
        "-- settle_completed\n",
        tick!(),
        tell!("r.id, step.now, max(r.epoch + 1, step.now), 'settled', step.actor, step.note"),
        fenced!(),
        "
CROSS JOIN hapax_records AS r",
        over!(),
        ";
UPDATE hapax_records AS r
SET state = 2,
    epoch = max(r.epoch + 1, step.now),
    nonce = step.nonce,
    outcome = step.bytes,
    checkpoint = NULL,
    completed_at = step.now,
    expires_at = step.now + step.keep,
    reuse_at = max(step.now + step.keep + step.grace, r.epoch + 2, step.now + 1)
",
        fenced!(),
        over!(),
        changed!()
    );

    const SETTLE_OPEN: &'static str = concat!(
        "-- settle_open\n",
        tick!(),
        tell!("r.id, step.now, max(r.epoch + 1, step.now), 'settled', step.actor, step.note"),
        fenced!(),
        "
CROSS JOIN hapax_records AS r",
        over!(),
        ";
UPDATE hapax_records AS r
SET state = 4,
    epoch = max(r.epoch + 1, step.now),
    nonce = step.nonce,
    prints = x'',
    checkpoint = NULL,
    reuse_at = max(step.now + step.memory, r.epoch + 2, step.now + 1)
",
        fenced!(),
        over!(),
        changed!()
    );

    const LOOK: &'static str = concat!(
        "-- look
SELECT wanted.key, (SELECT now FROM hapax_now), ",
        record!(),
        "
FROM json_each($1) AS wanted
LEFT JOIN hapax_records AS r
    ON r.id = unhex(wanted.value)"
    );

    const SCAN_UNFINISHED: &'static str = concat!(
        "-- scan_unfinished
SELECT ",
        record!(),
        "
FROM hapax_records AS r INDEXED BY hapax_records_unfinished
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
WHERE id IN (
    SELECT old.id
    FROM hapax_records AS old
    WHERE old.reuse_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.reuse_at
    LIMIT $1
)";

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
WHERE true
ON CONFLICT (id) DO NOTHING
RETURNING sequence";

    const OUTBOX_CLAIM: &'static str = concat!(
        "-- outbox_claim\n",
        tick!(),
        "UPDATE hapax_outbox
SET visible_at = clock.latest + $2,
    token = $3
FROM hapax_clock AS clock
WHERE sequence IN (
    SELECT due.sequence
    FROM hapax_outbox AS due
    WHERE due.visible_at <= (SELECT latest FROM hapax_clock)
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
)
RETURNING ",
        letter!()
    );

    const OUTBOX_ACK: &'static str = "\
-- outbox_ack
DELETE FROM hapax_outbox
WHERE id = $1
    AND token = $2
RETURNING sequence";

    const OUTBOX_RETRY: &'static str = concat!(
        "-- outbox_retry\n",
        tick!(),
        "UPDATE hapax_outbox
SET visible_at = clock.latest + $3,
    token = NULL,
    attempts = $4
FROM hapax_clock AS clock
WHERE id = $1
    AND token = $2
RETURNING sequence"
    );

    const OUTBOX_BURY: &'static str = concat!(
        "-- outbox_bury\n",
        tick!(),
        "INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT id, clock.latest, 'buried', 'relay', $3
FROM hapax_outbox
CROSS JOIN hapax_clock AS clock
WHERE id = $1
    AND token = $2;
UPDATE hapax_outbox
SET visible_at = NULL,
    token = NULL,
    why = $3
WHERE id = $1
    AND token = $2
RETURNING sequence"
    );

    const OUTBOX_REPLAY: &'static str = concat!(
        "-- outbox_replay\n",
        tick!(),
        "INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT id, clock.latest, 'replayed', $2, $3
FROM hapax_outbox
CROSS JOIN hapax_clock AS clock
WHERE id = $1
    AND visible_at IS NULL;
UPDATE hapax_outbox
SET visible_at = clock.latest,
    attempts = 0,
    why = NULL
FROM hapax_clock AS clock
WHERE id = $1
    AND visible_at IS NULL
RETURNING sequence"
    );

    const OUTBOX_PURGE: &'static str = "\
-- outbox_purge
DELETE FROM hapax_outbox
WHERE sequence IN (
    SELECT old.sequence
    FROM hapax_outbox AS old
    WHERE old.visible_at IS NULL
        AND old.created_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.sequence
    LIMIT $1
)";

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
WHERE true
ON CONFLICT (consumer, message) DO NOTHING
RETURNING seen_at";

    const INBOX_PURGE: &'static str = "\
-- inbox_purge
DELETE FROM hapax_inbox
WHERE (consumer, message) IN (
    SELECT old.consumer, old.message
    FROM hapax_inbox AS old
    WHERE old.seen_at <= (SELECT now FROM hapax_now) - $2
    ORDER BY old.seen_at
    LIMIT $1
)";

    const LOCK_ACQUIRE: &'static str = concat!(
        "-- lock_acquire\n",
        tick!(),
        "INSERT INTO hapax_locks AS k (name, owner, fence, held_until)
SELECT $1, $2, latest, latest + $3
FROM hapax_clock
WHERE true
ON CONFLICT (name) DO UPDATE
SET fence = CASE
        WHEN k.owner = $2 AND k.held_until > excluded.fence THEN k.fence
        ELSE max(k.fence + 1, excluded.fence)
    END,
    owner = excluded.owner,
    held_until = excluded.held_until
WHERE k.held_until <= excluded.fence
    OR k.owner = $2
RETURNING fence"
    );

    const LOCK_RENEW: &'static str = concat!(
        "-- lock_renew\n",
        tick!(),
        "UPDATE hapax_locks
SET held_until = clock.latest + $3
FROM hapax_clock AS clock
WHERE name = $1
    AND owner = $2
    AND held_until > clock.latest
RETURNING fence"
    );

    const LOCK_RELEASE: &'static str = concat!(
        "-- lock_release\n",
        tick!(),
        "UPDATE hapax_locks
SET owner = NULL,
    held_until = 0
FROM hapax_clock AS clock
WHERE name = $1
    AND owner = $2
    AND held_until > clock.latest
RETURNING fence"
    );

    const LOCK_PURGE: &'static str = "\
-- lock_purge
DELETE FROM hapax_locks
WHERE name IN (
    SELECT lapsed.name
    FROM hapax_locks AS lapsed
    WHERE lapsed.held_until <= (SELECT now FROM hapax_now) - $2
        AND lapsed.fence < (SELECT now FROM hapax_now)
    ORDER BY lapsed.held_until
    LIMIT $1
)";

    const TRANSITION_WRITE: &'static str = "\
-- transition_write
INSERT INTO hapax_transitions (
    kind, entity, version, from_state, to_state, event, actor, at)
SELECT $1, $2, $3, $4, $5, $6, $7, now
FROM hapax_now
WHERE true
ON CONFLICT (kind, entity, version) DO NOTHING
RETURNING version";

    const SCHEMA_EXISTS: &'static str = "\
-- schema_exists
SELECT 1
FROM sqlite_schema
WHERE type = 'table'
    AND name = '_hapax_migrations'";
}
