-- Every change of state of every entity. A version is written once.
CREATE TABLE hapax_transitions (
    kind       TEXT    NOT NULL,
    entity     TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    from_state TEXT    NOT NULL,
    to_state   TEXT    NOT NULL,
    event      TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (kind, entity, version)
) STRICT, WITHOUT ROWID;
