//! An order: what is bought, and how to tell the same purchase from another one.
//!
//! Pure. Invariant: the same order with other content is named field by field and never served
//! (`each_field_that_differs_is_named`).

use std::collections::BTreeSet;

use crate::{
    benefit::Code,
    channel::{Subject, Way},
    money::{Amount, Currency},
    stored::stored_word,
};

/// Longest order number of a merchant.
const ORDER_ID_BYTES_MAX: usize = 64;
/// Most benefits of one order: they are granted in one transaction.
pub const BENEFITS_MAX: usize = 16;

/// A merchant's order number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OrderId(String);

impl OrderId {
    /// Reads 1–64 visible ASCII characters; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=ORDER_ID_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The number as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// 待支付: not paid yet.
    Pending,
    /// 已支付: one attempt paid for it.
    Paid,
    /// 已关闭: no attempt can be paid any more and none was.
    Closed,
}

stored_word!(pub Status, "order status", Pending = "pending", Paid = "paid", Closed = "closed");

/// A payment channel that the service speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// Alipay.
    Alipay,
}

stored_word!(pub ChannelKind, "payment channel", Alipay = "alipay");

/// The stored word for how the buyer pays.
pub const fn way_word(way: Way) -> &'static str {
    match way {
        Way::Code => "code",
        Way::Page => "page",
    }
}

/// Reads the stored word for how the buyer pays.
pub fn way_of(word: &str) -> Option<Way> {
    match word {
        "code" => Some(Way::Code),
        "page" => Some(Way::Page),
        _ => None,
    }
}

/// What is bought, as two requests for one order are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What the buyer pays.
    pub amount: Amount,
    /// What the amount is counted in.
    pub currency: Currency,
    /// What the buyer reads.
    pub subject: Subject,
    /// What the payment grants.
    pub benefits: BTreeSet<Code>,
}

/// One field in which two requests for one order differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The member of the request.
    pub field: &'static str,
    /// What the order has.
    pub stored: String,
    /// What was sent now.
    pub given: String,
}

impl Content {
    /// The fields in which `given` differs from this stored content.
    pub fn conflicts(&self, given: &Self) -> Vec<Conflict> {
        let listed = |benefits: &BTreeSet<Code>| {
            benefits.iter().map(Code::as_str).collect::<Vec<_>>().join(", ")
        };
        let fields = [
            ("amount", self.amount.text(self.currency), given.amount.text(given.currency)),
            ("currency", self.currency.code().to_owned(), given.currency.code().to_owned()),
            ("subject", self.subject.as_str().to_owned(), given.subject.as_str().to_owned()),
            ("benefits", listed(&self.benefits), listed(&given.benefits)),
        ];
        fields
            .into_iter()
            .filter(|(_, stored, given)| stored != given)
            .map(|(field, stored, given)| Conflict { field, stored, given })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(amount: &str, subject: &str, benefits: &[&str]) -> Content {
        Content {
            amount: Amount::parse(amount, Currency::Cny).unwrap(),
            currency: Currency::Cny,
            subject: Subject::parse(subject).unwrap(),
            benefits: benefits.iter().map(|code| Code::parse(code).unwrap()).collect(),
        }
    }

    #[test]
    fn each_field_that_differs_is_named() {
        let stored = content("88.80", "a", &["x", "y"]);
        let given = content("88.81", "b", &["x"]);
        let conflicts = stored.conflicts(&given);
        let fields: Vec<_> = conflicts.iter().map(|conflict| conflict.field).collect();
        assert_eq!(fields, ["amount", "subject", "benefits"]);
        assert_eq!(
            conflicts.first().map(|c| (c.stored.as_str(), c.given.as_str())),
            Some(("88.80", "88.81"))
        );
    }

    #[test]
    fn the_spelling_of_an_amount_and_the_order_of_benefits_do_not_matter() {
        assert!(
            content("88.8", "a", &["x", "y"])
                .conflicts(&content("88.80", "a", &["y", "x"]))
                .is_empty()
        );
    }

    #[test]
    fn an_order_number_is_visible_ascii() {
        assert!(OrderId::parse("2026-10/01#7").is_some());
        for text in ["", "a b", "订单", &"x".repeat(65)] {
            assert!(OrderId::parse(text).is_none(), "{text:?}");
        }
    }
}
