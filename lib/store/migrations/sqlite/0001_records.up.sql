-- The store's clock: the latest time that was given out. It never goes back.
CREATE TABLE hapax_clock (
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    latest INTEGER NOT NULL
) STRICT;

INSERT INTO hapax_clock (one, latest)
VALUES (1, 0);

CREATE VIEW hapax_now (now) AS
SELECT max(latest, CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
FROM hapax_clock;

-- One row for one operation. `id` is the only arbiter; times are milliseconds since 1970.
-- class: 1 transactional, 2 keyed, 3 queryable, 4 opaque.
-- state: 1 claimed, 2 completed, 3 unknown, 4 open.
CREATE TABLE hapax_records (
    id           BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    scope        TEXT    NOT NULL,
    tenant       TEXT    NOT NULL,
    subject      TEXT    NOT NULL,
    operation    TEXT    NOT NULL,
    key_text     TEXT    NOT NULL,
    class        INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    nonce        BLOB    NOT NULL CHECK (length(nonce) = 16),
    prints       BLOB    NOT NULL,
    lease_until  INTEGER NOT NULL,
    retake_after INTEGER,
    retake_until INTEGER,
    expires_at   INTEGER,
    reuse_at     INTEGER,
    checkpoint   BLOB,
    outcome      BLOB,
    attempts     INTEGER NOT NULL,
    caller       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    completed_at INTEGER,
    format       INTEGER NOT NULL
) STRICT;

-- What a purge removes, oldest first.
CREATE INDEX hapax_records_reusable
ON hapax_records (reuse_at)
WHERE reuse_at IS NOT NULL;

-- What the completer looks for. Small: finished records are not in it.
CREATE INDEX hapax_records_unfinished
ON hapax_records (id, operation)
WHERE state IN (1, 3);

-- What happened to each record. Rows are only added, and removed from the old end.
CREATE TABLE hapax_journal (
    sequence INTEGER NOT NULL PRIMARY KEY,
    record   BLOB    NOT NULL,
    at       INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    event    TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    note     TEXT    NOT NULL
) STRICT;

CREATE INDEX hapax_journal_record
ON hapax_journal (record);
