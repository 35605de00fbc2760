//! How the service finds the rows of each statement.
//!
//! Invariant: no statement that recurs reads a table from end to end: one slow transaction holds
//! up all others (`every_recurring_statement_uses_an_index`).

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Row as _};

use super::{Sql, migrator, sql};
use hapax::sql::SqliteStore;

/// Names the statements and takes them.
macro_rules! statements {
    ($($name:ident)+) => { &[$((stringify!($name), sql::$name)),+] };
}

/// Statements of requests and workers.
const RECURRING: &[(&str, &str)] = statements![
    BENEFIT BENEFITS_OF_ORDER CHECKED_PAYMENT CHECKED_REFUND CLAIM CLOSE_ORDER FREE_RESERVE
    INSERT_BENEFIT INSERT_EFFECT INSERT_NOTICE INSERT_ORDER INSERT_PAYMENT INSERT_REFUND
    INSERT_REQUESTS INSERT_RUN
    JUDGE_NOTICE LEASE_PAYMENTS LEASE_REFUNDS LIST_PAYMENTS LIVE_PAYMENT MARK_SURPLUS MOVE_BENEFIT
    MOVE_PAYMENT MOVE_REFUND NEWEST_ORDER NEXT_ATTEMPT NOTICE OPEN_NOTICES_OF_PAYMENT ORDER PAYMENT
    PAYMENTS_OF_ORDER PAY_ORDER PURGE_NOTICES PURGE_REQUESTS REFUND REFUNDS_OF_PAYMENT RESERVE
    SPEND_RESERVE STOP_RUN STORE_FAILURE STORE_GIVEN_BACK STORE_PAY_DATA STORE_TRADE
];

/// Statements of a start: their tables have a row for each step of the schema.
const AT_START: &[(&str, &str)] = statements![MIGRATIONS_APPLIED MIGRATIONS_EXIST];

/// The steps of a plan.
async fn plan(sql: &Sql, text: &str) -> Vec<String> {
    let explained = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"));
    let rows = sqlx::query(explained).fetch_all(sql.readers()).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

#[tokio::test]
async fn every_recurring_statement_uses_an_index() {
    let home = tempfile::tempdir().unwrap();
    let sql = SqliteStore::open(home.path().join("pay.db")).await.unwrap();
    sql.migrate(migrator()).await.unwrap();
    for (name, text) in RECURRING {
        let plan = plan(&sql, text).await;
        // The members of one JSON text, which is bounded where it is made.
        let scans = |step: &&String| step.starts_with("SCAN") && !step.starts_with("SCAN sent");
        assert_eq!(plan.iter().find(scans), None, "{name}: {plan:#?}");
        // The few refunds of one payment may be sorted.
        let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE FOR ORDER BY"));
        assert_eq!(sorts, *name == "REFUNDS_OF_PAYMENT", "{name}: {plan:#?}");
    }
    let creation = plan(&sql, sql::OPEN_NOTICES_OF_PAYMENT).await;
    assert!(creation[0].contains("pay_notices_unmatched (payment_no=?)"), "{creation:#?}");
}

#[test]
fn no_statement_is_forgotten_here() {
    let source = include_str!("sql.rs").lines();
    let written: BTreeSet<_> = source
        .filter_map(|line| line.strip_prefix("pub(super) const ")?.split(':').next())
        .collect();
    let known = RECURRING.iter().chain(AT_START).map(|(name, _)| *name).collect();
    assert_eq!(written, known);
}
