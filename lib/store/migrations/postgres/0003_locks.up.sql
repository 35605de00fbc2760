-- Early refusal, never the guarantee. A free lock has no owner and `held_until` 0.
CREATE TABLE hapax_locks (
    name       bytea  NOT NULL PRIMARY KEY CHECK (length(name) = 32),
    owner      bytea,
    fence      bigint NOT NULL,
    held_until bigint NOT NULL
);

CREATE INDEX hapax_locks_lapsed
ON hapax_locks (held_until);
