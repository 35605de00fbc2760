//! Money as whole fen.
//!
//! Invariant: no float ever holds an amount, and text is taken only if it is exact
//! (`text_and_fen_agree_both_ways`, `inexact_or_dressed_up_amounts_are_refused`).

use std::fmt;

/// The largest amount of one trade that the channel takes: 100,000,000.00 yuan.
const TRADE_MAX: Fen = Fen(10_000_000_000);

/// Digits before the point in the largest amount; longer text is refused before it is added up.
const YUAN_DIGITS_MAX: usize = 9;

/// An amount in fen, a hundredth of a yuan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fen(i64);

impl Fen {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1);

    #[cfg(test)]
    pub(crate) const fn new(fen: i64) -> Self {
        Self(fen)
    }

    /// Reads yuan with at most two decimals, from 0.01 to 100000000.00.
    pub(crate) fn parse_payable(text: &str) -> Option<Self> {
        let fen = parse(text)?;
        (fen >= Self::ONE && fen <= TRADE_MAX).then_some(fen)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(crate) fn as_i64(self) -> i64 {
        self.0
    }
}

impl std::iter::Sum for Fen {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::plus)
    }
}

impl fmt::Display for Fen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let fen = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", fen / 100, fen % 100)
    }
}

fn parse(text: &str) -> Option<Fen> {
    let (yuan, decimals) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some((yuan, decimals)) => (yuan, decimals),
        None => (text, ""),
    };
    let padded = yuan.len() > 1 && yuan.starts_with('0');
    if yuan.is_empty() || yuan.len() > YUAN_DIGITS_MAX || padded || decimals.len() > 2 {
        return None;
    }
    let mut fen = 0_i64;
    // "8.3" is 830 fen: absent decimals count as zeros.
    for digit in yuan.bytes().chain(decimals.bytes().chain([b'0', b'0']).take(2)) {
        if !digit.is_ascii_digit() {
            return None;
        }
        fen = fen * 10 + i64::from(digit - b'0');
    }
    Some(Fen(fen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_fen_agree_both_ways() {
        for fen in (0..100_000).chain([9_999_999_999, 10_000_000_000]) {
            assert_eq!(parse(&Fen(fen).to_string()), Some(Fen(fen)), "{fen}");
        }
    }

    #[test]
    fn amounts_that_floats_get_wrong_are_exact() {
        for (text, fen) in
            [("8.03", 803), ("0.29", 29), ("4.35", 435), ("2.3", 230), ("145.05", 14505)]
        {
            assert_eq!(Fen::parse_payable(text), Some(Fen(fen)), "{text}");
        }
    }

    #[test]
    fn inexact_or_dressed_up_amounts_are_refused() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "1e2",
            "-1",
            "+1",
            " 1.00",
            "1.00 ",
            "1.001",
            "1,00",
            "NaN",
            "0x1",
            "01.00",
            "1.0.0",
            "１.００",
            "1000000000",
            "99999999999999999999",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_payable_amount_has_a_floor_and_a_ceiling() {
        assert_eq!(Fen::parse_payable("0.00"), None);
        assert_eq!(Fen::parse_payable("0.01"), Some(Fen(1)));
        assert_eq!(Fen::parse_payable("100000000.00"), Some(TRADE_MAX));
        assert_eq!(Fen::parse_payable("100000000.01"), None);
    }
}
