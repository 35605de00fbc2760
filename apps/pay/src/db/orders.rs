//! Orders: one row a round.

use std::collections::BTreeSet;

use sqlx::sqlite::SqliteRow;

use super::{Conn, is_one, read, read_amount, read_count, read_currency, sql};
use crate::{
    benefit::Code,
    channel::{PaymentNo, Subject},
    error::Error,
    order::{Content, OrderId, Status},
};
use hapax::{Tenant, Timestamp};

/// One purchase: a round of an order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) order_id: OrderId,
    pub(crate) round: u32,
    pub(crate) content: Content,
    pub(crate) status: Status,
    pub(crate) paid_by: Option<PaymentNo>,
}

impl Order {
    fn read(row: &SqliteRow) -> Result<Self, Error> {
        let codes: Vec<String> =
            serde_json::from_str(read(row, "benefits")?).map_err(Error::corrupt)?;
        let benefits: Option<BTreeSet<_>> = codes.iter().map(|code| Code::parse(code)).collect();
        let order_id = OrderId::parse(read(row, "order_id")?);
        let paid_by: Option<String> = read(row, "paid_by")?;
        Ok(Self {
            order_id: order_id.ok_or_else(|| Error::corrupt("an order number"))?,
            round: read_count(row, "round")?,
            content: Content {
                amount: read_amount(row, "amount")?,
                currency: read_currency(row)?,
                subject: Subject::parse(read(row, "subject")?).map_err(Error::corrupt)?,
                benefits: benefits.ok_or_else(|| Error::corrupt("a benefit code"))?,
            },
            status: Status::parse(read(row, "status")?).map_err(Error::corrupt)?,
            paid_by: paid_by.map(|no| PaymentNo::parse(&no)).transpose().map_err(Error::corrupt)?,
        })
    }
}

/// Names one round of one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) order_id: &'a OrderId,
    pub(crate) round: u32,
}

/// The newest round of an order.
pub(crate) async fn newest(
    conn: &mut Conn,
    tenant: &Tenant,
    order_id: &OrderId,
) -> Result<Option<Order>, Error> {
    let query = sqlx::query(sql::NEWEST_ORDER).bind(tenant.as_str()).bind(order_id.as_str());
    query.fetch_optional(conn).await?.as_ref().map(Order::read).transpose()
}

/// One round of an order.
pub(crate) async fn find(conn: &mut Conn, at: Round<'_>) -> Result<Option<Order>, Error> {
    let query =
        sqlx::query(sql::ORDER).bind(at.tenant.as_str()).bind(at.order_id.as_str()).bind(at.round);
    query.fetch_optional(conn).await?.as_ref().map(Order::read).transpose()
}

/// Writes a round down; if somebody else just did, nothing changes.
pub(crate) async fn insert(
    conn: &mut Conn,
    at: Round<'_>,
    content: &Content,
    now: Timestamp,
) -> Result<(), Error> {
    let codes: Vec<_> = content.benefits.iter().map(Code::as_str).collect();
    sqlx::query(sql::INSERT_ORDER)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(content.amount.minor())
        .bind(content.currency.code())
        .bind(content.subject.as_str())
        .bind(serde_json::to_string(&codes).map_err(Error::corrupt)?)
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(())
}

/// The number of the next attempt; `None` if the round is paid. A closed round opens again.
pub(crate) async fn next_attempt(
    conn: &mut Conn,
    at: Round<'_>,
    now: Timestamp,
) -> Result<Option<u32>, Error> {
    let row = sqlx::query(sql::NEXT_ATTEMPT)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(now.as_millis())
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(|row| read_count(row, "attempts")).transpose()
}

/// Lets `by` pay for the round. `false`: another attempt did, or it is not to be fulfilled.
pub(crate) async fn pay(
    conn: &mut Conn,
    at: Round<'_>,
    by: &PaymentNo,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::PAY_ORDER)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(by.as_str())
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// Closes the round if no attempt can be paid any more and none was.
pub(crate) async fn close(
    conn: &mut Conn,
    at: Round<'_>,
    is_fulfillable: bool,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::CLOSE_ORDER)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(is_fulfillable)
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}
