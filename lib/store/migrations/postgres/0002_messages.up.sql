-- Messages on their way out. `visible_at` carries delay, lease and retry; NULL is buried.
CREATE TABLE hapax_outbox (
    sequence   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bytea  NOT NULL UNIQUE CHECK (length(id) = 16),
    topic      text   NOT NULL,
    key_text   text   NOT NULL,
    payload    bytea  NOT NULL,
    visible_at bigint,
    token      bytea,
    attempts   bigint NOT NULL,
    why        text,
    created_at bigint NOT NULL
);

CREATE INDEX hapax_outbox_due
ON hapax_outbox (visible_at, sequence)
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
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message  bytea  NOT NULL,
    at       bigint NOT NULL,
    event    text   NOT NULL,
    actor    text   NOT NULL,
    reason   text   NOT NULL
);

CREATE INDEX hapax_outbox_journal_message
ON hapax_outbox_journal (message);

-- Messages that a consumer has seen. The row is written in the consumer's own transaction.
CREATE TABLE hapax_inbox (
    consumer text   NOT NULL,
    message  bytea  NOT NULL CHECK (length(message) = 16),
    seen_at  bigint NOT NULL,
    PRIMARY KEY (consumer, message)
);

CREATE INDEX hapax_inbox_seen
ON hapax_inbox (seen_at);
