//! Payments: what an operator looks up, and asking the channel about one.

use std::sync::Arc;

use serde::Serialize;

use super::{Office, bounded, invalid};
use crate::{
    channel::PaymentNo,
    db::{self, payments::Payment, refunds::Refund},
    error::Error,
    flow::check::{Asked, ask_channel},
    payment::Status,
    service,
    utc::rfc3339,
};

/// Most steps of one payment's life that are shown: its machine has no cycle.
const STEPS_MAX: u16 = 1000;

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
    /// What the amount is counted in.
    pub currency: &'static str,
    /// Where it stands.
    pub status: &'static str,
    /// Money that came late or twice.
    pub surplus: bool,
    /// When it was opened.
    pub created_at: String,
}

/// A page of payments.
#[derive(Clone, Debug, Serialize)]
pub struct PaymentPage {
    /// The payments, in the order of their numbers.
    pub payments: Vec<PaymentLine>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// What a question to the channel came to.
#[derive(Clone, Debug, Serialize)]
pub struct PaymentCheck {
    /// What the channel said.
    pub channel: Said,
    /// Where the payment stood before.
    pub status_before: &'static str,
    /// The payment now.
    #[serde(flatten)]
    pub payment: PaymentLine,
}

/// What the channel said about a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The buyer has seen it and has not paid.
    Unpaid,
    /// No buyer has seen it.
    NotSeen,
    /// Paid, closed or given back; the books say so too now.
    Booked,
    /// Nothing that can be believed; nothing was changed.
    Unknown,
}

impl Said {
    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unpaid => "unpaid",
            Self::NotSeen => "not_seen",
            Self::Booked => "booked",
            Self::Unknown => "unknown",
        }
    }
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
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a status that does not exist;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn payments(
        &self,
        status: Option<&str>,
        after: &str,
        rows: u16,
    ) -> Result<PaymentPage, Error> {
        let status = status.map(Status::parse).transpose().map_err(|_| {
            let words = Status::ALL.map(Status::as_str).join(", ");
            invalid(format!("the status must be one of {words}"))
        })?;
        let rows = bounded(rows);
        let mut reader = self.sql.readers().acquire().await?;
        let mut found = db::payments::list(&mut reader, status, after, rows + 1).await?;
        let has_more = found.len() > usize::from(rows);
        found.truncate(usize::from(rows));
        let last = found.last().filter(|_| has_more);
        let next = last.map(|payment| payment.payment_no.as_str().to_owned());
        Ok(PaymentPage { payments: found.iter().map(line).collect(), next })
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
        let moves = self.sql.moves("payment", no.as_str(), 0, STEPS_MAX).await?;
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

    /// Asks the channel where a payment stands and books what it says, through the one success
    /// flow. `None`: there is no such payment.
    ///
    /// What makes an answer [`Said::Unknown`] is logged.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::Kind::Config) if the tenant's account cannot be used;
    /// [`Kind::Changed`](crate::Kind::Changed) if others moved the payment meanwhile: ask again;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn check(&self, no: &str) -> Result<Option<PaymentCheck>, Error> {
        let Ok(no) = PaymentNo::parse(no) else { return Ok(None) };
        let Some(before) = self.find(&no).await? else { return Ok(None) };
        // Nothing is prepared here, so that no address for callbacks is told to the channel.
        let public_url = format!("http://{}", self.config.listen);
        let desk = service::desk_on(self.sql.clone(), self.config.clone(), &public_url)?;
        let channel = match ask_channel(&Arc::new(desk), &before).await? {
            Asked::Unpaid => Said::Unpaid,
            Asked::Missing => Said::NotSeen,
            Asked::Booked => Said::Booked,
            Asked::Unknown => Said::Unknown,
        };
        let after = self.find(&no).await?.unwrap_or_else(|| before.clone());
        let status_before = before.status.as_str();
        Ok(Some(PaymentCheck { channel, status_before, payment: line(&after) }))
    }

    async fn find(&self, no: &PaymentNo) -> Result<Option<Payment>, Error> {
        let mut reader = self.sql.readers().acquire().await?;
        db::payments::find(&mut reader, no).await
    }
}

fn line(payment: &Payment) -> PaymentLine {
    PaymentLine {
        payment_no: payment.payment_no.as_str().to_owned(),
        tenant: payment.tenant.as_str().to_owned(),
        order_id: payment.order_id.as_str().to_owned(),
        round: payment.round,
        amount: payment.amount.text(payment.currency),
        currency: payment.currency.code(),
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
