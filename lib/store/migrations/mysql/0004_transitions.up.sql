-- Every change of state of every entity. A version is written once.
CREATE TABLE IF NOT EXISTS hapax_transitions (
    kind       VARBINARY(255) NOT NULL,
    entity     VARBINARY(255) NOT NULL,
    version    BIGINT         NOT NULL,
    from_state VARBINARY(255) NOT NULL,
    to_state   VARBINARY(255) NOT NULL,
    event      VARBINARY(255) NOT NULL,
    actor      VARBINARY(255) NOT NULL,
    at         BIGINT         NOT NULL,
    PRIMARY KEY (kind, entity, version)
) ENGINE = InnoDB;
