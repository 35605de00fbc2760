-- Early refusal, never the guarantee. A free lock has no owner and `held_until` 0.
CREATE TABLE IF NOT EXISTS hapax_locks (
    name       BINARY(32) NOT NULL PRIMARY KEY,
    owner      BINARY(16),
    fence      BIGINT     NOT NULL,
    held_until BIGINT     NOT NULL,
    KEY hapax_locks_lapsed (held_until)
) ENGINE = InnoDB;
