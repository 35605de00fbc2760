//! The statements. Those of a check select a readable name of each thing that breaks it.

pub(super) const ORDERS: &str = "\
-- orders
SELECT count(*) FROM (SELECT DISTINCT tenant, order_id FROM pay_orders)";

pub(super) const SUBMITS: &str = "\
-- submits
SELECT count(*) FROM pay_requests";

pub(super) const REPLAYS: &str = "\
-- replays
SELECT count(*) FROM pay_requests WHERE is_replay = 1";

pub(super) const PAYMENTS: &str = "\
-- payments
SELECT count(*) FROM pay_payments";

pub(super) const PAID_HERE: &str = "\
-- paid_here
SELECT count(*) FROM pay_payments WHERE status = 'paid'";

pub(super) const SURPLUS: &str = "\
-- surplus
SELECT count(*) FROM pay_payments WHERE surplus = 1";

/// A start that was never stopped in order was killed, unless it is the one that runs.
pub(super) const KILLS: &str = "\
-- kills
SELECT count(*)
FROM pay_runs
WHERE stopped_at IS NULL AND seq < (SELECT max(seq) FROM pay_runs)";

pub(super) const BENEFITS: &str = "\
-- benefits
SELECT count(*) FROM pay_benefits";

pub(super) const REVOKED: &str = "\
-- revoked
SELECT count(*) FROM pay_effects WHERE kind = 'revoke'";

pub(super) const PAID_TWICE: &str = "\
-- paid_twice
SELECT tenant || '/' || order_id || '/' || round
FROM pay_payments
WHERE status = 'paid' AND surplus = 0
GROUP BY tenant, order_id, round
HAVING count(*) > 1";

pub(super) const LIVE_TWICE: &str = "\
-- live_twice
SELECT tenant || '/' || order_id
FROM pay_payments
WHERE status IN ('created', 'waiting', 'closing')
GROUP BY tenant, order_id
HAVING count(*) > 1";

/// Each line too many is a row.
pub(super) const EFFECT_TWICE: &str = "\
-- effect_twice
SELECT tenant || '/' || order_id || '/' || round || ' ' || benefit || ' ' || kind
FROM (
    SELECT tenant, order_id, round, benefit, kind, row_number() OVER (
        PARTITION BY tenant, order_id, round, benefit, kind
        ORDER BY seq
    ) AS line
    FROM pay_effects
)
WHERE line > 1";

pub(super) const GRANTED_TWICE: &str = "\
-- granted_twice
SELECT tenant || '/' || order_id || '/' || round || ' ' || benefit
FROM pay_effects
WHERE kind = 'grant'
GROUP BY tenant, order_id, round, benefit
HAVING count(*) > 1";

/// Money that was kept, without what it bought.
pub(super) const BENEFIT_MISSING: &str = "\
-- benefit_missing
SELECT p.payment_no || ' ' || promised.value
FROM pay_payments p
JOIN pay_orders o ON o.tenant = p.tenant AND o.order_id = p.order_id AND o.round = p.round
JOIN json_each(o.benefits) promised
WHERE p.status = 'paid' AND p.surplus = 0 AND p.refunded < p.amount
    AND 1 > (
        SELECT coalesce(sum(CASE e.kind WHEN 'grant' THEN 1 ELSE -1 END), 0)
        FROM pay_effects e
        WHERE e.tenant = p.tenant AND e.order_id = p.order_id AND e.round = p.round
            AND e.benefit = promised.value
    )";

/// What was given and not taken back, without money that was kept for it.
pub(super) const BENEFIT_WITHOUT_MONEY: &str = "\
-- benefit_without_money
SELECT e.tenant || '/' || e.order_id || '/' || e.round || ' ' || e.benefit
FROM pay_effects e
GROUP BY e.tenant, e.order_id, e.round, e.benefit
HAVING sum(CASE e.kind WHEN 'grant' THEN 1 ELSE -1 END) > 0
    AND NOT EXISTS (
        SELECT 1
        FROM pay_payments p
        WHERE p.tenant = e.tenant AND p.order_id = e.order_id AND p.round = e.round
            AND p.status = 'paid' AND p.surplus = 0 AND p.refunded < p.amount
    )";

/// Surplus money that is neither under way back nor back.
pub(super) const SURPLUS_KEPT: &str = "\
-- surplus_kept
SELECT p.payment_no
FROM pay_payments p
WHERE p.status = 'paid' AND p.surplus = 1 AND max(p.refunded, p.given_back) < p.amount
    AND NOT EXISTS (
        SELECT 1
        FROM pay_refunds r
        WHERE r.payment_no = p.payment_no AND r.status IN ('reserved', 'sent')
    )";

pub(super) const REFUND_OPEN: &str = "\
-- refund_open
SELECT tenant || '/' || refund_no
FROM pay_refunds
WHERE status IN ('reserved', 'sent')";

pub(super) const PAYMENT_OPEN: &str = "\
-- payment_open
SELECT payment_no
FROM pay_payments
WHERE status IN ('created', 'closing')";

pub(super) const BENEFIT_OPEN: &str = "\
-- benefit_open
SELECT tenant || '/' || order_id || '/' || round || ' ' || benefit
FROM pay_benefits
WHERE status IN ('due', 'revoke_due')";

pub(super) const MESSAGE_WAITS: &str = "\
-- message_waits
SELECT topic || ' ' || lower(hex(id))
FROM hapax_outbox
WHERE visible_at IS NOT NULL";

pub(super) const MESSAGE_BURIED: &str = "\
-- message_buried
SELECT topic || ' ' || lower(hex(id))
FROM hapax_outbox
WHERE visible_at IS NULL";

/// Claimed without an end, or unknown.
pub(super) const RECORD_UNFINISHED: &str = "\
-- record_unfinished
SELECT operation || ' ' || lower(hex(id))
FROM hapax_records
WHERE state IN (1, 3)";

pub(super) const BOOKED: &str = "\
-- booked
SELECT payment_no, tenant, order_id, round, status, amount, refunded
FROM pay_payments";

pub(super) const BOOKED_REFUNDS: &str = "\
-- booked_refunds
SELECT payment_no, refund_no, amount
FROM pay_refunds
WHERE status = 'done'";
