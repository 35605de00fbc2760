//! Refunds: one row a refund number.

use sqlx::sqlite::SqliteRow;

use super::{
    Conn, is_one, read, read_amount, read_count, read_currency, read_time, read_time_opt, sql,
};
use crate::{
    channel::{Frozen, PaymentNo, RefundNo},
    error::Error,
    money::{Amount, Currency},
    refund::{Origin, Status},
};
use hapax::{Tenant, Timestamp};

/// One refund.
#[derive(Clone, Debug)]
pub(crate) struct Refund {
    pub(crate) tenant: Tenant,
    pub(crate) refund_no: RefundNo,
    pub(crate) payment_no: PaymentNo,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) reason: String,
    pub(crate) origin: Origin,
    pub(crate) status: Status,
    pub(crate) version: i64,
    /// The request in the bytes that were sent.
    pub(crate) frozen: Option<Frozen>,
    pub(crate) failure: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) sent_at: Option<Timestamp>,
    pub(crate) done_at: Option<Timestamp>,
    pub(crate) checks: u32,
}

impl Refund {
    fn read(row: &SqliteRow) -> Result<Self, Error> {
        let frozen: Option<Vec<u8>> = read(row, "frozen")?;
        Ok(Self {
            tenant: Tenant::parse(read(row, "tenant")?).map_err(Error::corrupt)?,
            refund_no: RefundNo::parse(read(row, "refund_no")?).map_err(Error::corrupt)?,
            payment_no: PaymentNo::parse(read(row, "payment_no")?).map_err(Error::corrupt)?,
            amount: read_amount(row, "amount")?,
            currency: read_currency(row)?,
            reason: read(row, "reason")?,
            origin: Origin::parse(read(row, "origin")?).map_err(Error::corrupt)?,
            status: Status::parse(read(row, "status")?).map_err(Error::corrupt)?,
            version: read(row, "version")?,
            frozen: frozen.map(Frozen::from_bytes),
            failure: read(row, "failure")?,
            created_at: read_time(row, "created_at")?,
            sent_at: read_time_opt(row, "sent_at")?,
            done_at: read_time_opt(row, "done_at")?,
            checks: read_count(row, "checks")?,
        })
    }
}

/// A new refund.
#[derive(Clone, Debug)]
pub(crate) struct NewRefund {
    pub(crate) tenant: Tenant,
    pub(crate) refund_no: RefundNo,
    pub(crate) payment_no: PaymentNo,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) reason: String,
    pub(crate) origin: Origin,
}

/// Writes a refund down. `false`: its number is known.
pub(crate) async fn insert(
    conn: &mut Conn,
    new: &NewRefund,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::INSERT_REFUND)
        .bind(new.tenant.as_str())
        .bind(new.refund_no.as_str())
        .bind(new.payment_no.as_str())
        .bind(new.amount.minor())
        .bind(new.currency.code())
        .bind(&new.reason)
        .bind(new.origin.as_str())
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// One refund by its number.
pub(crate) async fn find(
    conn: &mut Conn,
    tenant: &Tenant,
    no: &RefundNo,
) -> Result<Option<Refund>, Error> {
    let query = sqlx::query(sql::REFUND).bind(tenant.as_str()).bind(no.as_str());
    query.fetch_optional(conn).await?.as_ref().map(Refund::read).transpose()
}

/// What a refund's move writes beside its state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved<'a> {
    pub(crate) next_check_at: Option<Timestamp>,
    pub(crate) failure: Option<&'a str>,
    pub(crate) frozen: Option<&'a Frozen>,
}

/// Moves a refund on, from the very version that was read. `false`: it changed meanwhile.
pub(crate) async fn advance(
    conn: &mut Conn,
    refund: &Refund,
    to: Status,
    moved: Moved<'_>,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::MOVE_REFUND)
        .bind(refund.tenant.as_str())
        .bind(refund.refund_no.as_str())
        .bind(refund.status.as_str())
        .bind(refund.version)
        .bind(to.as_str())
        .bind(moved.next_check_at.map(Timestamp::as_millis))
        .bind(moved.failure)
        .bind(moved.frozen.map(Frozen::as_bytes))
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// Leases the refunds that are due, so that nobody else asks about them.
pub(crate) async fn lease(
    conn: &mut Conn,
    token: &[u8],
    until: Timestamp,
    rows: u16,
    now: Timestamp,
) -> Result<Vec<(Tenant, RefundNo)>, Error> {
    let rows = sqlx::query(sql::LEASE_REFUNDS)
        .bind(now.as_millis())
        .bind(until.as_millis())
        .bind(token)
        .bind(rows)
        .fetch_all(conn)
        .await?;
    let name = |row| {
        let tenant = Tenant::parse(read(row, "tenant")?).map_err(Error::corrupt)?;
        let refund_no = RefundNo::parse(read(row, "refund_no")?).map_err(Error::corrupt)?;
        Ok((tenant, refund_no))
    };
    rows.iter().map(name).collect()
}

/// Gives a leased refund back with the time of its next question; `None` is never.
pub(crate) async fn checked(
    conn: &mut Conn,
    tenant: &Tenant,
    no: &RefundNo,
    token: &[u8],
    next_check_at: Option<Timestamp>,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::CHECKED_REFUND).bind(tenant.as_str()).bind(no.as_str());
    let query = query.bind(token).bind(next_check_at.map(Timestamp::as_millis));
    Ok(is_one(&query.execute(conn).await?))
}

/// All refunds of a payment, oldest first.
pub(crate) async fn of_payment(conn: &mut Conn, no: &PaymentNo) -> Result<Vec<Refund>, Error> {
    let query = sqlx::query(sql::REFUNDS_OF_PAYMENT).bind(no.as_str());
    query.fetch_all(conn).await?.iter().map(Refund::read).collect()
}
