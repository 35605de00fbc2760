//! Request bodies, read into the types that the books use.
//!
//! Invariant: what passes here needs no second look; what does not gets one sentence that names
//! the member and says what to do (`every_bad_member_is_named`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    benefit::Code,
    channel::{PaymentNo, RefundNo, Subject, Way},
    money::{Amount, Currency},
    order::{BENEFITS_MAX, ChannelKind, Content, OrderId, way_of},
};

/// Longest reason of a refund, in characters.
const REASON_CHARS_MAX: usize = 200;
/// Longest name of a user or session, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// A payment to create.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreatePayment {
    /// 1–64 visible ASCII characters.
    pub(crate) order_id: String,
    /// Decimal text, such as `88.80`.
    amount: String,
    /// `CNY`.
    currency: String,
    /// 1–256 characters.
    subject: String,
    /// `alipay`.
    #[serde(default)]
    channel: Option<String>,
    /// `code` or `page`.
    #[serde(default)]
    way: Option<String>,
    /// What the payment grants.
    #[serde(default)]
    benefits: Vec<String>,
    /// Seconds until the attempt expires.
    #[serde(default)]
    pub(crate) expires_in: Option<u32>,
    /// Buys a paid order again.
    #[serde(default)]
    repurchase: bool,
    /// Who pays; required with a token.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "read with the token, and part of what is compared")]
    user: Option<String>,
    /// In which session; required with a token.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "read with the token, and part of what is compared")]
    session: Option<String>,
}

/// A body that was read into types.
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    pub(crate) order_id: OrderId,
    pub(crate) content: Content,
    pub(crate) channel: ChannelKind,
    pub(crate) way: Way,
    pub(crate) is_repurchase: bool,
}

/// Why a body is refused: one sentence.
pub(crate) type Complaint = String;

impl CreatePayment {
    /// Reads the members into types.
    pub(crate) fn read(&self) -> Result<Creation, Complaint> {
        let order_id = OrderId::parse(&self.order_id);
        let order_id = order_id.ok_or("`order_id` must be 1 to 64 visible ASCII characters")?;
        let currency = Currency::parse(&self.currency).map_err(|why| why.to_string())?;
        let amount = Amount::parse(&self.amount, currency).map_err(|why| why.to_string())?;
        let subject = Subject::parse(&self.subject).map_err(|why| why.to_string())?;
        let channel = self.channel.as_deref().unwrap_or("alipay");
        let channel =
            ChannelKind::parse(channel).map_err(|_| "`channel` must be \"alipay\"".to_owned())?;
        let way = way_of(self.way.as_deref().unwrap_or("code"));
        let way = way.ok_or("`way` must be \"code\" or \"page\"")?;
        let benefits = benefits(&self.benefits)?;
        let content = Content { amount, currency, subject, benefits };
        Ok(Creation { order_id, content, channel, way, is_repurchase: self.repurchase })
    }
}

fn benefits(codes: &[String]) -> Result<BTreeSet<Code>, Complaint> {
    if codes.len() > BENEFITS_MAX {
        return Err(format!("`benefits` must have at most {BENEFITS_MAX} codes"));
    }
    let mut set = BTreeSet::new();
    for code in codes {
        let parsed = Code::parse(code);
        let rule = "`benefits` must be codes of 1 to 64 characters from a-z, 0-9, '.', '_' and '-'";
        if !set.insert(parsed.ok_or(rule)?) {
            return Err("`benefits` has a code twice; leave one out".to_owned());
        }
    }
    Ok(set)
}

/// A refund to make.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRefund {
    /// 1–64 letters, digits or underscores, unique per tenant; it is the key of the refund.
    refund_no: String,
    /// Decimal text.
    amount: String,
    /// At most 200 characters.
    #[serde(default)]
    reason: String,
}

impl CreateRefund {
    /// Reads the members into types, for a payment in this currency.
    pub(crate) fn read(&self, currency: Currency) -> Result<(RefundNo, Amount, String), Complaint> {
        let refund_no = RefundNo::parse(&self.refund_no)
            .map_err(|_| "`refund_no` must be 1 to 64 letters, digits or underscores".to_owned())?;
        if self.refund_no.starts_with("auto_") {
            let rule = "`refund_no` must not begin with \"auto_\", which the service itself uses";
            return Err(rule.to_owned());
        }
        let amount = Amount::parse(&self.amount, currency).map_err(|why| why.to_string())?;
        let is_fit = self.reason.chars().count() <= REASON_CHARS_MAX
            && !self.reason.chars().any(char::is_control);
        if !is_fit {
            let rule = "`reason` must be at most 200 characters without control characters";
            return Err(rule.to_owned());
        }
        Ok((refund_no, amount, self.reason.clone()))
    }
}

/// A token to issue.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssueToken {
    /// `payment.create`.
    pub(crate) operation: String,
    /// The order that the token is for.
    pub(crate) order_id: String,
    /// Who will use it.
    pub(crate) user: String,
    /// In which session.
    pub(crate) session: String,
}

impl IssueToken {
    /// Checks the members.
    pub(crate) fn read(&self) -> Result<OrderId, Complaint> {
        for (name, value) in [("user", &self.user), ("session", &self.session)] {
            if value.is_empty() || value.len() > NAME_BYTES_MAX {
                return Err(format!("`{name}` must be 1 to {NAME_BYTES_MAX} bytes"));
            }
        }
        OrderId::parse(&self.order_id)
            .ok_or_else(|| "`order_id` must be 1 to 64 visible ASCII characters".to_owned())
    }
}

/// Reads a payment number from a path; `None` if there can be no such payment.
pub(crate) fn payment_no(text: &str) -> Option<PaymentNo> {
    PaymentNo::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn good() -> Value {
        json!({"order_id": "1001", "amount": "88.80", "currency": "CNY", "subject": "One month",
            "benefits": ["vip_month"]})
    }

    fn complaint(member: &str, value: Value) -> String {
        let mut body = good();
        body.as_object_mut().unwrap().insert(member.to_owned(), value);
        let body: CreatePayment = serde_json::from_value(body).unwrap();
        body.read().unwrap_err()
    }

    #[test]
    fn a_good_body_is_read() {
        let body: CreatePayment = serde_json::from_value(good()).unwrap();
        let creation = body.read().unwrap();
        assert_eq!(creation.content.amount.minor(), 8880);
        assert_eq!(creation.way, Way::Code);
    }

    #[test]
    fn every_bad_member_is_named() {
        for (member, value, word) in [
            ("order_id", json!(""), "order_id"),
            ("amount", json!("1e2"), "amount"),
            ("amount", json!("-1"), "amount"),
            ("amount", json!("1.001"), "amount"),
            ("amount", json!("１"), "amount"),
            ("amount", json!("0"), "amount"),
            ("currency", json!("XAU"), "currency"),
            ("subject", json!(""), "subject"),
            ("channel", json!("cash"), "channel"),
            ("way", json!("fax"), "way"),
            ("benefits", json!(["A"]), "benefits"),
            ("benefits", json!(["a", "a"]), "twice"),
            ("benefits", json!(vec!["a"; 17]), "16"),
        ] {
            let sentence = complaint(member, value);
            assert!(sentence.contains(word), "{sentence}");
        }
    }

    #[test]
    fn a_refund_number_of_the_service_cannot_be_taken() {
        let body: CreateRefund =
            serde_json::from_value(json!({"refund_no": "auto_P1", "amount": "1"})).unwrap();
        assert!(body.read(Currency::Cny).unwrap_err().contains("auto_"));
    }

    #[test]
    fn an_unknown_member_is_refused() {
        let mut body = good();
        body.as_object_mut().unwrap().insert("amuont".to_owned(), json!("1"));
        let error = serde_json::from_value::<CreatePayment>(body).unwrap_err().to_string();
        assert!(error.contains("amuont"), "{error}");
    }
}
