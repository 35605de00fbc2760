//! One attempt to pay: its states and what may change them.
//!
//! Pure. Invariant: `Paid` is reachable from every state and left by none
//! (`money_is_believed_in_every_state_and_never_taken_back`), and an attempt that is over holds no
//! slot (`only_live_attempts_hold_the_slot`).

use crate::stored::{named, stored_word};
use hapax::machine::{Machine, Move};

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Written down, not yet known to be ready at the channel.
    Created,
    /// Ready to be paid.
    Waiting,
    /// Asked to be closed; the channel has not confirmed.
    Closing,
    /// Closed, unpaid.
    Closed,
    /// Paid.
    Paid,
    /// The channel would not take it.
    Failed,
}

stored_word!(pub Status, "payment status",
    Created = "created", Waiting = "waiting", Closing = "closing", Closed = "closed",
    Paid = "paid", Failed = "failed");

impl Status {
    /// Every state, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Created, Self::Waiting, Self::Closing, Self::Closed, Self::Paid, Self::Failed];

    /// Whether the buyer may still pay, so that the attempt holds its order's slot.
    pub const fn is_live(self) -> bool {
        match self {
            Self::Created | Self::Waiting | Self::Closing => true,
            Self::Closed | Self::Paid | Self::Failed => false,
        }
    }

    /// The word that merchants see.
    pub const fn public(self) -> &'static str {
        match self {
            Self::Created => "pending",
            Self::Waiting => "paying",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Paid => "paid",
            Self::Failed => "failed",
        }
    }
}

/// What became known about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The channel is ready to take the money.
    Prepared,
    /// The channel surely will not take it.
    Refused,
    /// Merchant, expiry or another attempt's payment asks for an end.
    CloseAsked,
    /// The channel confirmed that it ended unpaid.
    ClosedUnpaid,
    /// The buyer paid.
    Paid,
}

named!(Status, Fact);

impl Fact {
    /// Every fact, for tables and tests.
    pub const ALL: [Self; 5] =
        [Self::Prepared, Self::Refused, Self::CloseAsked, Self::ClosedUnpaid, Self::Paid];

    /// The stable word in journals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Refused => "refused",
            Self::CloseAsked => "close_asked",
            Self::ClosedUnpaid => "closed_unpaid",
            Self::Paid => "paid",
        }
    }
}

/// The whole life of an attempt.
///
/// A late answer to a prepare call finds the attempt closing and changes nothing; money that
/// comes after the close is believed all the same.
pub const MACHINE: Machine<Status, Fact> = Machine::new(
    "payment",
    &Status::ALL,
    &[
        (Status::Created, Fact::Prepared, Status::Waiting),
        (Status::Created, Fact::Refused, Status::Failed),
        (Status::Created, Fact::CloseAsked, Status::Closing),
        (Status::Created, Fact::ClosedUnpaid, Status::Closed),
        (Status::Created, Fact::Paid, Status::Paid),
        (Status::Waiting, Fact::CloseAsked, Status::Closing),
        (Status::Waiting, Fact::ClosedUnpaid, Status::Closed),
        (Status::Waiting, Fact::Paid, Status::Paid),
        (Status::Closing, Fact::ClosedUnpaid, Status::Closed),
        (Status::Closing, Fact::Paid, Status::Paid),
        (Status::Closed, Fact::Paid, Status::Paid),
        (Status::Failed, Fact::Paid, Status::Paid),
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
    fn the_life_of_a_payment_has_no_flaw() {
        MACHINE.check().unwrap();
    }

    #[test]
    fn money_is_believed_in_every_state_and_never_taken_back() {
        for status in Status::ALL.into_iter().filter(|status| *status != Status::Paid) {
            assert_eq!(apply(status, Fact::Paid), Some(Status::Paid), "{status:?}");
        }
        for fact in Fact::ALL {
            assert_eq!(apply(Status::Paid, fact), None, "{fact:?}");
        }
    }

    #[test]
    fn only_live_attempts_hold_the_slot() {
        let live: Vec<_> = Status::ALL.into_iter().filter(|status| status.is_live()).collect();
        assert_eq!(live, [Status::Created, Status::Waiting, Status::Closing]);
    }

    #[test]
    fn an_attempt_that_is_over_comes_alive_by_money_alone() {
        for status in Status::ALL.into_iter().filter(|status| !status.is_live()) {
            for fact in Fact::ALL {
                assert!(apply(status, fact).is_none_or(|next| next == Status::Paid));
            }
        }
    }

    #[test]
    fn a_late_answer_to_prepare_does_not_stop_a_close() {
        assert_eq!(apply(Status::Closing, Fact::Prepared), None);
        assert_eq!(apply(Status::Closing, Fact::Refused), None);
    }

    #[test]
    fn whatever_comes_in_whatever_order_the_end_is_the_same() {
        // Facts of one attempt that was paid, in every order: always paid.
        let facts = [Fact::Prepared, Fact::CloseAsked, Fact::ClosedUnpaid, Fact::Paid];
        for first in 0..facts.len() {
            for second in 0..facts.len() {
                let mut order = facts;
                order.swap(0, first);
                order.swap(1, second);
                let end = order
                    .into_iter()
                    .fold(Status::Created, |status, fact| apply(status, fact).unwrap_or(status));
                assert_eq!(end, Status::Paid, "{order:?}");
            }
        }
    }
}
