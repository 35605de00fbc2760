//! The truth of one trade, for auditors.
//!
//! Invariant: entries are only ever added, one for each fact, whether or not it makes sense: if
//! the machine paid a trade twice, the ledger would show two payments. Nothing reads it to decide.

use jiff::Timestamp;

use crate::money::Fen;
use crate::trade::Fact;
use crate::wire::{Movement, MovementKind, Refund};

#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<Movement>);

impl Ledger {
    pub(super) fn opened(now: Timestamp) -> Self {
        Self(vec![movement(MovementKind::Opened, Fen::ZERO, None, now)])
    }

    pub(super) fn add(&mut self, fact: &Fact, total: Fen, now: Timestamp) {
        let entry = match fact {
            // A merchant may reprice without end, so that is counted and not listed.
            Fact::Repriced => return,
            Fact::Scanned => movement(MovementKind::Scanned, Fen::ZERO, None, now),
            Fact::Paid { .. } => movement(MovementKind::Paid, total, None, now),
            Fact::Finished => movement(MovementKind::Finished, Fen::ZERO, None, now),
            Fact::Closed(_) => movement(MovementKind::Closed, Fen::ZERO, None, now),
            Fact::RefundAccepted { request_no, amount } => {
                movement(MovementKind::RefundAccepted, *amount, Some(request_no), now)
            }
            Fact::Refunded { request_no, amount } => {
                movement(MovementKind::Refunded, *amount, Some(request_no), now)
            }
        };
        self.0.push(entry);
    }

    pub(super) fn entries(&self) -> &[Movement] {
        &self.0
    }

    pub(super) fn paid_fen(&self) -> i64 {
        self.of(MovementKind::Paid).map(|entry| entry.amount_fen).sum()
    }

    pub(super) fn payments(&self) -> u64 {
        self.of(MovementKind::Paid).fold(0, |count, _| count + 1)
    }

    pub(super) fn refunded_fen(&self) -> i64 {
        self.of(MovementKind::Refunded).map(|entry| entry.amount_fen).sum()
    }

    /// Refunds by number, in the order of their first mention.
    pub(super) fn refunds(&self) -> Vec<Refund> {
        let mut refunds: Vec<Refund> = Vec::new();
        for entry in &self.0 {
            let Some(number) = &entry.out_request_no else { continue };
            let known = refunds.iter().position(|refund| refund.out_request_no == *number);
            let slot = known.unwrap_or(refunds.len());
            if known.is_none() {
                refunds.push(Refund {
                    out_request_no: number.clone(),
                    refunded_fen: 0,
                    times: 0,
                    pending: true,
                });
            }
            if let Some(refund) = refunds.get_mut(slot)
                && entry.kind == MovementKind::Refunded
            {
                refund.refunded_fen += entry.amount_fen;
                refund.times += 1;
                refund.pending = false;
            }
        }
        refunds
    }

    fn of(&self, kind: MovementKind) -> impl Iterator<Item = &Movement> {
        self.0.iter().filter(move |entry| entry.kind == kind)
    }
}

fn movement(kind: MovementKind, amount: Fen, number: Option<&String>, now: Timestamp) -> Movement {
    Movement {
        at_ms: now.as_millisecond(),
        kind,
        amount_fen: amount.as_i64(),
        out_request_no: number.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_would_show_money_that_moved_twice() {
        let now = Timestamp::UNIX_EPOCH;
        let mut ledger = Ledger::opened(now);
        let refunded = Fact::Refunded { request_no: "r1".to_owned(), amount: Fen::new(30) };
        for fact in [Fact::Paid { late: false }, refunded.clone(), refunded] {
            ledger.add(&fact, Fen::new(100), now);
        }
        ledger.add(&Fact::Paid { late: true }, Fen::new(100), now);
        assert_eq!((ledger.payments(), ledger.paid_fen()), (2, 200));
        assert_eq!(ledger.refunded_fen(), 60);
        assert_eq!(ledger.refunds()[0].times, 2);
    }
}
