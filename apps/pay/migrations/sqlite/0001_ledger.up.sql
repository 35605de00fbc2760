-- Orders, payments, refunds, benefits and notices. Money is in minor units, time in milliseconds
-- since 1970 by the store's clock.

CREATE TABLE pay_orders (
    tenant      TEXT    NOT NULL,
    order_id    TEXT    NOT NULL,
    round       INTEGER NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount > 0),
    currency    TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    benefits    TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('pending', 'paid', 'closed')),
    fulfillable INTEGER NOT NULL CHECK (fulfillable IN (0, 1)),
    paid_by     TEXT,
    attempts    INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, order_id, round),
    CHECK ((status = 'paid') = (paid_by IS NOT NULL))
) STRICT;

CREATE TABLE pay_payments (
    payment_no     TEXT    NOT NULL PRIMARY KEY,
    tenant         TEXT    NOT NULL,
    order_id       TEXT    NOT NULL,
    round          INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    channel        TEXT    NOT NULL,
    way            TEXT    NOT NULL,
    amount         INTEGER NOT NULL CHECK (amount > 0),
    currency       TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    reserved       INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    refunded       INTEGER NOT NULL DEFAULT 0 CHECK (refunded >= 0),
    given_back     INTEGER NOT NULL DEFAULT 0 CHECK (given_back >= 0),
    status         TEXT    NOT NULL
        CHECK (status IN ('created', 'waiting', 'closing', 'closed', 'paid', 'failed')),
    surplus        INTEGER NOT NULL DEFAULT 0 CHECK (surplus IN (0, 1)),
    version        INTEGER NOT NULL,
    trade_no       TEXT,
    frozen         BLOB    NOT NULL,
    pay_data       TEXT,
    failure        TEXT,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    paid_at        INTEGER,
    next_check_at  INTEGER,
    checks         INTEGER NOT NULL DEFAULT 0,
    check_token    BLOB,
    UNIQUE (tenant, order_id, round, attempt),
    FOREIGN KEY (tenant, order_id, round) REFERENCES pay_orders (tenant, order_id, round),
    CHECK (reserved + refunded <= amount),
    CHECK (given_back <= amount)
) STRICT;

-- The slot: at most one attempt of an order can still be paid. History is unlimited.
CREATE UNIQUE INDEX pay_payments_slot ON pay_payments (tenant, order_id)
    WHERE status IN ('created', 'waiting', 'closing');

CREATE INDEX pay_payments_due ON pay_payments (next_check_at, payment_no)
    WHERE next_check_at IS NOT NULL;

CREATE TABLE pay_refunds (
    tenant        TEXT    NOT NULL,
    refund_no     TEXT    NOT NULL,
    payment_no    TEXT    NOT NULL REFERENCES pay_payments (payment_no),
    amount        INTEGER NOT NULL CHECK (amount > 0),
    currency      TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    origin        TEXT    NOT NULL CHECK (origin IN ('merchant', 'auto')),
    status        TEXT    NOT NULL CHECK (status IN ('reserved', 'sent', 'done', 'refused')),
    version       INTEGER NOT NULL,
    frozen        BLOB,
    failure       TEXT,
    created_at    INTEGER NOT NULL,
    sent_at       INTEGER,
    done_at       INTEGER,
    next_check_at INTEGER,
    checks        INTEGER NOT NULL DEFAULT 0,
    check_token   BLOB,
    PRIMARY KEY (tenant, refund_no)
) STRICT;

CREATE INDEX pay_refunds_payment ON pay_refunds (payment_no);
CREATE INDEX pay_refunds_due ON pay_refunds (next_check_at, tenant, refund_no)
    WHERE next_check_at IS NOT NULL;

CREATE TABLE pay_benefits (
    tenant     TEXT    NOT NULL,
    order_id   TEXT    NOT NULL,
    round      INTEGER NOT NULL,
    benefit    TEXT    NOT NULL,
    payment_no TEXT    NOT NULL REFERENCES pay_payments (payment_no),
    status     TEXT    NOT NULL
        CHECK (status IN ('due', 'granted', 'cancelled', 'revoke_due', 'revoked')),
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, order_id, round, benefit)
) STRICT;

-- What was really given and taken back. Append-only and without a unique constraint, so that a
-- duplicate would be seen instead of hidden.
CREATE TABLE pay_effects (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL,
    order_id   TEXT    NOT NULL,
    round      INTEGER NOT NULL,
    benefit    TEXT    NOT NULL,
    kind       TEXT    NOT NULL CHECK (kind IN ('grant', 'revoke')),
    message_id TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;

CREATE TABLE pay_notices (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT    NOT NULL,
    channel     TEXT    NOT NULL,
    account     TEXT    NOT NULL,
    notify_id   TEXT    NOT NULL,
    payment_no  TEXT,
    status      TEXT    NOT NULL CHECK (status IN ('unmatched', 'quarantined', 'settled')),
    reason      TEXT    NOT NULL,
    body        BLOB    NOT NULL,
    deliveries  INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    settled_at  INTEGER,
    UNIQUE (channel, account, notify_id)
) STRICT;

-- Notices that wait for their payment: looked for at each creation.
CREATE INDEX pay_notices_unmatched ON pay_notices (payment_no)
    WHERE status = 'unmatched';

-- What a purge removes, oldest first.
CREATE INDEX pay_notices_settled ON pay_notices (settled_at)
    WHERE status = 'settled';

-- Each start of the service. One that was never stopped was killed, or runs.
CREATE TABLE pay_runs (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at INTEGER NOT NULL,
    stopped_at INTEGER
) STRICT;

-- Requests to create a payment, repeats included: for analysis, never for decisions.
CREATE TABLE pay_requests (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    tenant    TEXT    NOT NULL,
    record    TEXT    NOT NULL,
    status    INTEGER NOT NULL,
    is_replay INTEGER NOT NULL CHECK (is_replay IN (0, 1))
) STRICT;
