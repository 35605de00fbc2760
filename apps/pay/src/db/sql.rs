//! Every statement of the payment service, as SQLite speaks it.

pub(super) const INSERT_ORDER: &str = "\
-- insert_order
INSERT INTO pay_orders
    (tenant, order_id, round, amount, currency, subject, benefits,
     status, fulfillable, attempts, version, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', 1, 0, 1, ?8, ?8)
ON CONFLICT (tenant, order_id, round) DO NOTHING";

pub(super) const NEWEST_ORDER: &str = "\
-- newest_order
SELECT order_id, round, amount, currency, subject, benefits, status, paid_by
FROM pay_orders
WHERE tenant = ?1 AND order_id = ?2
ORDER BY round DESC
LIMIT 1";

pub(super) const ORDER: &str = "\
-- order
SELECT order_id, round, amount, currency, subject, benefits, status, paid_by
FROM pay_orders
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3";

pub(super) const NEXT_ATTEMPT: &str = "\
-- next_attempt
UPDATE pay_orders
SET attempts = attempts + 1, status = 'pending', fulfillable = 1, version = version + 1,
    updated_at = ?4
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3 AND status <> 'paid'
RETURNING attempts";

/// The one conditional write that says which attempt paid for an order.
pub(super) const PAY_ORDER: &str = "\
-- pay_order
UPDATE pay_orders
SET status = 'paid', paid_by = ?4, version = version + 1, updated_at = ?5
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3
    AND paid_by IS NULL
    AND fulfillable = 1";

pub(super) const CLOSE_ORDER: &str = "\
-- close_order
UPDATE pay_orders
SET status = 'closed', fulfillable = ?4, version = version + 1, updated_at = ?5
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3
    AND status = 'pending'
    AND NOT EXISTS (
        SELECT 1
        FROM pay_payments
        WHERE pay_payments.tenant = pay_orders.tenant
            AND pay_payments.order_id = pay_orders.order_id
            AND pay_payments.round = pay_orders.round
            AND pay_payments.status IN ('created', 'waiting', 'closing', 'paid')
    )";

pub(super) const INSERT_PAYMENT: &str = "\
-- insert_payment
INSERT INTO pay_payments
    (payment_no, tenant, order_id, round, attempt, channel, way, amount, currency, subject,
     status, version, frozen, created_at, updated_at, expires_at, next_check_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'created', 1, ?11, ?12, ?12, ?13, ?14)
ON CONFLICT DO NOTHING";

pub(super) const PAYMENT: &str = "\
-- payment
SELECT payment_no, tenant, order_id, round, attempt, channel, way, amount, currency, subject,
    reserved, refunded, given_back, status, surplus, version, trade_no, frozen, pay_data, failure,
    created_at, expires_at, paid_at, checks
FROM pay_payments
WHERE payment_no = ?1";

pub(super) const LIVE_PAYMENT: &str = "\
-- live_payment
SELECT payment_no, tenant, order_id, round, attempt, channel, way, amount, currency, subject,
    reserved, refunded, given_back, status, surplus, version, trade_no, frozen, pay_data, failure,
    created_at, expires_at, paid_at, checks
FROM pay_payments
WHERE tenant = ?1 AND order_id = ?2 AND status IN ('created', 'waiting', 'closing')";

pub(super) const PAYMENTS_OF_ORDER: &str = "\
-- payments_of_order
SELECT payment_no, tenant, order_id, round, attempt, channel, way, amount, currency, subject,
    reserved, refunded, given_back, status, surplus, version, trade_no, frozen, pay_data, failure,
    created_at, expires_at, paid_at, checks
FROM pay_payments
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3
ORDER BY attempt";

pub(super) const MOVE_PAYMENT: &str = "\
-- move_payment
UPDATE pay_payments
SET status = ?4, version = version + 1, updated_at = ?5, next_check_at = ?6, checks = 0,
    check_token = NULL
WHERE payment_no = ?1 AND status = ?2 AND version = ?3";

/// Pay data is stored once, and only from the state in which it was asked for.
pub(super) const STORE_PAY_DATA: &str = "\
-- store_pay_data
UPDATE pay_payments
SET pay_data = ?2
WHERE payment_no = ?1 AND pay_data IS NULL";

pub(super) const STORE_FAILURE: &str = "\
-- store_failure
UPDATE pay_payments
SET failure = ?2
WHERE payment_no = ?1";

pub(super) const STORE_TRADE: &str = "\
-- store_trade
UPDATE pay_payments
SET trade_no = coalesce(trade_no, ?2), paid_at = coalesce(paid_at, ?3)
WHERE payment_no = ?1";

pub(super) const MARK_SURPLUS: &str = "\
-- mark_surplus
UPDATE pay_payments
SET surplus = 1
WHERE payment_no = ?1";

/// What the channel says it gave back in all; it never falls.
pub(super) const STORE_GIVEN_BACK: &str = "\
-- store_given_back
UPDATE pay_payments
SET given_back = ?2, updated_at = ?3
WHERE payment_no = ?1 AND given_back < ?2";

pub(super) const RESERVE: &str = "\
-- reserve
UPDATE pay_payments
SET reserved = reserved + ?2, updated_at = ?3
WHERE payment_no = ?1
    AND status = 'paid'
    AND reserved + max(refunded, given_back) + ?2 <= amount";

pub(super) const SPEND_RESERVE: &str = "\
-- spend_reserve
UPDATE pay_payments
SET reserved = reserved - ?2, refunded = refunded + ?2, updated_at = ?3
WHERE payment_no = ?1 AND reserved >= ?2";

pub(super) const FREE_RESERVE: &str = "\
-- free_reserve
UPDATE pay_payments
SET reserved = reserved - ?2, updated_at = ?3
WHERE payment_no = ?1 AND reserved >= ?2";

pub(super) const LEASE_PAYMENTS: &str = "\
-- lease_payments
UPDATE pay_payments
SET next_check_at = ?2, check_token = ?3
WHERE payment_no IN (
    SELECT payment_no
    FROM pay_payments
    WHERE next_check_at IS NOT NULL AND next_check_at <= ?1
    ORDER BY next_check_at, payment_no
    LIMIT ?4
)
RETURNING payment_no";

pub(super) const CHECKED_PAYMENT: &str = "\
-- checked_payment
UPDATE pay_payments
SET next_check_at = ?3, checks = checks + 1, check_token = NULL
WHERE payment_no = ?1 AND check_token = ?2";

pub(super) const INSERT_REFUND: &str = "\
-- insert_refund
INSERT INTO pay_refunds
    (tenant, refund_no, payment_no, amount, currency, reason, origin,
     status, version, created_at, next_check_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'reserved', 1, ?8, ?8)
ON CONFLICT (tenant, refund_no) DO NOTHING";

pub(super) const REFUND: &str = "\
-- refund
SELECT tenant, refund_no, payment_no, amount, currency, reason, origin, status, version, frozen,
    failure, created_at, sent_at, done_at, checks
FROM pay_refunds
WHERE tenant = ?1 AND refund_no = ?2";

pub(super) const MOVE_REFUND: &str = "\
-- move_refund
UPDATE pay_refunds
SET status = ?5, version = version + 1, next_check_at = ?6, checks = 0, check_token = NULL,
    failure = coalesce(?7, failure), frozen = coalesce(?8, frozen),
    sent_at = CASE WHEN ?5 = 'sent' THEN ?9 ELSE sent_at END,
    done_at = CASE WHEN ?5 = 'done' THEN ?9 ELSE done_at END
WHERE tenant = ?1 AND refund_no = ?2 AND status = ?3 AND version = ?4";

pub(super) const LEASE_REFUNDS: &str = "\
-- lease_refunds
UPDATE pay_refunds
SET next_check_at = ?2, check_token = ?3
WHERE (tenant, refund_no) IN (
    SELECT tenant, refund_no
    FROM pay_refunds
    WHERE next_check_at IS NOT NULL AND next_check_at <= ?1
    ORDER BY next_check_at, tenant, refund_no
    LIMIT ?4
)
RETURNING tenant, refund_no";

pub(super) const CHECKED_REFUND: &str = "\
-- checked_refund
UPDATE pay_refunds
SET next_check_at = ?4, checks = checks + 1, check_token = NULL
WHERE tenant = ?1 AND refund_no = ?2 AND check_token = ?3";

pub(super) const INSERT_BENEFIT: &str = "\
-- insert_benefit
INSERT INTO pay_benefits
    (tenant, order_id, round, benefit, payment_no, status, version, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, 'due', 1, ?6, ?6)
ON CONFLICT (tenant, order_id, round, benefit) DO NOTHING";

pub(super) const BENEFITS_OF_ORDER: &str = "\
-- benefits_of_order
SELECT tenant, order_id, round, benefit, payment_no, status, version
FROM pay_benefits
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3
ORDER BY benefit";

pub(super) const BENEFIT: &str = "\
-- benefit
SELECT tenant, order_id, round, benefit, payment_no, status, version
FROM pay_benefits
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3 AND benefit = ?4";

pub(super) const MOVE_BENEFIT: &str = "\
-- move_benefit
UPDATE pay_benefits
SET status = ?7, version = version + 1, updated_at = ?8
WHERE tenant = ?1 AND order_id = ?2 AND round = ?3 AND benefit = ?4
    AND status = ?5
    AND version = ?6";

pub(super) const INSERT_EFFECT: &str = "\
-- insert_effect
INSERT INTO pay_effects
    (tenant, order_id, round, benefit, kind, message_id, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(super) const INSERT_NOTICE: &str = "\
-- insert_notice
INSERT INTO pay_notices
    (tenant, channel, account, notify_id, payment_no, status, reason, body, deliveries, received_at)
VALUES (?1, ?2, ?3, ?4, ?5, 'unmatched', '', ?6, 1, ?7)
ON CONFLICT (channel, account, notify_id) DO UPDATE
SET deliveries = deliveries + 1";

pub(super) const NOTICE: &str = "\
-- notice
SELECT status
FROM pay_notices
WHERE channel = ?1 AND account = ?2 AND notify_id = ?3";

pub(super) const JUDGE_NOTICE: &str = "\
-- judge_notice
UPDATE pay_notices
SET status = ?4, reason = ?5, settled_at = CASE WHEN ?4 = 'settled' THEN ?6 ELSE settled_at END
WHERE channel = ?1 AND account = ?2 AND notify_id = ?3 AND status <> 'settled'";

pub(super) const OPEN_NOTICES_OF_PAYMENT: &str = "\
-- open_notices_of_payment
SELECT body
FROM pay_notices
WHERE payment_no = ?1 AND status = 'unmatched'
ORDER BY seq
LIMIT 32";

pub(super) const PURGE_NOTICES: &str = "\
-- purge_notices
DELETE FROM pay_notices
WHERE seq IN (
    SELECT seq
    FROM pay_notices
    WHERE status = 'settled' AND settled_at < ?1
    ORDER BY settled_at
    LIMIT ?2
)";

pub(super) const LIST_PAYMENTS: &str = "\
-- list_payments
SELECT payment_no, tenant, order_id, round, attempt, channel, way, amount, currency, subject,
    reserved, refunded, given_back, status, surplus, version, trade_no, frozen, pay_data, failure,
    created_at, expires_at, paid_at, checks
FROM pay_payments
WHERE payment_no > ?1 AND (?2 IS NULL OR status = ?2)
ORDER BY payment_no
LIMIT ?3";

pub(super) const REFUNDS_OF_PAYMENT: &str = "\
-- refunds_of_payment
SELECT tenant, refund_no, payment_no, amount, currency, reason, origin, status, version, frozen,
    failure, created_at, sent_at, done_at, checks
FROM pay_refunds
WHERE payment_no = ?1
ORDER BY created_at, refund_no";

pub(super) const MIGRATIONS_EXIST: &str = "\
-- migrations_exist
SELECT name
FROM sqlite_master
WHERE type = 'table' AND name = '_pay_migrations'";

pub(super) const MIGRATIONS_APPLIED: &str = "\
-- migrations_applied
SELECT version, checksum
FROM _pay_migrations
WHERE success = 1
ORDER BY version";

pub(super) const INSERT_RUN: &str = "\
-- insert_run
INSERT INTO pay_runs (started_at)
VALUES (?1)
RETURNING seq";

pub(super) const STOP_RUN: &str = "\
-- stop_run
UPDATE pay_runs
SET stopped_at = ?2
WHERE seq = ?1 AND stopped_at IS NULL";

/// A claim that is still the one of this attempt: not taken over, not judged, not ended.
pub(super) const CLAIM: &str = "\
-- claim
SELECT 1
FROM hapax_records
WHERE id = ?1
    AND epoch = ?2
    AND nonce = ?3
    AND state = 1";

pub(super) const INSERT_REQUESTS: &str = "\
-- insert_requests
INSERT INTO pay_requests (at, tenant, record, status, is_replay)
SELECT ?2, sent.value ->> 'tenant', sent.value ->> 'record', sent.value ->> 'status',
    sent.value ->> 'is_replay'
FROM json_each(?1) sent";

/// Requests are written in the order of their time, so the oldest have the smallest numbers.
pub(super) const PURGE_REQUESTS: &str = "\
-- purge_requests
DELETE FROM pay_requests
WHERE seq < (SELECT min(oldest.seq) FROM pay_requests AS oldest) + ?2
    AND at < ?1";
