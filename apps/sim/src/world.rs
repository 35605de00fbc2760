//! Everything that the channel knows: one state machine, changed under one lock, without I/O.
//!
//! Invariant: a trade changes only in [`World::change`], which also writes the ledger, counts, and
//! makes the notices that are due; so truth, totals and notices can't disagree
//! (`totals_are_what_the_ledgers_add_up_to`).

mod agenda;
mod buyer;
mod ledger;
mod mail;
mod merchant;
mod numbers;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

pub(crate) use self::mail::{Notice, delivery};
pub(crate) use self::merchant::{Asked, NotShown, Opening, Repeat, Shown};
pub(crate) use self::numbers::Numbers;
pub(crate) use self::view::Filter;

use self::agenda::{Agenda, Due};
use self::ledger::Ledger;
use self::mail::Letter;
use crate::armed::Armed;
use crate::charset::Charset;
use crate::faults::{CallFault, Change, Faults, Method, PushTable, RaceRule};
use crate::trade::{Ending, Event, Fact, Refusal, Trade};
use crate::wire;

/// Trades kept. A storm of 10,000 orders fits ten times; one trade takes about two kilobytes.
const TRADES_MAX: usize = 100_000;

/// Refunds taken over all trades: ten for each that fits.
const REFUNDS_KEPT: usize = 10 * TRADES_MAX;

/// Deliveries kept for `/_sim/truth`: one for each trade that fits.
const DELIVERIES_KEPT: usize = TRADES_MAX;

/// Requests kept for `/_sim/log`: enough to find what just went wrong.
const REQUESTS_KEPT: usize = 2_000;

/// The place of a trade in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TradeIx(usize);

/// What sort of product made a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Precreate,
    Page,
    Wap,
}

/// A trade and what the channel notes beside it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) app_id: Arc<str>,
    pub(crate) seller_id: Arc<str>,
    pub(crate) out_trade_no: String,
    pub(crate) trade_no: Option<String>,
    pub(crate) token: String,
    pub(crate) product: Product,
    pub(crate) charset: Charset,
    pub(crate) notify_url: Option<String>,
    pub(crate) return_url: Option<String>,
    pub(crate) passback: Option<String>,
    pub(crate) trade: Trade,
    ledger: Ledger,
    /// Notices of this trade, oldest first.
    letters: Vec<String>,
    belief: Belief,
    /// A close was answered as if there were no trade.
    close_missed: bool,
    paid_late: bool,
    closes_answered: u32,
}

/// What the merchant's latest query told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// It did not ask, or it knows that the trade is paid.
    None,
    Unpaid,
    /// It was told "not paid", and the payment came after that.
    Overtaken,
}

/// The whole state.
#[derive(Debug)]
pub(crate) struct World {
    seed: u64,
    page_base: String,
    numbers: Numbers,
    armed: Armed,
    trades: Vec<Record>,
    by_out_trade_no: HashMap<String, Vec<TradeIx>>,
    by_trade_no: HashMap<String, TradeIx>,
    by_token: HashMap<String, TradeIx>,
    refunds_taken: usize,
    agenda: Agenda,
    letters: HashMap<String, Letter>,
    fresh: Vec<Arc<Notice>>,
    deliveries: VecDeque<wire::Delivery>,
    deliveries_forgotten: u64,
    requests: VecDeque<wire::Request>,
    totals: wire::Totals,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, numbers: Numbers, page_base: String) -> Self {
        Self {
            seed,
            page_base,
            numbers,
            armed: Armed::new(seed, faults),
            trades: Vec::new(),
            by_out_trade_no: HashMap::new(),
            by_trade_no: HashMap::new(),
            by_token: HashMap::new(),
            refunds_taken: 0,
            agenda: Agenda::default(),
            letters: HashMap::new(),
            fresh: Vec::new(),
            deliveries: VecDeque::new(),
            deliveries_forgotten: 0,
            requests: VecDeque::new(),
            totals: wire::Totals::default(),
        }
    }

    pub(crate) fn record(&self, ix: TradeIx) -> Option<&Record> {
        self.trades.get(ix.0)
    }

    /// The trade behind a page.
    pub(crate) fn by_token(&self, token: &str) -> Option<TradeIx> {
        self.by_token.get(token).copied()
    }

    /// The trade of an app, or of whichever app has it if none is named.
    pub(crate) fn by_out_trade_no(&self, app_id: Option<&str>, number: &str) -> Option<TradeIx> {
        let of_app = |ix: &&TradeIx| {
            app_id.is_none_or(|app_id| self.record(**ix).is_some_and(|r| &*r.app_id == app_id))
        };
        self.by_out_trade_no.get(number)?.iter().find(of_app).copied()
    }

    /// Picks the fault of a call and counts both.
    pub(crate) fn take_call(&mut self, method: Method, out_trade_no: &str) -> Option<CallFault> {
        *self.totals.calls.entry(method.name().to_owned()).or_default() += 1;
        let fault = self.armed.call(method, out_trade_no)?;
        // This one happens only if the refund goes through; `note` counts it then.
        if !matches!(fault, CallFault::RefundLater { .. }) {
            self.happened(&format!("{}@{}", fault.label(), method.name()));
        }
        Some(fault)
    }

    pub(crate) fn faults(&self) -> wire::FaultsInForce {
        wire::FaultsInForce {
            faults: self.armed.faults().clone(),
            happened: self.totals.faults.clone(),
        }
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.armed.replace(faults);
    }

    pub(crate) fn add_race(&mut self, race: RaceRule) -> Result<(), String> {
        self.armed.add_race(race)
    }

    pub(crate) fn log(&mut self, request: wire::Request) {
        keep(&mut self.requests, request, REQUESTS_KEPT);
    }

    /// Applies one event to one trade, with everything that follows from it.
    pub(crate) fn change(
        &mut self,
        ix: TradeIx,
        event: Event,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(record) = self.trades.get_mut(ix.0) else { return Err(Refusal::NotExist) };
        let step = record.trade.apply(event, now);
        for fact in &step.facts {
            self.note(ix, fact, now);
        }
        for (change, request_no) in changes(&step.facts) {
            self.tell(ix, change, request_no, now);
        }
        step.verdict
    }

    fn note(&mut self, ix: TradeIx, fact: &Fact, now: Timestamp) {
        let Some(record) = self.trades.get_mut(ix.0) else { return };
        record.ledger.add(fact, record.trade.terms.total, now);
        match fact {
            Fact::Repriced => self.totals.repriced += 1,
            Fact::Scanned => {
                let trade_no = self.numbers.trade_no(now);
                record.trade_no = Some(trade_no.clone());
                self.by_trade_no.insert(trade_no, ix);
                self.agenda.add(record.trade.terms.expires_at, Due::Lapse(ix));
            }
            Fact::Paid { late } => {
                record.paid_late = *late;
                if record.belief == Belief::Unpaid {
                    record.belief = Belief::Overtaken;
                }
                self.totals.payments += 1;
                self.totals.money_in_fen += record.trade.terms.total.as_i64();
                self.totals.paid_after_expiry += u64::from(*late);
                self.totals.paid_after_close_not_exist += u64::from(record.close_missed);
            }
            Fact::RefundAccepted { .. } => self.happened("refund_later@alipay.trade.refund"),
            Fact::Refunded { amount, .. } => {
                self.totals.refunds += 1;
                self.totals.money_out_fen += amount.as_i64();
            }
            Fact::Finished | Fact::Closed(_) => {}
        }
    }

    /// Counts a fault or race that really happened.
    pub(crate) fn happened(&mut self, name: &str) {
        *self.totals.faults.entry(name.to_owned()).or_default() += 1;
    }
}

impl Product {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Precreate => "precreate",
            Self::Page => "page",
            Self::Wap => "wap",
        }
    }

    /// The `method` that the signed parameters of the return page carry.
    pub(crate) fn return_method(self) -> &'static str {
        match self {
            Self::Precreate | Self::Page => "alipay.trade.page.pay.return",
            Self::Wap => "alipay.trade.wap.pay.return",
        }
    }

    fn tells(self, push: &PushTable, change: Change) -> bool {
        match self {
            Self::Precreate => push.precreate.contains(&change),
            Self::Page => push.page.contains(&change),
            Self::Wap => push.wap.contains(&change),
        }
    }
}

/// What a merchant can be told about a step; for refunds with the number.
fn changes(facts: &[Fact]) -> Vec<(Change, Option<&str>)> {
    let finished_at_once =
        facts.contains(&Fact::Finished) && facts.iter().any(|f| matches!(f, Fact::Paid { .. }));
    let told = |fact| match fact {
        &Fact::Scanned => Some((Change::Scanned, None)),
        &Fact::Paid { .. } if finished_at_once => None,
        &Fact::Paid { .. } => Some((Change::Paid, None)),
        &Fact::Finished => Some((Change::Finished, None)),
        &Fact::Closed(Ending::Close | Ending::Cancel | Ending::Expiry) => {
            Some((Change::Closed, None))
        }
        Fact::Refunded { request_no, .. } => Some((Change::Refunded, Some(request_no.as_str()))),
        // The refund that closed it tells that too.
        &Fact::Closed(Ending::Refund) | &Fact::Repriced | Fact::RefundAccepted { .. } => None,
    };
    facts.iter().filter_map(told).collect()
}

/// Adds to a ring and tells whether the oldest entry had to go.
fn keep<T>(ring: &mut VecDeque<T>, entry: T, bound: usize) -> bool {
    let full = ring.len() >= bound;
    if full {
        ring.pop_front();
    }
    ring.push_back(entry);
    full
}
