//! What buyers and time do.

use jiff::Timestamp;

use super::agenda::Due;
use super::{TradeIx, World};
use crate::clock::shifted;
use crate::faults::{BuyerAct, Moment, RaceRule};
use crate::trade::{Arrival, Event, Refundability, Refusal};

/// Who scans and pays if nobody is named.
pub(super) const BUYER: &str = "2088000000000001";

impl World {
    pub(crate) fn scan(
        &mut self,
        ix: TradeIx,
        buyer: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let buyer = buyer.unwrap_or_else(|| self.buyer_of(ix));
        self.change(ix, Event::Scan { buyer }, now)
    }

    pub(crate) fn pay(
        &mut self,
        ix: TradeIx,
        buyer: Option<String>,
        arrival: Arrival,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let buyer = buyer.unwrap_or_else(|| self.buyer_of(ix));
        let number = self.record(ix).map(|record| record.out_trade_no.clone()).unwrap_or_default();
        let product = if self.armed.is_not_refundable(&number) {
            Refundability::Final
        } else {
            Refundability::Refundable
        };
        let paid = self.change(ix, Event::Pay { buyer, arrival, product }, now);
        self.totals.payments_refused += u64::from(paid.is_err());
        paid
    }

    /// Does what is due, and tells when the next thing is.
    pub(crate) fn run_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some(due) = self.agenda.take(now) {
            match due {
                Due::Lapse(ix) => {
                    let looked = self.change(ix, Event::Tick, now);
                    debug_assert_eq!(looked, Ok(()), "a look at the clock is never refused");
                }
                Due::Settle(ix, request_no) => {
                    let settled = self.change(ix, Event::Settle { request_no }, now);
                    debug_assert_eq!(settled, Ok(()), "an accepted refund can be done");
                }
                Due::Race(ix, race) => self.act(ix, &race, now),
            }
        }
        self.next_due()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next_at()
    }

    /// Sets off the buyers of a moment; the immediate ones act before this returns.
    pub(super) fn set_off(&mut self, moment: Moment, ix: TradeIx, now: Timestamp) {
        let Some(record) = self.record(ix) else { return };
        let expires_at = record.trade.terms.expires_at;
        let number = record.out_trade_no.clone();
        for race in self.armed.races(moment, &number) {
            if moment == Moment::AtExpiry {
                self.agenda.add(shifted(expires_at, race.delay_ms), Due::Race(ix, race));
            } else if race.delay_ms > 0 {
                self.agenda.add(shifted(now, race.delay_ms), Due::Race(ix, race));
            } else {
                self.act(ix, &race, now);
            }
        }
    }

    fn act(&mut self, ix: TradeIx, race: &RaceRule, now: Timestamp) {
        let (word, done) = match race.act {
            BuyerAct::Scan => ("scan", self.scan(ix, None, now)),
            BuyerAct::Pay => {
                let arrival = if race.late { Arrival::Late } else { Arrival::InTime };
                ("pay", self.pay(ix, None, arrival, now))
            }
        };
        if done.is_ok() {
            self.happened(&format!("{word}@{}", race.label()));
        }
    }

    fn buyer_of(&self, ix: TradeIx) -> String {
        let scanned_by = self.record(ix).and_then(|record| record.trade.buyer.clone());
        scanned_by.unwrap_or_else(|| BUYER.to_owned())
    }
}
