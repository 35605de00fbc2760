//! How the library finds the rows of each statement.

use sqlx::{AssertSqlSafe, Row as _};

use super::Sqlite;
use crate::{
    SqliteStore,
    sql::dialect::{Texts, all},
};

/// The plans of the statements of a text, one step a line.
async fn plan(sql: &SqliteStore, text: &str) -> String {
    let mut steps = Vec::new();
    for statement in text.split(";\n") {
        let explained = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = sqlx::query(explained).fetch_all(sql.readers()).await.unwrap();
        steps.extend(rows.iter().map(|row| row.get::<String, _>("detail")));
    }
    steps.join("\n")
}

#[tokio::test]
async fn every_recurring_statement_uses_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let sql = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
    let primary = "SEARCH r USING INDEX sqlite_autoindex_hapax_records_1 (id=?)";
    let cases = [
        (Sqlite::CLAIM_REUSE, primary),
        (Sqlite::CLAIM_RETAKE, primary),
        (Sqlite::RENEW, primary),
        (Sqlite::CHECKPOINT, primary),
        (Sqlite::COMPLETE, primary),
        (Sqlite::DOUBT, primary),
        (Sqlite::RELEASE, primary),
        (Sqlite::SETTLE_COMPLETED, primary),
        (Sqlite::SETTLE_OPEN, primary),
        (Sqlite::LOOK, primary),
        (Sqlite::SCAN_UNFINISHED, "SEARCH r USING INDEX hapax_records_unfinished (id>?)"),
        (Sqlite::HISTORY, "SEARCH hapax_journal USING INDEX hapax_journal_record (record=?)"),
        (Sqlite::PURGE, "SEARCH old USING INDEX hapax_records_reusable (reuse_at<?)"),
        (Sqlite::JOURNAL_PURGE, "SEARCH hapax_journal USING INTEGER PRIMARY KEY (rowid<?)"),
        (Sqlite::OUTBOX_DUE, "USING COVERING INDEX hapax_outbox_due (visible_at<?)"),
        (Sqlite::OUTBOX_CLAIM, "SEARCH due USING INDEX hapax_outbox_due (visible_at<?)"),
        (
            Sqlite::OUTBOX_CLAIM,
            "SEARCH earlier USING INDEX hapax_outbox_heads (key_text=? AND sequence<?)",
        ),
        (Sqlite::OUTBOX_ACK, "(id=?)"),
        (Sqlite::OUTBOX_LETTER, "(id=?)"),
        (Sqlite::OUTBOX_BURIED, "hapax_outbox_buried (sequence>?)"),
        (Sqlite::OUTBOX_PURGE, "hapax_outbox_buried"),
        (Sqlite::INBOX_PURGE, "SEARCH old USING COVERING INDEX hapax_inbox_seen (seen_at<?)"),
        (Sqlite::LOCK_PURGE, "SEARCH lapsed USING INDEX hapax_locks_lapsed (held_until<?)"),
        (Sqlite::TRANSITIONS, "SEARCH hapax_transitions USING PRIMARY KEY"),
    ];
    for (text, step) in cases {
        let plan = plan(&sql, text).await;
        assert!(plan.contains(step), "{step}\nis not in\n{plan}\nof\n{text}");
        let sorted = plan.contains("TEMP B-TREE FOR ORDER BY");
        assert!(!sorted, "{plan}\nof\n{text}");
    }
}

#[tokio::test]
async fn every_statement_is_named_and_understood() {
    let dir = tempfile::tempdir().unwrap();
    let sql = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
    for (name, text) in all::<Sqlite>() {
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("-- {}", name.to_lowercase()));
        plan(&sql, text).await;
    }
}
