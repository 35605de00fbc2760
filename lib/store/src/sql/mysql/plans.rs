//! How MariaDB finds the rows of each statement, in tables of fifty thousand.

use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row as _};

use super::{MySql, written};
use crate::{
    MySqlStore,
    sql::{dialect::all, tests::samples},
};

/// Of each table a few rows are unfinished, due or old.
const FILL: &str = "
INSERT INTO hapax_records (
    id, scope, tenant, subject, operation, key_text, class, state, epoch, nonce, prints,
    lease_until, reuse_at, outcome, attempts, caller, created_at, format)
SELECT UNHEX(SHA2(seq, 256)), 'tenant', 'shop', '', 'shop.order', seq, 1, IF(seq % 500 = 0, 1, 2),
    seq, REPEAT('0', 16), '', 0, IF(seq % 500 = 1, 1, IF(seq % 2 = 0, NULL, 9e15)), '0', 1,
    'worker', seq, 1
FROM seq_1_to_50000;
INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT UNHEX(SHA2(seq, 256)), 9e15, 1, 'claimed', 'worker', ''
FROM seq_1_to_50000;
INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
SELECT UNHEX(MD5(seq)), 'order.paid', seq % 1000, '0',
    IF(seq % 500 = 0, NULL, IF(seq % 500 = 1, 1, 9e15)), 0, seq
FROM seq_1_to_50000;
INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT UNHEX(MD5(seq)), 9e15, 'buried', 'relay', ''
FROM seq_1_to_50000;
INSERT INTO hapax_inbox
SELECT 'benefit', UNHEX(MD5(seq)), IF(seq % 500 = 0, 1, 9e15)
FROM seq_1_to_50000;
INSERT INTO hapax_locks
SELECT UNHEX(SHA2(seq, 256)), NULL, seq, IF(seq % 500 = 0, 1, 9e15)
FROM seq_1_to_50000;
INSERT INTO hapax_transitions
SELECT 'payment', CONCAT('pay_', seq), 1, 'created', 'paid', 'moved', 'worker', seq
FROM seq_1_to_50000;
ANALYZE TABLE hapax_records, hapax_journal, hapax_outbox, hapax_outbox_journal, hapax_inbox,
    hapax_locks, hapax_transitions";

/// What is not a table: members of JSON, and what was read before.
const NO_TABLES: [&str; 4] = ["claim", "step", "wanted", "won"];
/// Rows of a table that a statement may look at.
const ROWS_MAX: i64 = 1000;
/// Pages in the order of the primary key end with their limit.
const PAGES: [&str; 2] = ["OUTBOX_LETTERS", "SCAN"];

/// The steps of the plans of a text's statements: table, kind of access, index and rows.
async fn plan(conn: &mut MySqlConnection, text: &str) -> Vec<(String, String, String, i64)> {
    let mut steps = Vec::new();
    for statement in text.split(";\n") {
        let sent = |text: String| sqlx::raw_sql(AssertSqlSafe(text));
        let code = statement.lines().filter(|line| !line.starts_with("--"));
        let code = code.collect::<Vec<_>>().join("\n");
        if code.starts_with("SET") {
            sent(code).execute(&mut *conn).await.unwrap();
            continue;
        }
        let rows = sent(format!("EXPLAIN {code}")).fetch_all(&mut *conn).await.unwrap();
        for row in rows {
            let text = |name| row.try_get_unchecked::<Option<String>, _>(name).unwrap();
            let rows = row.try_get_unchecked::<Option<String>, _>("rows").unwrap();
            steps.push((
                text("table").unwrap_or_default(),
                text("type").unwrap_or_default(),
                text("key").unwrap_or_default(),
                rows.and_then(|rows| rows.parse().ok()).unwrap_or_default(),
            ));
        }
    }
    steps
}

#[tokio::test]
async fn every_recurring_statement_uses_an_index_of_a_large_table() {
    let database = hapax_testkit::mariadb().await.unwrap();
    MySqlStore::open(database.url()).await.unwrap().close().await;
    let mut conn = MySqlConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(FILL).execute(&mut conn).await.unwrap();
    sqlx::raw_sql("SET @hapax_won = '1'").execute(&mut conn).await.unwrap();
    let (mut explained, mut slow) = (0, Vec::new());
    for (name, text) in all::<MySql>() {
        let Some(binds) = samples::binds(name) else { continue };
        let plan = plan(&mut conn, &written(text, &binds)).await;
        for (table, access, index, rows) in &plan {
            let is_table = !table.is_empty()
                && !table.starts_with("<derived")
                && !NO_TABLES.contains(&table.as_str());
            let is_found = access != "ALL"
                && !index.is_empty()
                && (*rows <= ROWS_MAX || PAGES.contains(&name));
            if is_table && !is_found {
                slow.push(format!("{table} in {plan:?}\nof\n{text}"));
            }
        }
        explained += 1;
    }
    assert!(slow.is_empty(), "{}", slow.join("\n\n"));
    assert_eq!(explained, all::<MySql>().len() - 4);
}

#[test]
fn every_statement_is_named() {
    for (name, text) in all::<MySql>() {
        assert_eq!(text.lines().next().unwrap(), format!("-- {}", name.to_lowercase()));
    }
}
