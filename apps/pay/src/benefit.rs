//! What a payment buys: its states and what may change them.
//!
//! Pure. Invariant: a benefit is live exactly while the payment's net money is above zero; who
//! comes first, the grant or the refund, does not matter
//! (`grant_and_refund_in_either_order_end_without_the_benefit`).

use crate::stored::{named, stored_word};
use hapax::machine::{Machine, Move};

/// Longest code of a benefit.
const CODE_BYTES_MAX: usize = 64;

/// The code of something that can be bought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(String);

impl Code {
    /// Reads 1–64 characters from `a`–`z`, `0`–`9`, `.`, `_` and `-`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        let fits = (1..=CODE_BYTES_MAX).contains(&text.len()) && text.bytes().all(legal);
        fits.then(|| Self(text.to_owned()))
    }

    /// The code as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a benefit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Paid for; to be granted.
    Due,
    /// Granted.
    Granted,
    /// The money went back before it was granted.
    Cancelled,
    /// The money went back after it was granted; to be taken away.
    RevokeDue,
    /// Taken away.
    Revoked,
}

stored_word!(pub Status, "benefit status",
    Due = "due", Granted = "granted", Cancelled = "cancelled", RevokeDue = "revoke_due",
    Revoked = "revoked");

impl Status {
    /// The word that merchants see.
    pub const fn public(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Granted => "granted",
            Self::Cancelled => "cancelled",
            Self::RevokeDue => "revoking",
            Self::Revoked => "revoked",
        }
    }
}

/// What happens to a benefit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The consumer hands it over.
    Granted,
    /// All of the money went back.
    MoneyGone,
    /// The consumer takes it away.
    Revoked,
}

named!(Status, Fact);

impl Fact {
    /// The stable word in journals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::MoneyGone => "money_gone",
            Self::Revoked => "revoked",
        }
    }
}

/// The whole life of a benefit.
pub const MACHINE: Machine<Status, Fact> = Machine::new(
    "benefit",
    &[Status::Due, Status::Granted, Status::Cancelled, Status::RevokeDue, Status::Revoked],
    &[
        (Status::Due, Fact::Granted, Status::Granted),
        (Status::Due, Fact::MoneyGone, Status::Cancelled),
        (Status::Granted, Fact::MoneyGone, Status::RevokeDue),
        (Status::RevokeDue, Fact::Revoked, Status::Revoked),
    ],
);

/// The state that `fact` leads to; `None`: it changes nothing.
pub fn apply(status: Status, fact: Fact) -> Option<Status> {
    match MACHINE.decide(status, fact) {
        Move::To(next) => Some(next),
        Move::Already(_) | Move::Illegal => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_of_a_benefit_has_no_flaw() {
        MACHINE.check().unwrap();
    }

    fn after(facts: &[Fact]) -> Status {
        let step = |status, fact: &Fact| apply(status, *fact).unwrap_or(status);
        facts.iter().fold(Status::Due, step)
    }

    #[test]
    fn grant_and_refund_in_either_order_end_without_the_benefit() {
        assert_eq!(after(&[Fact::Granted, Fact::MoneyGone, Fact::Revoked]), Status::Revoked);
        assert_eq!(after(&[Fact::MoneyGone, Fact::Granted, Fact::Revoked]), Status::Cancelled);
    }

    #[test]
    fn nothing_is_granted_or_taken_away_twice() {
        let twice = [Fact::Granted, Fact::Granted, Fact::MoneyGone, Fact::MoneyGone, Fact::Revoked];
        assert_eq!(after(&twice), Status::Revoked);
        assert_eq!(apply(Status::Revoked, Fact::Revoked), None);
    }

    #[test]
    fn a_code_is_short_and_plain() {
        assert!(Code::parse("vip_month.2-a").is_some());
        for text in ["", "VIP", "a b", "é", &"x".repeat(65)] {
            assert!(Code::parse(text).is_none(), "{text:?}");
        }
    }
}
