-- Text is VARBINARY: a collation would take two keys for one. Each step of the schema commits by
-- itself, so that a step that was cut short is taken again.

-- The store's clock: the server's, never the application's, whatever its time zone.
CREATE OR REPLACE VIEW hapax_now (now) AS
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000;

-- One row for one operation. `id` is the only arbiter; times are milliseconds since 1970.
-- class: 1 transactional, 2 keyed, 3 queryable, 4 opaque.
-- state: 1 claimed, 2 completed, 3 unknown, 4 open.
-- `unfinished` is what the completer looks for, and what a purge removes is in `reuse_at`.
CREATE TABLE IF NOT EXISTS hapax_records (
    id           BINARY(32)     NOT NULL PRIMARY KEY,
    scope        VARBINARY(16)  NOT NULL,
    tenant       VARBINARY(255) NOT NULL,
    subject      VARBINARY(255) NOT NULL,
    operation    VARBINARY(255) NOT NULL,
    key_text     VARBINARY(512) NOT NULL,
    class        BIGINT         NOT NULL,
    state        BIGINT         NOT NULL,
    epoch        BIGINT         NOT NULL,
    nonce        BINARY(16)     NOT NULL,
    prints       TINYBLOB       NOT NULL,
    lease_until  BIGINT         NOT NULL,
    retake_after BIGINT,
    retake_until BIGINT,
    expires_at   BIGINT,
    reuse_at     BIGINT,
    checkpoint   LONGBLOB,
    outcome      LONGBLOB,
    attempts     BIGINT         NOT NULL,
    caller       VARBINARY(255) NOT NULL,
    created_at   BIGINT         NOT NULL,
    completed_at BIGINT,
    format       BIGINT         NOT NULL,
    unfinished   BINARY(32) AS (CASE WHEN state IN (1, 3) THEN id END) VIRTUAL,
    KEY hapax_records_reusable (reuse_at),
    KEY hapax_records_unfinished (unfinished, operation)
) ENGINE = InnoDB;

-- What happened to each record. Rows are only added, and removed from the old end.
CREATE TABLE IF NOT EXISTS hapax_journal (
    sequence BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    record   BINARY(32)     NOT NULL,
    at       BIGINT         NOT NULL,
    epoch    BIGINT         NOT NULL,
    event    VARBINARY(16)  NOT NULL,
    actor    VARBINARY(255) NOT NULL,
    note     VARBINARY(255) NOT NULL,
    KEY hapax_journal_record (record)
) ENGINE = InnoDB;
