//! Money: whole fen inside, a decimal string on the wire.

use std::fmt;
use std::iter::Sum;

/// Fen in a yuan.
const YUAN: i64 = 100;

/// An amount of money in fen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fen(pub(crate) i64);

impl Fen {
    pub(crate) const ZERO: Self = Self(0);

    /// Reads `8`, `8.0` or `8.03`; no sign, no exponent, nothing else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (yuan, fen) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(yuan) || !digits(fen) || fen.len() > 2 {
            return None;
        }
        let scale = if fen.len() == 1 { 10 } else { 1 };
        let fen = fen.parse::<i64>().ok()?.checked_mul(scale)?;
        yuan.parse::<i64>().ok()?.checked_mul(YUAN)?.checked_add(fen).map(Self)
    }
}

impl fmt::Display for Fen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / YUAN, self.0 % YUAN)
    }
}

impl Sum for Fen {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_or_not_at_all() {
        for (text, fen) in
            [("8.03", 803), ("0.29", 29), ("4.35", 435), ("2.3", 230), ("7", 700), ("0.00", 0)]
        {
            assert_eq!(Fen::parse(text), Some(Fen(fen)), "{text}");
        }
        for text in ["", ".", "1.", ".1", "1e2", "-1", "+1", " 1", "1.001", "１", "1,00"] {
            assert_eq!(Fen::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for fen in (0..100_000).step_by(7) {
            assert_eq!(Fen::parse(&Fen(fen).to_string()), Some(Fen(fen)));
        }
    }
}
