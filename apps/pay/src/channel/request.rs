//! What is asked of a channel, and the frozen bytes in which it is asked.

use std::fmt;

use crate::{
    beijing::Moment,
    channel::{PaymentNo, RefundNo},
    money::{Amount, Currency},
};

/// A payment to prepare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// Number of this attempt.
    pub payment_no: PaymentNo,
    /// What the buyer pays.
    pub amount: Amount,
    /// What the amount is counted in.
    pub currency: Currency,
    /// What the buyer reads.
    pub subject: Subject,
    /// When the channel must stop taking the money.
    pub expires_at: Moment,
    /// How the buyer pays.
    pub way: Way,
}

/// How the buyer pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// By scanning a code that we show.
    Code,
    /// On a page of the channel.
    Page,
}

/// A refund to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The payment to give back from.
    pub payment_no: PaymentNo,
    /// Number of this refund, the same for every copy.
    pub refund_no: RefundNo,
    /// How much to give back.
    pub amount: Amount,
    /// What the amount is counted in.
    pub currency: Currency,
}

/// The longest subject that Alipay takes.
const SUBJECT_CHARS_MAX: usize = 256;

/// What the buyer reads on the channel's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(String);

impl Subject {
    /// Reads 1 to 256 characters, none of them a control character.
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let chars = text.chars().take(SUBJECT_CHARS_MAX + 1).count();
        let fits = (1..=SUBJECT_CHARS_MAX).contains(&chars) && !text.chars().any(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(Unfit::Subject) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request in the very bytes that are sent, made to be stored before it is sent.
///
/// Sending the same bytes again is safe: the channel knows them by their number. They hold a
/// signature, so they do not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Frozen(Vec<u8>);

impl Frozen {
    /// Takes bytes that [`Frozen::as_bytes`] gave.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frozen(*** {} bytes)", self.0.len())
    }
}

/// Why something cannot be asked of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The subject is empty, too long or holds control characters.
    #[error("the subject must be 1 to 256 characters without control characters")]
    Subject,
    /// The subject holds a parameter of the channel, so that a notice could be read in two ways.
    #[error("the subject must not hold a parameter of the channel such as \"&sign=\"")]
    SubjectAmbiguous,
    /// The channel does not take this currency.
    #[error("the channel does not take this currency")]
    Currency,
    /// The expiry has passed, so nobody could pay.
    #[error("the expiry lies in the past, give one in the future")]
    Expired,
    /// The request could not be written or signed.
    #[error("the request could not be signed with the app private key")]
    Signing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_bounded_in_characters_and_has_no_control_characters() {
        assert!(Subject::parse("会员 100% +1 & a=b").is_ok());
        assert!(Subject::parse(&"会".repeat(256)).is_ok());
        for text in ["", "a\nb", "a\u{0}b", &"x".repeat(257)] {
            assert_eq!(Subject::parse(text), Err(Unfit::Subject), "{text:?}");
        }
    }

    #[test]
    fn a_frozen_request_does_not_print_its_bytes() {
        let frozen = Frozen::from_bytes(b"sign=abc".to_vec());
        assert_eq!(format!("{frozen:?}"), "Frozen(*** 8 bytes)");
    }
}
