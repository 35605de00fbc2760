//! What each method is asked: names, and contents with a stable field order.

use form_urlencoded::parse;
use serde::{Deserialize, Serialize};

use crate::channel::{Frozen, PaymentNo, Purchase, Refund, RefundNo, Way};

/// A method of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Method {
    Precreate,
    PagePay,
    Query,
    Close,
    Refund,
    RefundQuery,
}

impl Method {
    const ALL: [Self; 6] =
        [Self::Precreate, Self::PagePay, Self::Query, Self::Close, Self::Refund, Self::RefundQuery];

    /// The name that requests carry. `alipay.trade.cancel` is not among them on purpose: on a
    /// paid trade it refunds.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Precreate => "alipay.trade.precreate",
            Self::PagePay => "alipay.trade.page.pay",
            Self::Query => "alipay.trade.query",
            Self::Close => "alipay.trade.close",
            Self::Refund => "alipay.trade.refund",
            Self::RefundQuery => "alipay.trade.fastpay.refund.query",
        }
    }

    /// The name of the answer's node.
    pub(super) fn node(self) -> String {
        format!("{}_response", self.name().replace('.', "_"))
    }

    /// The method that prepares a payment in this way.
    pub(super) const fn paying(way: Way) -> Self {
        match way {
            Way::Code => Self::Precreate,
            Way::Page => Self::PagePay,
        }
    }
}

/// What a frozen request asks, and of which payment.
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) payment_no: String,
    pub(super) refund_no: Option<String>,
}

impl Question {
    /// Reads back what `frozen` asks; nothing if it is not a request of ours.
    pub(super) fn recall(frozen: &Frozen) -> Option<Self> {
        #[derive(Deserialize)]
        struct Numbers {
            out_trade_no: String,
            out_request_no: Option<String>,
        }
        let value = |name: &str| {
            parse(frozen.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
        };
        let name = value("method")?;
        let method = Method::ALL.into_iter().find(|method| method.name() == name)?;
        let numbers: Numbers = serde_json::from_str(&value("biz_content")?).ok()?;
        Some(Self { method, payment_no: numbers.out_trade_no, refund_no: numbers.out_request_no })
    }
}

pub(super) fn purchase(purchase: &Purchase) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Content<'a> {
        out_trade_no: &'a str,
        total_amount: String,
        subject: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        product_code: Option<&'static str>,
        time_expire: String,
    }
    serde_json::to_string(&Content {
        out_trade_no: purchase.payment_no.as_str(),
        total_amount: purchase.amount.text(purchase.currency),
        subject: purchase.subject.as_str(),
        product_code: match purchase.way {
            Way::Page => Some("FAST_INSTANT_TRADE_PAY"),
            Way::Code => None,
        },
        time_expire: purchase.expires_at.beijing(),
    })
}

/// For query and close, which name a payment and nothing else.
pub(super) fn payment(payment_no: &PaymentNo) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Content<'a> {
        out_trade_no: &'a str,
    }
    serde_json::to_string(&Content { out_trade_no: payment_no.as_str() })
}

pub(super) fn refund(refund: &Refund) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Content<'a> {
        out_trade_no: &'a str,
        refund_amount: String,
        out_request_no: &'a str,
    }
    serde_json::to_string(&Content {
        out_trade_no: refund.payment_no.as_str(),
        refund_amount: refund.amount.text(refund.currency),
        out_request_no: refund.refund_no.as_str(),
    })
}

pub(super) fn refund_query(
    payment_no: &PaymentNo,
    refund_no: &RefundNo,
) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Content<'a> {
        out_trade_no: &'a str,
        out_request_no: &'a str,
    }
    serde_json::to_string(&Content {
        out_trade_no: payment_no.as_str(),
        out_request_no: refund_no.as_str(),
    })
}
