//! The statements; each selects a readable name of what breaks its invariant.

pub(super) const TWO_LIVE_ATTEMPTS: &str = "\
-- two_live_attempts
SELECT tenant || '/' || order_id
FROM pay_payments
WHERE status IN ('created', 'waiting', 'closing')
GROUP BY tenant, order_id
HAVING count(*) > 1
LIMIT ?1";

pub(super) const PAID_BY_NO_ATTEMPT: &str = "\
-- paid_by_no_attempt
SELECT o.tenant || '/' || o.order_id || '/' || o.round
FROM pay_orders o
WHERE o.status = 'paid'
    AND 1 <> (
        SELECT count(*)
        FROM pay_payments p
        WHERE p.tenant = o.tenant AND p.order_id = o.order_id AND p.round = o.round
            AND p.status = 'paid' AND p.surplus = 0 AND p.payment_no = o.paid_by
    )
LIMIT ?1";

pub(super) const PAID_FOR_NOTHING: &str = "\
-- paid_for_nothing
SELECT p.payment_no
FROM pay_payments p
LEFT JOIN pay_orders o ON o.tenant = p.tenant AND o.order_id = p.order_id AND o.round = p.round
WHERE p.status = 'paid' AND (p.surplus = 1) = (o.paid_by IS p.payment_no)
LIMIT ?1";

pub(super) const CLOSED_TOO_EARLY: &str = "\
-- closed_too_early
SELECT o.tenant || '/' || o.order_id || '/' || o.round
FROM pay_orders o
WHERE o.status = 'closed'
    AND EXISTS (
        SELECT 1
        FROM pay_payments p
        WHERE p.tenant = o.tenant AND p.order_id = o.order_id AND p.round = o.round
            AND p.status IN ('created', 'waiting', 'closing')
    )
LIMIT ?1";

pub(super) const SURPLUS_KEPT: &str = "\
-- surplus_kept
SELECT p.payment_no
FROM pay_payments p
WHERE p.surplus = 1
    AND max(p.refunded, p.given_back) < p.amount
    AND 1 <> (
        SELECT count(*)
        FROM pay_refunds r
        WHERE r.tenant = p.tenant AND r.payment_no = p.payment_no AND r.origin = 'auto'
            AND r.status <> 'refused'
    )
LIMIT ?1";

pub(super) const RESERVE_DIFFERS: &str = "\
-- reserve_differs
SELECT p.payment_no
FROM pay_payments p
WHERE p.reserved <> (
    SELECT coalesce(sum(r.amount), 0)
    FROM pay_refunds r
    WHERE r.payment_no = p.payment_no AND r.status IN ('reserved', 'sent')
)
LIMIT ?1";

pub(super) const REFUNDED_DIFFERS: &str = "\
-- refunded_differs
SELECT p.payment_no
FROM pay_payments p
WHERE p.refunded <> (
    SELECT coalesce(sum(r.amount), 0)
    FROM pay_refunds r
    WHERE r.payment_no = p.payment_no AND r.status = 'done'
)
LIMIT ?1";

pub(super) const BENEFIT_MISSING: &str = "\
-- benefit_missing
SELECT p.payment_no || ' ' || promised.value
FROM pay_payments p
JOIN pay_orders o ON o.tenant = p.tenant AND o.order_id = p.order_id AND o.round = p.round
JOIN json_each(o.benefits) promised
WHERE p.status = 'paid' AND p.surplus = 0 AND max(p.refunded, p.given_back) < p.amount
    AND NOT EXISTS (
        SELECT 1
        FROM pay_benefits b
        WHERE b.tenant = p.tenant AND b.order_id = p.order_id AND b.round = p.round
            AND b.benefit = promised.value AND b.status IN ('due', 'granted')
    )
LIMIT ?1";

pub(super) const BENEFIT_WITHOUT_MONEY: &str = "\
-- benefit_without_money
SELECT b.payment_no || ' ' || b.benefit
FROM pay_benefits b
JOIN pay_payments p ON p.payment_no = b.payment_no
WHERE b.status IN ('due', 'granted')
    AND (p.status <> 'paid' OR p.surplus = 1 OR max(p.refunded, p.given_back) >= p.amount)
LIMIT ?1";

pub(super) const GRANTED_TWICE: &str = "\
-- granted_twice
SELECT tenant || '/' || order_id || '/' || round || ' ' || benefit
FROM pay_effects
WHERE kind = 'grant'
GROUP BY tenant, order_id, round, benefit
HAVING count(*) > 1
LIMIT ?1";

pub(super) const REVOKED_WRONGLY: &str = "\
-- revoked_wrongly
SELECT tenant || '/' || order_id || '/' || round || ' ' || benefit
FROM pay_effects
GROUP BY tenant, order_id, round, benefit
HAVING sum(kind = 'revoke') > sum(kind = 'grant')
    OR sum(kind = 'revoke') > 1
LIMIT ?1";

pub(super) const EFFECTS_DIFFER: &str = "\
-- effects_differ
SELECT b.tenant || '/' || b.order_id || '/' || b.round || ' ' || b.benefit
FROM pay_benefits b
WHERE (b.status IN ('granted', 'revoke_due', 'revoked')) <> EXISTS (
        SELECT 1
        FROM pay_effects e
        WHERE e.tenant = b.tenant AND e.order_id = b.order_id AND e.round = b.round
            AND e.benefit = b.benefit AND e.kind = 'grant'
    )
    OR (b.status = 'revoked') <> EXISTS (
        SELECT 1
        FROM pay_effects e
        WHERE e.tenant = b.tenant AND e.order_id = b.order_id AND e.round = b.round
            AND e.benefit = b.benefit AND e.kind = 'revoke'
    )
UNION ALL
SELECT e.tenant || '/' || e.order_id || '/' || e.round || ' ' || e.benefit
FROM pay_effects e
WHERE NOT EXISTS (
        SELECT 1
        FROM pay_benefits b
        WHERE b.tenant = e.tenant AND b.order_id = e.order_id AND b.round = e.round
            AND b.benefit = e.benefit
    )
LIMIT ?1";

pub(super) const JOURNAL_DIFFERS: &str = "\
-- journal_differs
SELECT p.payment_no
FROM pay_payments p
JOIN hapax_transitions t ON t.kind = 'payment' AND t.entity = p.payment_no
    AND t.version = p.version - 1
WHERE t.to_state <> p.status
LIMIT ?1";

pub(super) const JOURNAL_GAP: &str = "\
-- journal_gap
SELECT p.payment_no
FROM pay_payments p
WHERE p.version - 1 <> (
    SELECT count(*)
    FROM hapax_transitions t
    WHERE t.kind = 'payment' AND t.entity = p.payment_no
)
LIMIT ?1";

pub(super) const COMPLETED_WITHOUT_OUTCOME: &str = "\
-- completed_without_outcome
SELECT operation || ' ' || hex(id)
FROM hapax_records
WHERE state = 2 AND outcome IS NULL
LIMIT ?1";

pub(super) const RECORDS: &str = "\
-- records
SELECT id, scope, tenant, subject, operation, key_text, outcome
FROM hapax_records
WHERE id > ?1
ORDER BY id
LIMIT ?2";

/// Which of the promised payments do not exist.
pub(super) const UNKNOWN_PAYMENTS: &str = "\
-- unknown_payments
SELECT promised.value ->> 'payment_no' AS payment_no
FROM json_each(?1) promised
WHERE NOT EXISTS (
    SELECT 1
    FROM pay_payments p
    WHERE p.payment_no = promised.value ->> 'payment_no'
        AND p.tenant = promised.value ->> 'tenant'
)";
