-- Every change of state of every entity. A version is written once.
CREATE TABLE hapax_transitions (
    kind       text   NOT NULL,
    entity     text   NOT NULL,
    version    bigint NOT NULL,
    from_state text   NOT NULL,
    to_state   text   NOT NULL,
    event      text   NOT NULL,
    actor      text   NOT NULL,
    at         bigint NOT NULL,
    PRIMARY KEY (kind, entity, version)
);
