-- Messages on their way out. `visible_at` carries delay, lease and retry; NULL is buried.
CREATE TABLE IF NOT EXISTS hapax_outbox (
    sequence   BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id         BINARY(16)     NOT NULL,
    topic      VARBINARY(255) NOT NULL,
    key_text   VARBINARY(255) NOT NULL,
    payload    LONGBLOB       NOT NULL,
    visible_at BIGINT,
    token      BINARY(16),
    attempts   BIGINT         NOT NULL,
    why        VARBINARY(255),
    created_at BIGINT         NOT NULL,
    UNIQUE KEY hapax_outbox_id (id),
    KEY hapax_outbox_due (visible_at, sequence),
    KEY hapax_outbox_heads (key_text, sequence, visible_at)
) ENGINE = InnoDB;

-- Who gave a message up or sent it again, and why.
CREATE TABLE IF NOT EXISTS hapax_outbox_journal (
    sequence BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    message  BINARY(16)     NOT NULL,
    at       BIGINT         NOT NULL,
    event    VARBINARY(16)  NOT NULL,
    actor    VARBINARY(255) NOT NULL,
    reason   VARBINARY(255) NOT NULL,
    KEY hapax_outbox_journal_message (message)
) ENGINE = InnoDB;

-- Messages that a consumer has seen. The row is written in the consumer's own transaction.
CREATE TABLE IF NOT EXISTS hapax_inbox (
    consumer VARBINARY(255) NOT NULL,
    message  BINARY(16)     NOT NULL,
    seen_at  BIGINT         NOT NULL,
    PRIMARY KEY (consumer, message),
    KEY hapax_inbox_seen (seen_at)
) ENGINE = InnoDB;
