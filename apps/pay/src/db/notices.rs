//! Notices of the channel, in the bytes that were received.

use super::{Conn, is_one, read, sql};
use crate::{error::Error, stored::stored_word};
use hapax::{Tenant, Timestamp};

/// What is known about a notice. That the row exists says nothing: only `Settled` is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// It names a payment that is not written down yet.
    Unmatched,
    /// The channel signed it, and it does not fit: a person must look.
    Quarantined,
    /// What it says is in the books.
    Settled,
}

stored_word!(pub(crate) Verdict, "notice verdict",
    Unmatched = "unmatched", Quarantined = "quarantined", Settled = "settled");

/// Names one event of a channel account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoticeKey<'a> {
    pub(crate) channel: &'a str,
    pub(crate) account: &'a str,
    pub(crate) notify_id: &'a str,
}

/// Writes a delivery down and says what is known about its event.
pub(crate) async fn receive(
    conn: &mut Conn,
    tenant: &Tenant,
    key: NoticeKey<'_>,
    payment_no: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<Verdict, Error> {
    sqlx::query(sql::INSERT_NOTICE)
        .bind(tenant.as_str())
        .bind(key.channel)
        .bind(key.account)
        .bind(key.notify_id)
        .bind(payment_no)
        .bind(body)
        .bind(now.as_millis())
        .execute(&mut *conn)
        .await?;
    let row = sqlx::query(sql::NOTICE)
        .bind(key.channel)
        .bind(key.account)
        .bind(key.notify_id)
        .fetch_one(conn)
        .await?;
    Verdict::parse(read(&row, "status")?).map_err(Error::corrupt)
}

/// Writes the verdict down; a settled notice stays settled.
pub(crate) async fn judge(
    conn: &mut Conn,
    key: NoticeKey<'_>,
    verdict: Verdict,
    reason: &str,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::JUDGE_NOTICE)
        .bind(key.channel)
        .bind(key.account)
        .bind(key.notify_id)
        .bind(verdict.as_str())
        .bind(reason)
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// The bytes of notices that came before the payment that they name.
pub(crate) async fn waiting_for(conn: &mut Conn, payment_no: &str) -> Result<Vec<Vec<u8>>, Error> {
    let rows = sqlx::query(sql::OPEN_NOTICES_OF_PAYMENT).bind(payment_no).fetch_all(conn).await?;
    rows.iter().map(|row| read(row, "body")).collect()
}

/// Removes at most `rows` settled notices that are older than `before`.
pub(crate) async fn purge(conn: &mut Conn, before: Timestamp, rows: u16) -> Result<u64, Error> {
    let query = sqlx::query(sql::PURGE_NOTICES).bind(before.as_millis()).bind(rows);
    Ok(query.execute(conn).await?.rows_affected())
}
