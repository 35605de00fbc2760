//! Money: whole minor units inside, exact decimal text outside, never a float.
//!
//! Invariant: the text of an amount parses to the same amount, and each amount has one text.
//! Held by `every_amount_survives_its_own_text` and `the_bound_survives_its_own_text`.

use std::iter;

/// The most that one trade may move, in minor units: 100000000.00, the limit of Alipay.
///
/// A sum of 900 million such trades still fits an `i64`.
pub const MINOR_MAX: i64 = 10_000_000_000;

/// What an amount is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Currency {
    /// Renminbi, counted in fen.
    Cny,
}

impl Currency {
    /// Reads an ISO 4217 code in capital letters.
    pub fn parse(code: &str) -> Result<Self, Malformed> {
        match code {
            "CNY" => Ok(Self::Cny),
            _ => Err(Malformed::Currency),
        }
    }

    /// The ISO 4217 code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Cny => "CNY",
        }
    }

    /// How many decimals the minor unit stands for.
    pub const fn decimals(self) -> usize {
        match self {
            Self::Cny => 2,
        }
    }
}

/// One movement of money, more than zero: what a buyer pays or is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i64);

impl Amount {
    /// Takes `minor` units, 1 to [`MINOR_MAX`].
    pub const fn from_minor(minor: i64) -> Result<Self, Malformed> {
        match minor {
            ..=0 => Err(Malformed::NotPositive),
            1..=MINOR_MAX => Ok(Self(minor)),
            _ => Err(Malformed::TooLarge),
        }
    }

    /// Reads decimal text such as `88.80`, `88.8` or `88`.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, Malformed> {
        Self::from_minor(minor_units(text, currency)?)
    }

    /// The amount in minor units.
    pub const fn minor(self) -> i64 {
        self.0
    }

    /// The amount with all decimals of `currency`, as every channel writes it: `88.80`.
    pub fn text(self, currency: Currency) -> String {
        decimal(self.0, currency)
    }
}

/// Movements of money added up, zero included: what has been paid, reserved or refunded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sum(i64);

impl Sum {
    /// Nothing moved yet.
    pub const ZERO: Self = Self(0);

    /// Takes `minor` units, 0 to [`MINOR_MAX`].
    pub const fn from_minor(minor: i64) -> Result<Self, Malformed> {
        match minor {
            ..0 => Err(Malformed::Negative),
            0..=MINOR_MAX => Ok(Self(minor)),
            _ => Err(Malformed::TooLarge),
        }
    }

    /// Reads decimal text such as `0.00` or `88.80`.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, Malformed> {
        Self::from_minor(minor_units(text, currency)?)
    }

    /// The sum in minor units.
    pub const fn minor(self) -> i64 {
        self.0
    }

    /// The sum as one movement; nothing if it is zero.
    pub fn amount(self) -> Option<Amount> {
        Amount::from_minor(self.0).ok()
    }

    /// The sum with all decimals of `currency`: `0.00`.
    pub fn text(self, currency: Currency) -> String {
        decimal(self.0, currency)
    }
}

impl From<Amount> for Sum {
    fn from(amount: Amount) -> Self {
        Self(amount.0)
    }
}

/// Why text or a number is not money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Something other than digits around at most one point.
    #[error("the amount must be digits with at most one point between them, like \"88.80\"")]
    NotDecimal,
    /// `01`: two texts for one amount.
    #[error("the amount must not start with a needless zero, like \"8.80\"")]
    LeadingZero,
    /// More decimals than the currency has.
    #[error("the amount has more decimals than its currency, write \"88.80\"")]
    TooFine,
    /// Zero or less where money must move.
    #[error("the amount must be more than zero")]
    NotPositive,
    /// A sum below zero.
    #[error("the sum must not be below zero")]
    Negative,
    /// Above [`MINOR_MAX`].
    #[error("the amount must not be above 100000000.00")]
    TooLarge,
    /// A currency code nobody here knows.
    #[error("the currency is not known here, use \"CNY\"")]
    Currency,
}

fn minor_units(text: &str, currency: Currency) -> Result<i64, Malformed> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return Err(Malformed::NotDecimal),
        Some(parts) => parts,
        None => (text, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(Malformed::NotDecimal);
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(Malformed::LeadingZero);
    }
    let Some(missing) = currency.decimals().checked_sub(fraction.len()) else {
        return Err(Malformed::TooFine);
    };
    whole
        .bytes()
        .chain(fraction.bytes())
        .chain(iter::repeat_n(b'0', missing))
        .try_fold(0_i64, |units, digit| units.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
        .ok_or(Malformed::TooLarge)
}

fn decimal(minor: i64, currency: Currency) -> String {
    let decimals = currency.decimals();
    let digits = format!("{minor:0width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fen(text: &str) -> Result<i64, Malformed> {
        Amount::parse(text, Currency::Cny).map(Amount::minor)
    }

    proptest! {
        #[test]
        fn every_amount_survives_its_own_text(minor in 1_i64..=10_000_000) {
            let amount = Amount::from_minor(minor).unwrap();
            let text = amount.text(Currency::Cny);
            prop_assert_eq!(Amount::parse(&text, Currency::Cny), Ok(amount));
            prop_assert_eq!(Sum::parse(&text, Currency::Cny), Ok(Sum::from(amount)));
        }

        #[test]
        fn no_text_with_anything_but_digits_and_points_is_an_amount(text in "\\PC*") {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            prop_assert!(plain || fen(&text) == Err(Malformed::NotDecimal));
        }

        #[test]
        fn text_that_parses_is_the_amount_written_plainly(text in "[0-9]{0,4}[.]?[0-9]{0,3}") {
            if let Ok(amount) = Sum::parse(&text, Currency::Cny) {
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                prop_assert_eq!(amount.text(Currency::Cny), format!("{whole}.{fraction:0<2}"));
            }
        }
    }

    #[test]
    fn every_fen_up_to_ten_thousand_yuan_survives_its_own_text() {
        for minor in 0..=1_000_000 {
            let sum = Sum::from_minor(minor).unwrap();
            assert_eq!(Sum::parse(&sum.text(Currency::Cny), Currency::Cny), Ok(sum));
        }
    }

    #[test]
    fn the_bound_survives_its_own_text() {
        let most = Amount::from_minor(MINOR_MAX).unwrap();
        assert_eq!(most.text(Currency::Cny), "100000000.00");
        assert_eq!(Amount::parse("100000000.00", Currency::Cny), Ok(most));
        assert_eq!(fen("100000000.01"), Err(Malformed::TooLarge));
        assert_eq!(fen("99999999999999999999999"), Err(Malformed::TooLarge));
    }

    #[test]
    fn amounts_that_floats_get_wrong_are_exact() {
        assert_eq!(fen("8.03"), Ok(803));
        assert_eq!(fen("0.29"), Ok(29));
        assert_eq!(fen("4.35"), Ok(435));
        assert_eq!(fen("2.3"), Ok(230));
    }

    #[test]
    fn missing_decimals_are_zeros() {
        assert_eq!(fen("88.80"), Ok(8880));
        assert_eq!(fen("88.8"), Ok(8880));
        assert_eq!(fen("88"), Ok(8800));
        assert_eq!(fen("0.01"), Ok(1));
    }

    #[test]
    fn anything_but_plain_digits_is_refused() {
        for text in [
            "",
            ".",
            ".5",
            "1.",
            "1..2",
            "1.2.3",
            "1e2",
            "1E2",
            " 1.00",
            "1.00 ",
            "+1",
            "-1",
            "NaN",
            "inf",
            "0x10",
            "1,00",
            "1_0",
            "１.００",
            "１",
            "٣",
            "1.0\u{0}",
            "¥1",
        ] {
            assert_eq!(fen(text), Err(Malformed::NotDecimal), "{text:?}");
        }
    }

    #[test]
    fn decimals_beyond_the_currency_are_refused() {
        assert_eq!(fen("1.001"), Err(Malformed::TooFine));
        assert_eq!(fen("1.000"), Err(Malformed::TooFine));
    }

    #[test]
    fn needless_zeros_in_front_are_refused() {
        assert_eq!(fen("01"), Err(Malformed::LeadingZero));
        assert_eq!(fen("00.01"), Err(Malformed::LeadingZero));
    }

    #[test]
    fn an_amount_is_more_than_zero_and_a_sum_may_be_zero() {
        assert_eq!(fen("0.00"), Err(Malformed::NotPositive));
        assert_eq!(Amount::from_minor(-1), Err(Malformed::NotPositive));
        assert_eq!(Sum::parse("0.00", Currency::Cny), Ok(Sum::ZERO));
        assert_eq!(Sum::ZERO.amount(), None);
        assert_eq!(Sum::from_minor(-1), Err(Malformed::Negative));
    }
}
