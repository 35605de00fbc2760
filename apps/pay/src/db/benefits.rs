//! Benefits and the ledger of what was really given.

use sqlx::sqlite::SqliteRow;

use super::{Conn, is_one, orders::Round, read, read_count, sql};
use crate::{
    benefit::{Code, Status},
    channel::PaymentNo,
    error::Error,
    order::OrderId,
};
use hapax::{Tenant, Timestamp};

/// One benefit of one round of an order.
#[derive(Clone, Debug)]
pub(crate) struct Benefit {
    pub(crate) tenant: Tenant,
    pub(crate) order_id: OrderId,
    pub(crate) round: u32,
    pub(crate) code: Code,
    pub(crate) payment_no: PaymentNo,
    pub(crate) status: Status,
    pub(crate) version: i64,
}

impl Benefit {
    /// The round that bought it.
    pub(crate) fn at(&self) -> Round<'_> {
        Round { tenant: &self.tenant, order_id: &self.order_id, round: self.round }
    }

    fn read(row: &SqliteRow) -> Result<Self, Error> {
        let order_id = OrderId::parse(read(row, "order_id")?);
        let code = Code::parse(read(row, "benefit")?);
        Ok(Self {
            tenant: Tenant::parse(read(row, "tenant")?).map_err(Error::corrupt)?,
            order_id: order_id.ok_or_else(|| Error::corrupt("an order number"))?,
            round: read_count(row, "round")?,
            code: code.ok_or_else(|| Error::corrupt("a benefit code"))?,
            payment_no: PaymentNo::parse(read(row, "payment_no")?).map_err(Error::corrupt)?,
            status: Status::parse(read(row, "status")?).map_err(Error::corrupt)?,
            version: read(row, "version")?,
        })
    }
}

/// Lets a benefit become due. `false`: the round has it already.
pub(crate) async fn insert(
    conn: &mut Conn,
    at: Round<'_>,
    code: &Code,
    payment_no: &PaymentNo,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::INSERT_BENEFIT)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(code.as_str())
        .bind(payment_no.as_str())
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// All benefits of a round.
pub(crate) async fn of_order(conn: &mut Conn, at: Round<'_>) -> Result<Vec<Benefit>, Error> {
    let query = sqlx::query(sql::BENEFITS_OF_ORDER)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round);
    query.fetch_all(conn).await?.iter().map(Benefit::read).collect()
}

/// One benefit of a round.
pub(crate) async fn find(
    conn: &mut Conn,
    at: Round<'_>,
    code: &Code,
) -> Result<Option<Benefit>, Error> {
    let query = sqlx::query(sql::BENEFIT)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round)
        .bind(code.as_str());
    query.fetch_optional(conn).await?.as_ref().map(Benefit::read).transpose()
}

/// Moves a benefit on, from the very version that was read. `false`: it changed meanwhile.
pub(crate) async fn advance(
    conn: &mut Conn,
    benefit: &Benefit,
    to: Status,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::MOVE_BENEFIT)
        .bind(benefit.tenant.as_str())
        .bind(benefit.order_id.as_str())
        .bind(benefit.round)
        .bind(benefit.code.as_str())
        .bind(benefit.status.as_str())
        .bind(benefit.version)
        .bind(to.as_str())
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// What really happened to a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The benefit was handed over.
    Grant,
    /// The benefit was taken away.
    Revoke,
}

/// Writes down what was really given or taken away.
pub(crate) async fn record_effect(
    conn: &mut Conn,
    benefit: &Benefit,
    effect: Effect,
    message_id: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let kind = match effect {
        Effect::Grant => "grant",
        Effect::Revoke => "revoke",
    };
    sqlx::query(sql::INSERT_EFFECT)
        .bind(benefit.tenant.as_str())
        .bind(benefit.order_id.as_str())
        .bind(benefit.round)
        .bind(benefit.code.as_str())
        .bind(kind)
        .bind(message_id)
        .bind(now.as_millis())
        .execute(conn)
        .await?;
    Ok(())
}
