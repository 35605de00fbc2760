//! One refund: its states and what may change them.
//!
//! Pure. Invariant: money is reserved before the channel is asked, and given free only when the
//! channel surely refused (`only_a_sure_refusal_frees_the_reserve`).

use crate::stored::{named, stored_word};
use hapax::machine::{Machine, Move};

/// Where a refund stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The money is set aside; the channel has not been asked.
    Reserved,
    /// The channel was asked, perhaps more than once, under one number.
    Sent,
    /// The money went back.
    Done,
    /// The channel surely will not do it.
    Refused,
}

stored_word!(pub Status, "refund status",
    Reserved = "reserved", Sent = "sent", Done = "done", Refused = "refused");

impl Status {
    /// The word that merchants see.
    pub const fn public(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Sent => "processing",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }

    /// Whether nothing changes any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Reserved | Self::Sent => false,
            Self::Done | Self::Refused => true,
        }
    }
}

/// Who wanted the refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The merchant, under a number of its own.
    Merchant,
    /// The service: the money came late or twice.
    Auto,
}

stored_word!(pub Origin, "refund origin", Merchant = "merchant", Auto = "auto");

/// What became known about a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The channel is about to be asked.
    Asked,
    /// The channel gave the money back.
    Done,
    /// The channel surely will not.
    Refused,
}

named!(Status, Fact);

impl Fact {
    /// The stable word in journals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// The whole life of a refund. A notice may tell of one that was only set aside when we died.
pub const MACHINE: Machine<Status, Fact> = Machine::new(
    "refund",
    &[Status::Reserved, Status::Sent, Status::Done, Status::Refused],
    &[
        (Status::Reserved, Fact::Asked, Status::Sent),
        (Status::Reserved, Fact::Done, Status::Done),
        (Status::Sent, Fact::Done, Status::Done),
        (Status::Sent, Fact::Refused, Status::Refused),
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
    fn the_life_of_a_refund_has_no_flaw() {
        MACHINE.check().unwrap();
    }

    #[test]
    fn only_a_sure_refusal_frees_the_reserve() {
        assert_eq!(apply(Status::Sent, Fact::Refused), Some(Status::Refused));
        assert_eq!(apply(Status::Reserved, Fact::Refused), None);
    }

    #[test]
    fn a_finished_refund_stays_as_it_is() {
        for status in [Status::Done, Status::Refused] {
            for fact in [Fact::Asked, Fact::Done, Fact::Refused] {
                assert_eq!(apply(status, fact), None);
            }
        }
    }
}
