//! The numbers under which a channel knows our payments and refunds.

use std::fmt;

/// Fits Alipay (64) and `WeChat` Pay (32), so that an attempt never depends on its channel.
const PAYMENT_NO_BYTES_MAX: usize = 32;

/// Both channels take 64; a derived number such as `auto_<payment_no>` needs more than 32.
const REFUND_NO_BYTES_MAX: usize = 64;

/// The number of one payment attempt, unique at the channel for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentNo(String);

impl PaymentNo {
    /// Reads 1 to 32 letters, digits or underscores.
    pub fn parse(text: &str) -> Result<Self, MalformedNumber> {
        checked(text, PAYMENT_NO_BYTES_MAX).map(Self)
    }

    /// The number as the channel sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of one refund, kept for every copy of its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefundNo(String);

impl RefundNo {
    /// Reads 1 to 64 letters, digits or underscores.
    pub fn parse(text: &str) -> Result<Self, MalformedNumber> {
        checked(text, REFUND_NO_BYTES_MAX).map(Self)
    }

    /// The number as the channel sees it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefundNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that no channel takes as a number of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number must be 1 to {bytes_max} letters, digits or underscores")]
pub struct MalformedNumber {
    bytes_max: usize,
}

fn checked(text: &str, bytes_max: usize) -> Result<String, MalformedNumber> {
    let fits = (1..=bytes_max).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits { Ok(text.to_owned()) } else { Err(MalformedNumber { bytes_max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_letters_digits_and_underscores_within_its_length() {
        assert!(PaymentNo::parse("HPX_0001").is_ok());
        assert!(PaymentNo::parse(&"x".repeat(32)).is_ok());
        assert!(RefundNo::parse(&"x".repeat(64)).is_ok());
        for text in ["", "a b", "a-b", "付", "a\n", &"x".repeat(33)] {
            assert!(PaymentNo::parse(text).is_err(), "{text:?}");
        }
        assert!(RefundNo::parse(&"x".repeat(65)).is_err());
    }
}
