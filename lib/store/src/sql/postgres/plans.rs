//! How PostgreSQL finds the rows of each statement, in tables of fifty thousand.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row as _};

use super::Postgres;
use crate::{
    PostgresStore,
    sql::{
        dialect::{Bind, all},
        sheet::push_hex,
        tests::samples,
    },
};

/// Of each table a few rows are unfinished, due or old.
const FILL: &str = r"
INSERT INTO hapax_records
SELECT sha256(n::text::bytea), 'tenant', 'shop', '', 'shop.order', n::text, 1,
    CASE WHEN n % 500 = 0 THEN 1 ELSE 2 END, n, decode(repeat('00', 16), 'hex'), '', 0, 0, NULL,
    NULL, CASE WHEN n % 500 = 1 THEN 1 WHEN n % 2 = 0 THEN NULL ELSE 9e15 END, NULL, '\x00', 1,
    'worker', n, n, 1
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_journal (record, at, epoch, event, actor, note)
SELECT sha256(n::text::bytea), 9e15, 1, 'claimed', 'worker', ''
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
SELECT substring(sha256(n::text::bytea), 1, 16), 'order.paid', (n % 1000)::text, '\x00',
    CASE WHEN n % 500 = 0 THEN NULL WHEN n % 500 = 1 THEN 1 ELSE 9e15 END, 0, n
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_outbox_journal (message, at, event, actor, reason)
SELECT substring(sha256(n::text::bytea), 1, 16), 9e15, 'buried', 'relay', ''
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_inbox
SELECT 'benefit', substring(sha256(n::text::bytea), 1, 16),
    CASE WHEN n % 500 = 0 THEN 1 ELSE 9e15 END
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_locks
SELECT sha256(n::text::bytea), NULL, n, CASE WHEN n % 500 = 0 THEN 1 ELSE 9e15 END
FROM generate_series(1, 50000) AS n;
INSERT INTO hapax_transitions
SELECT 'payment', 'pay_' || n, 1, 'created', 'paid', 'moved', 'worker', n
FROM generate_series(1, 50000) AS n;
ANALYZE";

/// The type that the driver tells.
fn kind(bind: &Bind) -> &'static str {
    match bind {
        Bind::Int(_) => "bigint",
        Bind::Text(_) | Bind::MaybeText(_) => "text",
        Bind::Bytes(_) => "bytea",
    }
}

/// The next of a page and the next that is due come in the order of an index, however many follow.
const COMES_SORTED: [&str; 5] =
    ["OUTBOX_BURIED", "OUTBOX_CLAIM", "OUTBOX_DUE", "OUTBOX_LETTERS", "SCAN"];

fn literal(bind: &Bind) -> String {
    match bind {
        Bind::Int(value) => value.to_string(),
        Bind::Text(text) | Bind::MaybeText(Some(text)) => format!("'{}'", text.replace('\'', "''")),
        Bind::MaybeText(None) => "NULL".to_owned(),
        Bind::Bytes(octets) => {
            let mut text = "'\\x".to_owned();
            push_hex(&mut text, octets);
            text + "'"
        }
    }
}

/// The plan for these values, and the one for any.
async fn plans(conn: &mut PgConnection, text: &str, binds: &[Bind]) -> String {
    let list = |items: Vec<String>| match items.is_empty() {
        true => String::new(),
        false => format!("({})", items.join(", ")),
    };
    let types = list(binds.iter().map(|bind| kind(bind).to_owned()).collect());
    let values = list(binds.iter().map(literal).collect());
    let mut steps = Vec::new();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        let ask = format!(
            "SET plan_cache_mode = {mode}; PREPARE asked{types} AS {text};
             EXPLAIN EXECUTE asked{values}; DEALLOCATE asked"
        );
        let rows = sqlx::raw_sql(AssertSqlSafe(ask)).fetch_all(&mut *conn).await.unwrap();
        steps.extend(rows.iter().map(|row| row.get::<String, _>(0)));
    }
    steps.join("\n")
}

#[tokio::test]
async fn every_recurring_statement_uses_an_index_of_a_large_table() {
    let database = hapax_testkit::postgres().await.unwrap();
    PostgresStore::open(database.url()).await.unwrap().close().await;
    let mut conn = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(FILL).execute(&mut conn).await.unwrap();
    let (mut explained, mut slow) = (0, Vec::new());
    for (name, text) in all::<Postgres>() {
        let Some(binds) = samples::binds(name) else { continue };
        let plan = plans(&mut conn, text, &binds).await;
        let comes_sorted = COMES_SORTED.contains(&name);
        if plan.contains("Seq Scan on hapax_") || (comes_sorted && plan.contains("Sort Key")) {
            slow.push(format!("{plan}\nof\n{text}"));
        }
        explained += 1;
    }
    assert!(slow.is_empty(), "{}", slow.join("\n\n"));
    assert_eq!(explained, all::<Postgres>().len() - 4);
}

#[test]
fn every_statement_is_named() {
    for (name, text) in all::<Postgres>() {
        assert_eq!(text.lines().next().unwrap(), format!("-- {}", name.to_lowercase()));
    }
}
