//! What callers see of orders, payments and refunds.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    benefit::Code,
    channel::PayData,
    db::{benefits::Benefit, orders::Order, payments::Payment, refunds::Refund},
    order::{self, way_word},
    utc::rfc3339,
};

/// A payment attempt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Payment)]
pub(crate) struct PaymentView {
    /// The number at the channel; one per attempt.
    payment_no: String,
    order_id: String,
    /// One purchase; a new one only by `repurchase`.
    round: u32,
    attempt: u32,
    /// Decimal text.
    amount: String,
    currency: &'static str,
    subject: String,
    channel: &'static str,
    /// `code` or `page`.
    way: &'static str,
    /// `pending`, `paying`, `closing`, `paid`, `closed` or `failed`.
    status: &'static str,
    /// What went back, decimal text.
    refunded: String,
    /// What is set aside for refunds, decimal text.
    reserved: String,
    trade_no: Option<String>,
    pay: Option<PayView>,
    benefits: Vec<BenefitView>,
    /// Why the channel would not take it.
    failure: Option<String>,
    created_at: String,
    expires_at: String,
    paid_at: Option<String>,
    /// The money came late or twice and goes back by itself.
    surplus: bool,
}

/// What the buyer needs in order to pay.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Pay)]
pub(crate) enum PayView {
    /// Text to show as a QR code.
    Code(String),
    /// Address to send the buyer's browser to.
    Page(String),
}

/// One benefit of an order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Benefit)]
pub(crate) struct BenefitView {
    benefit: String,
    /// `none`, `due`, `granted`, `cancelled`, `revoking` or `revoked`.
    status: &'static str,
}

/// An order in its newest round.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order)]
pub(crate) struct OrderView {
    order_id: String,
    round: u32,
    amount: String,
    currency: &'static str,
    subject: String,
    /// `pending`, `paying`, `paid` or `closed`.
    status: &'static str,
    paid_by: Option<String>,
    payments: Vec<PaymentView>,
    benefits: Vec<BenefitView>,
}

/// A refund.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refund)]
pub(crate) struct RefundView {
    refund_no: String,
    payment_no: String,
    amount: String,
    currency: &'static str,
    /// `reserved`, `processing`, `done` or `refused`.
    status: &'static str,
    /// `merchant` or `auto`.
    origin: &'static str,
    reason: String,
    failure: Option<String>,
    created_at: String,
    done_at: Option<String>,
}

impl PaymentView {
    /// Shows a payment with what its order promised and what became of that.
    pub(crate) fn of(payment: &Payment, order: &Order, benefits: &[Benefit]) -> Self {
        let refunded = std::cmp::max(payment.refunded, payment.given_back);
        Self {
            payment_no: payment.payment_no.as_str().to_owned(),
            order_id: payment.order_id.as_str().to_owned(),
            round: payment.round,
            attempt: payment.attempt,
            amount: payment.amount.text(payment.currency),
            currency: payment.currency.code(),
            subject: payment.subject.as_str().to_owned(),
            channel: payment.channel.as_str(),
            way: way_word(payment.way),
            status: payment.status.public(),
            refunded: refunded.text(payment.currency),
            reserved: payment.reserved.text(payment.currency),
            trade_no: payment.trade_no.clone(),
            pay: payment.pay_data.as_ref().map(|data| match data {
                PayData::Code(code) => PayView::Code(code.clone()),
                PayData::Page(page) => PayView::Page(page.clone()),
            }),
            benefits: benefit_views(order, benefits),
            failure: payment.failure.clone(),
            created_at: rfc3339(payment.created_at),
            expires_at: rfc3339(payment.expires_at),
            paid_at: payment.paid_at.map(rfc3339),
            surplus: payment.is_surplus,
        }
    }
}

fn benefit_views(order: &Order, benefits: &[Benefit]) -> Vec<BenefitView> {
    let status = |code: &Code| {
        let found = benefits.iter().find(|benefit| benefit.code == *code);
        found.map_or("none", |benefit| benefit.status.public())
    };
    let view =
        |code: &Code| BenefitView { benefit: code.as_str().to_owned(), status: status(code) };
    order.content.benefits.iter().map(view).collect()
}

impl OrderView {
    /// Shows an order with its attempts.
    pub(crate) fn of(order: &Order, payments: &[Payment], benefits: &[Benefit]) -> Self {
        let is_paying = payments.iter().any(|payment| payment.pay_data.is_some());
        let status = match order.status {
            order::Status::Pending if is_paying => "paying",
            order::Status::Pending => "pending",
            order::Status::Paid => "paid",
            order::Status::Closed => "closed",
        };
        Self {
            order_id: order.order_id.as_str().to_owned(),
            round: order.round,
            amount: order.content.amount.text(order.content.currency),
            currency: order.content.currency.code(),
            subject: order.content.subject.as_str().to_owned(),
            status,
            paid_by: order.paid_by.as_ref().map(|no| no.as_str().to_owned()),
            payments: payments.iter().map(|one| PaymentView::of(one, order, benefits)).collect(),
            benefits: benefit_views(order, benefits),
        }
    }
}

impl RefundView {
    /// Shows a refund.
    pub(crate) fn of(refund: &Refund) -> Self {
        Self {
            refund_no: refund.refund_no.as_str().to_owned(),
            payment_no: refund.payment_no.as_str().to_owned(),
            amount: refund.amount.text(refund.currency),
            currency: refund.currency.code(),
            status: refund.status.public(),
            origin: refund.origin.as_str(),
            reason: refund.reason.clone(),
            failure: refund.failure.clone(),
            created_at: rfc3339(refund.created_at),
            done_at: refund.done_at.map(rfc3339),
        }
    }
}
