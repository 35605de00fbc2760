//! The service's database, read from beside it.

use std::path::Path;

use sqlx::{
    AssertSqlSafe, Row, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

/// A connection of the test's own to the database file.
#[derive(Clone)]
pub(crate) struct Books(SqlitePool);

impl Books {
    pub(crate) fn open(file: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(false)
            .busy_timeout(std::time::Duration::from_secs(10));
        Self(SqlitePoolOptions::new().max_connections(2).connect_lazy_with(options))
    }

    /// One number.
    pub(crate) async fn number(&self, sql: impl Into<String>) -> i64 {
        let query = sqlx::query(AssertSqlSafe(sql.into()));
        query.fetch_one(&self.0).await.unwrap().get(0)
    }

    /// How many rows of a table fit.
    pub(crate) async fn count(&self, table: &str, filter: &str) -> i64 {
        self.number(format!("SELECT count(*) FROM {table} WHERE {filter}")).await
    }

    /// One column of text, nothing as an empty text.
    pub(crate) async fn column(&self, sql: impl Into<String>) -> Vec<String> {
        let rows = sqlx::query(AssertSqlSafe(sql.into())).fetch_all(&self.0).await.unwrap();
        rows.iter().map(|row| row.get::<Option<String>, _>(0).unwrap_or_default()).collect()
    }

    /// One text.
    pub(crate) async fn text(&self, sql: impl Into<String>) -> String {
        self.column(sql).await.into_iter().next().unwrap_or_default()
    }

    /// Bytes, if there is such a row.
    pub(crate) async fn bytes(&self, sql: impl Into<String>) -> Option<Vec<u8>> {
        let query = sqlx::query(AssertSqlSafe(sql.into()));
        query.fetch_optional(&self.0).await.unwrap().map(|row| row.get(0))
    }

    /// Changes something behind the service's back.
    pub(crate) async fn run(&self, sql: impl Into<String>) {
        sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&self.0).await.unwrap();
    }

    /// Refuses every write that `on` names, until [`Books::mend`].
    pub(crate) async fn break_on(&self, on: &str) {
        self.run(format!(
            "CREATE TRIGGER broken BEFORE {on} BEGIN SELECT RAISE(ABORT, 'broken'); END"
        ))
        .await;
    }

    pub(crate) async fn mend(&self) {
        self.run("DROP TRIGGER broken").await;
    }

    pub(crate) async fn status(&self, no: &str) -> String {
        self.text(format!("SELECT status FROM pay_payments WHERE payment_no = '{no}'")).await
    }

    /// How often the benefits of a payment's order were given and taken away.
    pub(crate) async fn effects(&self, no: &str) -> (i64, i64) {
        let of = |kind: &str| {
            format!(
                "SELECT count(*) FROM pay_effects e JOIN pay_payments p USING \
                 (tenant, order_id, round) WHERE p.payment_no = '{no}' AND e.kind = '{kind}'"
            )
        };
        (self.number(of("grant")).await, self.number(of("revoke")).await)
    }

    /// When a payment came into a state, in milliseconds of the store's clock.
    pub(crate) async fn moved_at(&self, no: &str, to: &str) -> i64 {
        self.number(format!(
            "SELECT at FROM hapax_transitions WHERE kind = 'payment' AND entity = '{no}' \
             AND to_state = '{to}'"
        ))
        .await
    }

    /// Everything about orders and payments that must not change by itself, as text.
    pub(crate) async fn snapshot(&self) -> Vec<String> {
        let mut rows = self
            .column(
                "SELECT concat_ws('|', tenant, order_id, round, amount, subject, benefits, status, \
                 paid_by, attempts) FROM pay_orders ORDER BY tenant, order_id, round",
            )
            .await;
        rows.extend(
            self.column(
                "SELECT concat_ws('|', payment_no, order_id, round, attempt, amount, reserved, \
                 refunded, given_back, status, surplus, version) FROM pay_payments \
                 ORDER BY payment_no",
            )
            .await,
        );
        rows
    }
}
