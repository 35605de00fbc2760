//! Housekeeping: what is old goes, a bounded number of rows at a time.
//!
//! Invariant: nobody can notice that a record was purged (`a_purge_is_unobservable` in the
//! contract suite), and each delete finds its rows by an index
//! (`every_recurring_statement_uses_its_index`).

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{
    dialect::{Bind, Dialect},
    store::{Sql, answer},
};
use crate::error::Error;
use hapax_core::{message::Window, millis, purge::Purge, store::Fault};

/// Old rows of one kind, for core's purger.
#[derive(Clone)]
pub struct Old<D: Dialect> {
    sql: Sql<D>,
    texts: &'static [&'static str],
    age: Duration,
}

impl<D: Dialect> Sql<D> {
    /// Journal lines older than `age`.
    pub fn old_journal(&self, age: Duration) -> Old<D> {
        Old { sql: self.clone(), texts: &[D::JOURNAL_PURGE], age }
    }

    /// Inbox rows whose `window` is over: no copy of their message can come any more.
    pub fn old_inbox(&self, window: Window) -> Old<D> {
        Old { sql: self.clone(), texts: &[D::INBOX_PURGE], age: window.keep() }
    }

    /// Buried messages that were written more than `age` ago, and their journal.
    pub fn old_letters(&self, age: Duration) -> Old<D> {
        Old { sql: self.clone(), texts: &[D::OUTBOX_PURGE, D::OUTBOX_JOURNAL_PURGE], age }
    }

    /// Locks that nobody holds.
    pub fn old_locks(&self) -> Old<D> {
        Old { sql: self.clone(), texts: &[D::LOCK_PURGE], age: Duration::ZERO }
    }
}

impl<D: Dialect> Purge for Old<D> {
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        let (sql, texts, age) = (self.sql.clone(), self.texts, self.age);
        let task = self.sql.owned(async move { sweep(&sql, texts, age, rows).await });
        answer(task)
    }
}

impl<D: Dialect> std::fmt::Debug for Old<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Old").field("age", &self.age).finish_non_exhaustive()
    }
}

/// Records that count as absent.
pub(super) async fn records<D: Dialect>(sql: &Sql<D>, rows: u16) -> Result<u16, Error> {
    sweep(sql, &[D::PURGE], Duration::ZERO, rows).await
}

/// One transaction that deletes at most `rows` by each text; without any it writes nothing.
async fn sweep<D: Dialect>(
    sql: &Sql<D>,
    texts: &[&'static str],
    age: Duration,
    rows: u16,
) -> Result<u16, Error> {
    let mut tx = sql.begin_steps().await?;
    let mut most = 0;
    for text in texts {
        let binds = vec![Bind::Int(i64::from(rows)), Bind::Int(millis(age))];
        match D::execute(&mut tx, text, binds).await {
            Ok(deleted) => most = std::cmp::max(most, deleted),
            Err(cause) => {
                sql.rollback(tx).await;
                return Err(cause.into());
            }
        }
    }
    if most == 0 {
        sql.rollback(tx).await;
        return Ok(0);
    }
    sql.commit(tx).await?;
    Ok(u16::try_from(most).unwrap_or(rows))
}
