-- Early refusal, never the guarantee. A free lock has no owner and `held_until` 0.
CREATE TABLE hapax_locks (
    name       BLOB    NOT NULL PRIMARY KEY CHECK (length(name) = 32),
    owner      BLOB,
    fence      INTEGER NOT NULL,
    held_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX hapax_locks_lapsed
ON hapax_locks (held_until);
