//! The JSON of the payment API, as far as the attack reads it.
//!
//! Read leniently: what an answer lacks becomes evidence later, not a parse error here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::fen::Fen;
use crate::script::{Purchase, Way};

/// Body of `POST /v1/payments`.
#[derive(Debug, Serialize)]
struct Create<'a> {
    order_id: &'a str,
    amount: String,
    currency: &'a str,
    subject: &'a str,
    channel: &'a str,
    way: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    benefits: &'a [&'a str],
    expires_in: u64,
    user: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repurchase: Option<bool>,
}

/// Whether a purchase is the first or one more of the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    First,
    Again,
}

/// The session that all requests of one buyer carry.
const SESSION: &str = "storm";

/// The currency of every amount.
pub(crate) const CURRENCY: &str = "CNY";

/// Body of a request to pay; the same purchase gives the same bytes.
pub(crate) fn create(purchase: &Purchase, amount: Fen, round: Round) -> Bytes {
    json(&Create {
        order_id: &purchase.order_id,
        amount: amount.to_string(),
        currency: CURRENCY,
        subject: purchase.subject,
        channel: "alipay",
        way: match purchase.way {
            Way::Code => "code",
            Way::Page => "page",
        },
        benefits: purchase.benefits,
        expires_in: purchase.expires_in_s,
        user: &purchase.buyer,
        session: SESSION,
        repurchase: match round {
            Round::First => None,
            Round::Again => Some(true),
        },
    })
}

/// Body of `POST /v1/tokens`.
pub(crate) fn token(purchase: &Purchase) -> Bytes {
    json(&serde_json::json!({
        "operation": "payment.create",
        "order_id": purchase.order_id,
        "user": purchase.buyer,
        "session": SESSION,
    }))
}

/// Body of a refund.
pub(crate) fn refund(refund_no: &str, amount: Fen) -> Bytes {
    json(&serde_json::json!({
        "refund_no": refund_no,
        "amount": amount.to_string(),
        "reason": "storm",
    }))
}

fn json(body: &impl Serialize) -> Bytes {
    // Fails only for maps whose keys are no strings; there are none here.
    serde_json::to_vec(body).map(Bytes::from).unwrap_or_default()
}

/// A payment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Payment {
    pub(crate) payment_no: String,
    pub(crate) order_id: String,
    pub(crate) round: u32,
    pub(crate) attempt: u32,
    pub(crate) amount: String,
    pub(crate) currency: String,
    pub(crate) status: String,
    pub(crate) refunded: String,
    pub(crate) reserved: String,
    #[serde(default)]
    pub(crate) pay: Option<Pay>,
    #[serde(default)]
    pub(crate) benefits: Vec<Benefit>,
    #[serde(default)]
    pub(crate) surplus: bool,
}

/// How the buyer is led to the channel.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pay {
    #[serde(default)]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) page: Option<String>,
}

/// What a payment buys.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Benefit {
    pub(crate) benefit: String,
    pub(crate) status: String,
}

/// An order.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) round: u32,
    #[serde(default)]
    pub(crate) payments: Vec<Listed>,
}

/// A payment in an order.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) payment_no: String,
}

/// A refund.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refund {
    pub(crate) refund_no: String,
    pub(crate) payment_no: String,
    pub(crate) amount: String,
    pub(crate) status: String,
}

/// A token.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Token {
    pub(crate) token: String,
}

/// What became of a key.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Operation {
    pub(crate) status: String,
    /// Also called `answer`, as the HTTP layer does for any operation.
    #[serde(default, alias = "answer")]
    pub(crate) result: Option<Outcome>,
}

/// The stored answer of a key.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) status: u16,
}

/// A problem document.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(default)]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) conflicts: Vec<Field>,
}

/// A field that differs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Field {
    pub(crate) field: String,
}

/// Anything that has a state.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stateful {
    pub(crate) status: String,
}

impl Payment {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "paying" | "closing")
    }

    pub(crate) fn is_paid(&self) -> bool {
        self.status == "paid"
    }

    /// Whether it is paid and everything that it buys was granted.
    pub(crate) fn is_granted(&self) -> bool {
        self.is_paid() && self.benefits.iter().all(|benefit| benefit.status == "granted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payment_of_the_contract_is_read() {
        let text = r#"{"payment_no": "P1", "order_id": "1001", "round": 1, "attempt": 1,
            "amount": "88.80", "currency": "CNY", "subject": "One month", "channel": "alipay",
            "way": "code", "status": "paying", "refunded": "0.00", "reserved": "0.00",
            "trade_no": null, "pay": {"code": "https://x"},
            "benefits": [{"benefit": "vip_month", "status": "none"}],
            "created_at": "2026-10-01T00:00:00Z", "expires_at": "2026-10-01T00:15:00Z",
            "paid_at": null, "surplus": false}"#;
        let payment: Payment = serde_json::from_str(text).unwrap();
        assert!(payment.is_open() && !payment.is_paid() && !payment.surplus);
        assert_eq!(payment.benefits[0].benefit, "vip_month");
        assert_eq!(payment.pay.unwrap().page, None);
    }
}
