-- The store's clock: the server's, never the application's.
CREATE VIEW hapax_now (now) AS
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- One row for one operation. `id` is the only arbiter; times are milliseconds since 1970.
-- class: 1 transactional, 2 keyed, 3 queryable, 4 opaque.
-- state: 1 claimed, 2 completed, 3 unknown, 4 open.
CREATE TABLE hapax_records (
    id           bytea  NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    scope        text   NOT NULL,
    tenant       text   NOT NULL,
    subject      text   NOT NULL,
    operation    text   NOT NULL,
    key_text     text   NOT NULL,
    class        bigint NOT NULL,
    state        bigint NOT NULL,
    epoch        bigint NOT NULL,
    nonce        bytea  NOT NULL CHECK (length(nonce) = 16),
    prints       bytea  NOT NULL,
    lease_until  bigint NOT NULL,
    retake_after bigint,
    retake_until bigint,
    expires_at   bigint,
    reuse_at     bigint,
    checkpoint   bytea,
    outcome      bytea,
    attempts     bigint NOT NULL,
    caller       text   NOT NULL,
    created_at   bigint NOT NULL,
    completed_at bigint,
    format       bigint NOT NULL
);

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
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record   bytea  NOT NULL,
    at       bigint NOT NULL,
    epoch    bigint NOT NULL,
    event    text   NOT NULL,
    actor    text   NOT NULL,
    note     text   NOT NULL
);

CREATE INDEX hapax_journal_record
ON hapax_journal (record);
