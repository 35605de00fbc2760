//! `hapax verify` finds what is broken, names it, and finds nothing else.

use serde_json::Value;

use crate::stage::Stage;

/// Each planted violation, and the checks that name it with an example.
const PLANTS: &[(&str, &[(&str, &str)])] = &[
    (
        "DROP INDEX pay_payments_slot;
         INSERT INTO pay_payments (payment_no, tenant, order_id, round, attempt, channel, way,
             amount, currency, subject, status, version, frozen, created_at, updated_at, expires_at)
         VALUES ('P1002b', 'shop', '1002', 1, 2, 'alipay', 'code', 100, 'CNY', 'A pen', 'created',
             1, x'00', 1, 1, 1)",
        &[("two_live_attempts", "shop/1002")],
    ),
    (
        "UPDATE pay_orders SET paid_by = 'P1002' WHERE order_id = '1001'",
        &[("paid_by_no_attempt", "shop/1001/1"), ("paid_for_nothing", "P1001")],
    ),
    (
        "UPDATE pay_payments SET surplus = 1, refunded = amount WHERE payment_no = 'P1001';
         INSERT INTO pay_refunds (tenant, refund_no, payment_no, amount, currency, reason, origin,
             status, version, created_at)
         VALUES ('shop', 'auto_P1001', 'P1001', 8880, 'CNY', '', 'auto', 'done', 3, 1)",
        &[
            ("paid_by_no_attempt", "shop/1001/1"),
            ("paid_for_nothing", "P1001"),
            ("benefit_without_money", "P1001 vip_month"),
        ],
    ),
    (
        "UPDATE pay_payments SET status = 'paid', version = 3 WHERE payment_no = 'P1002';
         INSERT INTO hapax_transitions (kind, entity, version, from_state, to_state, event, actor,
             at)
         VALUES ('payment', 'P1002', 2, 'waiting', 'paid', 'paid', 'x', 1)",
        &[("paid_for_nothing", "P1002")],
    ),
    ("DELETE FROM pay_orders WHERE order_id = '1003'", &[("paid_for_nothing", "P1003b")]),
    (
        "UPDATE pay_payments SET status = 'waiting', version = 2 WHERE payment_no = 'P1005';
         DELETE FROM hapax_transitions WHERE entity = 'P1005' AND version > 1",
        &[("closed_too_early", "shop/1005/1")],
    ),
    (
        "DELETE FROM pay_refunds WHERE refund_no = 'auto_P1003a';
         UPDATE pay_payments SET refunded = 0, given_back = 0 WHERE payment_no = 'P1003a'",
        &[("surplus_kept", "P1003a")],
    ),
    (
        "UPDATE pay_refunds SET status = 'refused', done_at = NULL
         WHERE refund_no = 'auto_P1003a';
         UPDATE pay_payments SET refunded = 0, given_back = 0 WHERE payment_no = 'P1003a'",
        &[("surplus_kept", "P1003a")],
    ),
    (
        "UPDATE pay_payments SET reserved = 1 WHERE payment_no = 'P1001'",
        &[("reserve_differs", "P1001")],
    ),
    (
        "UPDATE pay_refunds SET status = 'sent' WHERE refund_no = 'R1004'",
        &[("reserve_differs", "P1004"), ("refunded_differs", "P1004")],
    ),
    (
        "UPDATE pay_payments SET refunded = 1 WHERE payment_no = 'P1001'",
        &[("refunded_differs", "P1001")],
    ),
    (
        "UPDATE pay_benefits SET status = 'revoked' WHERE benefit = 'vip_month';
         INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1001', 1, 'vip_month', 'revoke', 'm4', 1)",
        &[("benefit_missing", "P1001 vip_month")],
    ),
    (
        "DELETE FROM pay_benefits WHERE benefit = 'vip_month'",
        &[("benefit_missing", "P1001 vip_month"), ("effects_differ", "shop/1001/1 vip_month")],
    ),
    (
        "UPDATE pay_payments SET given_back = amount WHERE payment_no = 'P1001'",
        &[("benefit_without_money", "P1001 vip_month")],
    ),
    (
        "INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1001', 1, 'vip_month', 'grant', 'm1', 1)",
        &[("granted_twice", "shop/1001/1 vip_month")],
    ),
    (
        "INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1004', 1, 'vip_day', 'revoke', 'm3', 1)",
        &[("revoked_wrongly", "shop/1004/1 vip_day")],
    ),
    (
        "DELETE FROM pay_effects WHERE benefit = 'vip_month'",
        &[("effects_differ", "shop/1001/1 vip_month")],
    ),
    (
        "UPDATE pay_benefits SET status = 'revoke_due' WHERE benefit = 'vip_day'",
        &[("effects_differ", "shop/1004/1 vip_day")],
    ),
    (
        "UPDATE pay_payments SET status = 'closing' WHERE payment_no = 'P1002'",
        &[("journal_differs", "P1002")],
    ),
    (
        "DELETE FROM hapax_transitions WHERE entity = 'P1001' AND version = 1",
        &[("journal_gap", "P1001")],
    ),
    (
        "UPDATE hapax_records SET outcome = NULL WHERE key_text = 'order-1001'",
        &[(
            "completed_without_outcome",
            "payment.create 1D2D56B77BBA71E40060014C9A2AB5AC412FBE2E4EC43B67EB95BDBB85E34CD4",
        )],
    ),
    (
        "UPDATE hapax_records SET outcome = x'0909' WHERE key_text = 'order-1001'",
        &[("unreadable_answer", "payment.create 1d2d56b77bba71e4")],
    ),
    (
        "UPDATE hapax_records SET key_text = 'order-1009' WHERE key_text = 'order-1001'",
        &[("id_of_other_parts", "payment.create 1d2d56b77bba71e4")],
    ),
    (
        "UPDATE hapax_records
         SET outcome = unhex(replace(hex(outcome), hex('P1001'), hex('P9999')))
         WHERE key_text = 'order-1001'",
        &[("answer_without_payment", "P9999")],
    ),
];

fn broken(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let broken = document["broken"].as_array().unwrap().iter();
    broken.map(|broken| (text(&broken["check"]), text(&broken["examples"][0]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_each_violation_and_nothing_else() {
    for (sql, expected) in PLANTS {
        let stage = Stage::open().await;
        stage.run(sql).await;
        let said = stage.hapax(&["verify", "--json"]);
        assert_eq!(said.code, 5, "{sql}\n{said:?}");
        let document: Value = serde_json::from_str(&said.out).unwrap();
        let expected: Vec<_> = expected
            .iter()
            .map(|(check, example)| ((*check).to_owned(), (*example).to_owned()))
            .collect();
        assert_eq!(broken(&document), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_check_has_a_violation_that_it_finds() {
    let checked = Stage::open().await.hapax(&["verify", "--json"]).json()["checked"].clone();
    let mut found: Vec<_> =
        PLANTS.iter().flat_map(|(_, expected)| expected.iter().map(|(check, _)| check)).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(checked, found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_what_is_broken_and_where() {
    let stage = Stage::open().await;
    stage
        .run(
            "INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
             VALUES ('shop', '1001', 1, 'vip_month', 'grant', 'm1', 1);
             UPDATE pay_payments SET reserved = 1 WHERE payment_no IN ('P1001', 'P1002')",
        )
        .await;
    let said = stage.hapax(&["verify"]);
    assert_eq!(said.code, 5);
    assert_eq!(said.err, "hapax: 2 of 18 invariants are broken\n");
    insta::assert_snapshot!(said.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_are_bounded() {
    let stage = Stage::open().await;
    stage
        .run(
            "WITH RECURSIVE numbers (n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3000
             )
             INSERT INTO hapax_records (id, scope, tenant, subject, operation, key_text, class,
                 state, epoch, nonce, prints, lease_until, attempts, caller, created_at, format)
             SELECT randomblob(32), 'tenant', 'shop', '', 'payment.create', 'k' || n, 2, 2, 1,
                 randomblob(16), x'', 0, 1, 'process 7', 0, 1
             FROM numbers",
        )
        .await;
    let said = stage.hapax(&["verify", "--json"]);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let broken = document["broken"].as_array().unwrap();
    assert_eq!(broken.len(), 2, "{said:?}");
    for broken in broken {
        assert_eq!(broken["examples"].as_array().unwrap().len(), 20);
    }
}
