//! Payments: one row an attempt.

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;

use super::{
    Conn, is_one, orders::Round, read, read_amount, read_count, read_currency, read_sum, read_time,
    read_time_opt, sql,
};
use crate::{
    channel::{Frozen, PayData, PaymentNo, Subject, Way},
    error::Error,
    money::{Amount, Currency, Sum},
    order::{ChannelKind, OrderId, way_of, way_word},
    payment::Status,
};
use hapax::{Tenant, Timestamp};

/// One attempt to pay for one round of an order.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    pub(crate) payment_no: PaymentNo,
    pub(crate) tenant: Tenant,
    pub(crate) order_id: OrderId,
    pub(crate) round: u32,
    pub(crate) attempt: u32,
    pub(crate) channel: ChannelKind,
    pub(crate) way: Way,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) subject: Subject,
    /// Set aside for refunds whose end is not known.
    pub(crate) reserved: Sum,
    /// Given back by refunds of ours.
    pub(crate) refunded: Sum,
    /// Given back in all, as far as the channel told us.
    pub(crate) given_back: Sum,
    pub(crate) status: Status,
    pub(crate) is_surplus: bool,
    pub(crate) version: i64,
    pub(crate) trade_no: Option<String>,
    pub(crate) frozen: Frozen,
    pub(crate) pay_data: Option<PayData>,
    pub(crate) failure: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) paid_at: Option<Timestamp>,
    pub(crate) checks: u32,
}

impl Payment {
    /// The round that it is an attempt for.
    pub(crate) fn at(&self) -> Round<'_> {
        Round { tenant: &self.tenant, order_id: &self.order_id, round: self.round }
    }

    /// What is left of the money.
    pub(crate) fn net_minor(&self) -> i64 {
        self.amount.minor() - std::cmp::max(self.refunded, self.given_back).minor()
    }

    fn read(row: &SqliteRow) -> Result<Self, Error> {
        let order_id = OrderId::parse(read(row, "order_id")?);
        let pay_data: Option<&str> = read(row, "pay_data")?;
        let frozen: Vec<u8> = read(row, "frozen")?;
        Ok(Self {
            payment_no: PaymentNo::parse(read(row, "payment_no")?).map_err(Error::corrupt)?,
            tenant: Tenant::parse(read(row, "tenant")?).map_err(Error::corrupt)?,
            order_id: order_id.ok_or_else(|| Error::corrupt("an order number"))?,
            round: read_count(row, "round")?,
            attempt: read_count(row, "attempt")?,
            channel: ChannelKind::parse(read(row, "channel")?).map_err(Error::corrupt)?,
            way: way_of(read(row, "way")?).ok_or_else(|| Error::corrupt("a way to pay"))?,
            amount: read_amount(row, "amount")?,
            currency: read_currency(row)?,
            subject: Subject::parse(read(row, "subject")?).map_err(Error::corrupt)?,
            reserved: read_sum(row, "reserved")?,
            refunded: read_sum(row, "refunded")?,
            given_back: read_sum(row, "given_back")?,
            status: Status::parse(read(row, "status")?).map_err(Error::corrupt)?,
            is_surplus: read(row, "surplus")?,
            version: read(row, "version")?,
            trade_no: read(row, "trade_no")?,
            frozen: Frozen::from_bytes(frozen),
            pay_data: pay_data.map(read_pay_data).transpose()?,
            failure: read(row, "failure")?,
            created_at: read_time(row, "created_at")?,
            expires_at: read_time(row, "expires_at")?,
            paid_at: read_time_opt(row, "paid_at")?,
            checks: read_count(row, "checks")?,
        })
    }
}

/// What is kept of what the buyer needs in order to pay.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPayData {
    Code(String),
    Page(String),
}

fn read_pay_data(text: &str) -> Result<PayData, Error> {
    match serde_json::from_str(text).map_err(Error::corrupt)? {
        StoredPayData::Code(code) => Ok(PayData::Code(code)),
        StoredPayData::Page(page) => Ok(PayData::Page(page)),
    }
}

fn write_pay_data(data: &PayData) -> Result<String, Error> {
    let stored = match data {
        PayData::Code(code) => StoredPayData::Code(code.clone()),
        PayData::Page(page) => StoredPayData::Page(page.clone()),
    };
    serde_json::to_string(&stored).map_err(Error::corrupt)
}

/// A new attempt.
pub(crate) struct NewPayment<'a> {
    pub(crate) payment_no: &'a PaymentNo,
    pub(crate) at: Round<'a>,
    pub(crate) attempt: u32,
    pub(crate) channel: ChannelKind,
    pub(crate) way: Way,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) subject: &'a Subject,
    pub(crate) frozen: &'a Frozen,
    pub(crate) expires_at: Timestamp,
    pub(crate) next_check_at: Timestamp,
}

/// Writes an attempt down. `false`: the slot of its order is taken.
pub(crate) async fn insert(
    conn: &mut Conn,
    new: &NewPayment<'_>,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::INSERT_PAYMENT)
        .bind(new.payment_no.as_str())
        .bind(new.at.tenant.as_str())
        .bind(new.at.order_id.as_str())
        .bind(new.at.round)
        .bind(new.attempt)
        .bind(new.channel.as_str())
        .bind(way_word(new.way))
        .bind(new.amount.minor())
        .bind(new.currency.code())
        .bind(new.subject.as_str())
        .bind(new.frozen.as_bytes())
        .bind(now.as_millis())
        .bind(new.expires_at.as_millis())
        .bind(new.next_check_at.as_millis())
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// One attempt by its number.
pub(crate) async fn find(conn: &mut Conn, no: &PaymentNo) -> Result<Option<Payment>, Error> {
    let query = sqlx::query(sql::PAYMENT).bind(no.as_str());
    query.fetch_optional(conn).await?.as_ref().map(Payment::read).transpose()
}

/// The attempt that holds an order's slot.
pub(crate) async fn live(
    conn: &mut Conn,
    tenant: &Tenant,
    order_id: &OrderId,
) -> Result<Option<Payment>, Error> {
    let query = sqlx::query(sql::LIVE_PAYMENT).bind(tenant.as_str()).bind(order_id.as_str());
    query.fetch_optional(conn).await?.as_ref().map(Payment::read).transpose()
}

/// All attempts for a round, first one first.
pub(crate) async fn of_order(conn: &mut Conn, at: Round<'_>) -> Result<Vec<Payment>, Error> {
    let query = sqlx::query(sql::PAYMENTS_OF_ORDER)
        .bind(at.tenant.as_str())
        .bind(at.order_id.as_str())
        .bind(at.round);
    query.fetch_all(conn).await?.iter().map(Payment::read).collect()
}

/// Moves an attempt on, from the very version that was read. `false`: it changed meanwhile.
pub(crate) async fn advance(
    conn: &mut Conn,
    payment: &Payment,
    to: Status,
    next_check_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, Error> {
    let done = sqlx::query(sql::MOVE_PAYMENT)
        .bind(payment.payment_no.as_str())
        .bind(payment.status.as_str())
        .bind(payment.version)
        .bind(to.as_str())
        .bind(now.as_millis())
        .bind(next_check_at.map(Timestamp::as_millis))
        .execute(conn)
        .await?;
    Ok(is_one(&done))
}

/// Keeps what the buyer needs in order to pay; the first word counts.
pub(crate) async fn store_pay_data(
    conn: &mut Conn,
    no: &PaymentNo,
    data: &PayData,
) -> Result<(), Error> {
    let text = write_pay_data(data)?;
    sqlx::query(sql::STORE_PAY_DATA).bind(no.as_str()).bind(text).execute(conn).await?;
    Ok(())
}

/// Keeps why the channel would not take it.
pub(crate) async fn store_failure(
    conn: &mut Conn,
    no: &PaymentNo,
    failure: &str,
) -> Result<(), Error> {
    sqlx::query(sql::STORE_FAILURE).bind(no.as_str()).bind(failure).execute(conn).await?;
    Ok(())
}

/// Keeps the channel's number and the time of payment.
pub(crate) async fn store_trade(
    conn: &mut Conn,
    no: &PaymentNo,
    trade_no: &str,
    paid_at: Timestamp,
) -> Result<(), Error> {
    let query = sqlx::query(sql::STORE_TRADE).bind(no.as_str()).bind(trade_no);
    query.bind(paid_at.as_millis()).execute(conn).await?;
    Ok(())
}

/// Marks money that pays for nothing.
pub(crate) async fn mark_surplus(conn: &mut Conn, no: &PaymentNo) -> Result<(), Error> {
    sqlx::query(sql::MARK_SURPLUS).bind(no.as_str()).execute(conn).await?;
    Ok(())
}

/// Raises what the channel says it gave back in all. `false`: we knew that much.
pub(crate) async fn raise_given_back(
    conn: &mut Conn,
    no: &PaymentNo,
    given_back: Sum,
    now: Timestamp,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::STORE_GIVEN_BACK).bind(no.as_str()).bind(given_back.minor());
    Ok(is_one(&query.bind(now.as_millis()).execute(conn).await?))
}

/// Sets money aside for a refund. `false`: less than that is left, or it is not paid.
pub(crate) async fn reserve(
    conn: &mut Conn,
    no: &PaymentNo,
    amount: Amount,
    now: Timestamp,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::RESERVE).bind(no.as_str()).bind(amount.minor());
    Ok(is_one(&query.bind(now.as_millis()).execute(conn).await?))
}

/// The money that was set aside went back.
pub(crate) async fn spend_reserve(
    conn: &mut Conn,
    no: &PaymentNo,
    amount: Amount,
    now: Timestamp,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::SPEND_RESERVE).bind(no.as_str()).bind(amount.minor());
    Ok(is_one(&query.bind(now.as_millis()).execute(conn).await?))
}

/// The money that was set aside stays.
pub(crate) async fn free_reserve(
    conn: &mut Conn,
    no: &PaymentNo,
    amount: Amount,
    now: Timestamp,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::FREE_RESERVE).bind(no.as_str()).bind(amount.minor());
    Ok(is_one(&query.bind(now.as_millis()).execute(conn).await?))
}

/// Leases the attempts that are due, so that nobody else asks about them.
pub(crate) async fn lease(
    conn: &mut Conn,
    token: &[u8],
    until: Timestamp,
    rows: u16,
    now: Timestamp,
) -> Result<Vec<PaymentNo>, Error> {
    let rows = sqlx::query(sql::LEASE_PAYMENTS)
        .bind(now.as_millis())
        .bind(until.as_millis())
        .bind(token)
        .bind(rows)
        .fetch_all(conn)
        .await?;
    let number = |row| PaymentNo::parse(read(row, "payment_no")?).map_err(Error::corrupt);
    rows.iter().map(number).collect()
}

/// Gives a leased attempt back with the time of its next question; `None` is never.
pub(crate) async fn checked(
    conn: &mut Conn,
    no: &PaymentNo,
    token: &[u8],
    next_check_at: Option<Timestamp>,
) -> Result<bool, Error> {
    let query = sqlx::query(sql::CHECKED_PAYMENT).bind(no.as_str()).bind(token);
    let done = query.bind(next_check_at.map(Timestamp::as_millis)).execute(conn).await?;
    Ok(is_one(&done))
}

/// Payments after this number, of one state or all.
pub(crate) async fn list(
    conn: &mut Conn,
    status: Option<Status>,
    after: &str,
    rows: u16,
) -> Result<Vec<Payment>, Error> {
    let query = sqlx::query(sql::LIST_PAYMENTS).bind(after).bind(status.map(Status::as_str));
    query.bind(rows).fetch_all(conn).await?.iter().map(Payment::read).collect()
}
