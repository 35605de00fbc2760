-- Messages on their way out. `visible_at` carries delay, lease and retry; NULL is buried.
CREATE TABLE hapax_outbox (
    sequence   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id         BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    topic      TEXT    NOT NULL,
    key_text   TEXT    NOT NULL,
    payload    BLOB    NOT NULL,
    visible_at INTEGER,
    token      BLOB,
    attempts   INTEGER NOT NULL,
    why        TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX hapax_outbox_due
ON hapax_outbox (visible_at)
WHERE visible_at IS NOT NULL;

-- The oldest living message of each key.
CREATE INDEX hapax_outbox_heads
ON hapax_outbox (key_text, sequence)
WHERE visible_at IS NOT NULL AND key_text <> '';

CREATE INDEX hapax_outbox_buried
ON hapax_outbox (sequence)
WHERE visible_at IS NULL;

-- Who gave a message up or sent it again, and why.
CREATE TABLE hapax_outbox_journal (
    sequence INTEGER NOT NULL PRIMARY KEY,
    message  BLOB    NOT NULL,
    at       INTEGER NOT NULL,
    event    TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    reason   TEXT    NOT NULL
) STRICT;

CREATE INDEX hapax_outbox_journal_message
ON hapax_outbox_journal (message);

-- Messages that a consumer has seen. The row is written in the consumer's own transaction.
CREATE TABLE hapax_inbox (
    consumer TEXT    NOT NULL,
    message  BLOB    NOT NULL CHECK (length(message) = 16),
    seen_at  INTEGER NOT NULL,
    PRIMARY KEY (consumer, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX hapax_inbox_seen
ON hapax_inbox (seen_at);
