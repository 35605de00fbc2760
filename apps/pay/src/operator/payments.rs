//! Payments: what an operator looks up.

use serde::Serialize;

use super::Office;
use crate::{
    channel::PaymentNo,
    db::{self, payments::Payment, refunds::Refund},
    error::Error,
    payment::Status,
    utc::rfc3339,
};

/// One payment of a list.
#[derive(Clone, Debug, Serialize)]
pub struct PaymentLine {
    /// The number at the channel.
    pub payment_no: String,
    /// Whose it is.
    pub tenant: String,
    /// For which order.
    pub order_id: String,
    /// In which round.
    pub round: u32,
    /// Decimal text.
    pub amount: String,
    /// Where it stands.
    pub status: &'static str,
    /// Money that came late or twice.
    pub surplus: bool,
    /// When it was opened.
    pub created_at: String,
}

/// Everything about one payment.
#[derive(Clone, Debug, Serialize)]
pub struct PaymentDetail {
    /// Its line.
    #[serde(flatten)]
    pub line: PaymentLine,
    /// The channel's number.
    pub trade_no: Option<String>,
    /// When it expires or expired.
    pub expires_at: String,
    /// When it was paid.
    pub paid_at: Option<String>,
    /// Set aside for refunds, decimal text.
    pub reserved: String,
    /// Given back, decimal text.
    pub refunded: String,
    /// Its refunds.
    pub refunds: Vec<RefundLine>,
    /// Every state it went through.
    pub transitions: Vec<TransitionLine>,
}

/// One refund.
#[derive(Clone, Debug, Serialize)]
pub struct RefundLine {
    /// Its number.
    pub refund_no: String,
    /// Decimal text.
    pub amount: String,
    /// Where it stands.
    pub status: &'static str,
    /// `merchant` or `auto`.
    pub origin: &'static str,
    /// Why the channel would not do it.
    pub failure: Option<String>,
}

/// One step of an entity's life.
#[derive(Clone, Debug, Serialize)]
pub struct TransitionLine {
    /// When.
    pub at: String,
    /// The version that it left.
    pub version: i64,
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// Why.
    pub event: String,
}

impl Office {
    /// Payments with this status, or all; after this number, in the order of their numbers.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::Kind::Config) for a status that does not exist;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn payments(
        &self,
        status: Option<&str>,
        after: &str,
        rows: u16,
    ) -> Result<Vec<PaymentLine>, Error> {
        let status = status.map(Status::parse).transpose().map_err(|_| {
            let words = Status::ALL.map(Status::as_str).join(", ");
            let why = format!("the status must be one of {words}");
            Error::caused(crate::Kind::Config, "read the request", why)
        })?;
        let mut reader = self.sql.readers().acquire().await?;
        let found = db::payments::list(&mut reader, status, after, rows).await?;
        Ok(found.iter().map(line).collect())
    }

    /// One payment by its number. `None`: there is none.
    ///
    /// # Errors
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn payment(&self, no: &str) -> Result<Option<PaymentDetail>, Error> {
        let Ok(no) = PaymentNo::parse(no) else { return Ok(None) };
        let mut reader = self.sql.readers().acquire().await?;
        let Some(payment) = db::payments::find(&mut reader, &no).await? else { return Ok(None) };
        let refunds = db::refunds::of_payment(&mut reader, &no).await?;
        drop(reader);
        let moves = self.sql.moves("payment", no.as_str(), 0, 1000).await?;
        Ok(Some(PaymentDetail {
            line: line(&payment),
            trade_no: payment.trade_no.clone(),
            expires_at: rfc3339(payment.expires_at),
            paid_at: payment.paid_at.map(rfc3339),
            reserved: payment.reserved.text(payment.currency),
            refunded: std::cmp::max(payment.refunded, payment.given_back).text(payment.currency),
            refunds: refunds.iter().map(refund_line).collect(),
            transitions: moves
                .into_iter()
                .map(|step| TransitionLine {
                    at: rfc3339(step.at),
                    version: step.version,
                    from: step.from,
                    to: step.to,
                    event: step.event,
                })
                .collect(),
        }))
    }
}

fn line(payment: &Payment) -> PaymentLine {
    PaymentLine {
        payment_no: payment.payment_no.as_str().to_owned(),
        tenant: payment.tenant.as_str().to_owned(),
        order_id: payment.order_id.as_str().to_owned(),
        round: payment.round,
        amount: payment.amount.text(payment.currency),
        status: payment.status.as_str(),
        surplus: payment.is_surplus,
        created_at: rfc3339(payment.created_at),
    }
}

fn refund_line(refund: &Refund) -> RefundLine {
    RefundLine {
        refund_no: refund.refund_no.as_str().to_owned(),
        amount: refund.amount.text(refund.currency),
        status: refund.status.as_str(),
        origin: refund.origin.as_str(),
        failure: refund.failure.clone(),
    }
}
