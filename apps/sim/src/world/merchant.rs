//! What merchants ask for.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::agenda::Due;
use super::ledger::Ledger;
use super::{Belief, Product, REFUNDS_KEPT, Record, TRADES_MAX, TradeIx, World};
use crate::charset::Charset;
use crate::clock::after;
use crate::faults::{CloseRefusal, Drift, Moment};
use crate::trade::{Ask, Event, Pace, Phase, Refusal, Terms, Trade};

/// A code or page that is to be shown.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) app_id: Arc<str>,
    pub(crate) seller_id: Arc<str>,
    pub(crate) out_trade_no: String,
    pub(crate) product: Product,
    pub(crate) terms: Terms,
    pub(crate) charset: Charset,
    pub(crate) notify_url: Option<String>,
    pub(crate) return_url: Option<String>,
    pub(crate) passback: Option<String>,
}

/// A code or page that is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) token: String,
    /// Notices that must go out once before the merchant hears of the code.
    pub(crate) notices_first: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotShown {
    Refused(Refusal),
    /// The simulator holds as many trades as it may.
    Full,
}

/// Which trade a call is about; `trade_no` wins.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) app_id: &'a str,
    pub(crate) trade_no: Option<&'a str>,
    pub(crate) out_trade_no: Option<&'a str>,
}

impl World {
    pub(crate) fn find(&self, asked: &Asked<'_>) -> Option<TradeIx> {
        let Some(trade_no) = asked.trade_no else {
            return self.by_out_trade_no(Some(asked.app_id), asked.out_trade_no?);
        };
        let ix = self.by_trade_no.get(trade_no).copied()?;
        self.record(ix).filter(|record| &*record.app_id == asked.app_id).map(|_| ix)
    }

    pub(crate) fn show(&mut self, opening: Opening, now: Timestamp) -> Result<Shown, NotShown> {
        let known = self.by_out_trade_no(Some(&opening.app_id), &opening.out_trade_no);
        let ix = match known {
            Some(ix) => self.present(ix, opening, now).map_err(NotShown::Refused)?,
            None => self.open(opening, now)?,
        };
        let Some(record) = self.record(ix) else { return Err(NotShown::Full) };
        let token = record.token.clone();
        let earlier = record.letters.len();
        self.set_off(Moment::BeforeCreateAnswer, ix, now);
        if known.is_none() {
            self.set_off(Moment::AfterCreate, ix, now);
            self.set_off(Moment::AtExpiry, ix, now);
        }
        let letters = self.record(ix).map_or(&[][..], |record| &record.letters);
        let notices_first = letters.get(earlier..).unwrap_or_default().to_vec();
        Ok(Shown { token, notices_first })
    }

    /// Looks at a trade as a query does; `None` if nobody scanned it.
    pub(crate) fn query(&mut self, ix: TradeIx, now: Timestamp) -> Option<&Record> {
        self.change(ix, Event::Tick, now).ok()?;
        let record = self.trades.get_mut(ix.0)?;
        let unpaid = matches!(record.trade.phase, Phase::Intent | Phase::Waiting);
        record.belief = if unpaid { Belief::Unpaid } else { Belief::None };
        (record.trade.phase != Phase::Intent).then_some(&*record)
    }

    pub(crate) fn close(&mut self, ix: TradeIx, now: Timestamp) -> Result<(), Refusal> {
        self.set_off(Moment::BeforeClose, ix, now);
        let closed = self.change(ix, Event::Close, now);
        let Some(record) = self.trades.get_mut(ix.0) else { return closed };
        record.closes_answered += 1;
        if record.trade.phase.is_paid() {
            self.totals.closes_refused_as_paid += 1;
            let overtaken = record.belief == Belief::Overtaken;
            self.totals.paid_between_query_and_close += u64::from(overtaken);
            record.belief = Belief::None;
        } else if closed == Err(Refusal::NotExist) {
            record.close_missed = true;
            self.set_off(Moment::AfterCloseNotExist, ix, now);
        }
        closed
    }

    /// What a close of a paid trade is refused with.
    pub(crate) fn close_refusal(&self) -> CloseRefusal {
        self.armed.faults().close_refusal
    }

    /// Refunds, at once or (`later`) by and by.
    pub(crate) fn refund(
        &mut self,
        ix: TradeIx,
        mut ask: Ask,
        later: Option<Duration>,
        now: Timestamp,
    ) -> Result<Repeat, Refusal> {
        let Some(record) = self.record(ix) else { return Err(Refusal::NotExist) };
        let number = ask.request_no.clone().unwrap_or_else(|| ask.fallback_no.clone());
        if record.trade.refund_of(&number).is_some() {
            self.change(ix, Event::Refund(ask), now)?;
            self.totals.refund_repeats += 1;
            return Ok(Repeat::Repeated);
        }
        if self.refunds_taken >= REFUNDS_KEPT {
            return Err(Refusal::TooManyRefunds);
        }
        ask.pace = if later.is_some() { Pace::Later } else { Pace::Now };
        self.change(ix, Event::Refund(ask), now)?;
        self.refunds_taken += 1;
        if let Some(wait) = later {
            self.agenda.add(after(now, wait), Due::Settle(ix, number));
        }
        Ok(Repeat::First)
    }

    fn open(&mut self, opening: Opening, now: Timestamp) -> Result<TradeIx, NotShown> {
        if self.trades.len() >= TRADES_MAX {
            return Err(NotShown::Full);
        }
        let ix = TradeIx(self.trades.len());
        let token = self.numbers.token();
        self.by_token.insert(token.clone(), ix);
        self.by_out_trade_no.entry(opening.out_trade_no.clone()).or_default().push(ix);
        self.totals.trades += 1;
        self.trades.push(Record {
            app_id: opening.app_id,
            seller_id: opening.seller_id,
            out_trade_no: opening.out_trade_no,
            trade_no: None,
            token,
            product: opening.product,
            charset: opening.charset,
            notify_url: opening.notify_url,
            return_url: opening.return_url,
            passback: opening.passback,
            trade: Trade::open(opening.terms),
            ledger: Ledger::opened(now),
            letters: Vec::new(),
            belief: Belief::None,
            close_missed: false,
            paid_late: false,
            closes_answered: 0,
        });
        Ok(ix)
    }

    fn present(
        &mut self,
        ix: TradeIx,
        opening: Opening,
        now: Timestamp,
    ) -> Result<TradeIx, Refusal> {
        let presented = self.change(ix, Event::Present(opening.terms), now);
        let lenient = self.armed.faults().drift == Drift::Accept;
        if let Err(refusal) = presented
            && !(refusal == Refusal::Inconsistent && lenient)
        {
            return Err(refusal);
        }
        if let Some(record) = self.trades.get_mut(ix.0)
            && record.trade.phase == Phase::Intent
        {
            // Until the code is scanned, the latest call counts.
            record.product = opening.product;
            record.charset = opening.charset;
            record.notify_url = opening.notify_url;
            record.return_url = opening.return_url;
            record.passback = opening.passback;
        }
        Ok(ix)
    }
}

/// Whether a refund call was the first of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    First,
    Repeated,
}
