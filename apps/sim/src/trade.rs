//! The trade as a pure machine: state and event give facts and a verdict.
//!
//! Invariants: money comes in at most once; no more goes out than came in; a refused event changes
//! nothing, except that an overdue unpaid trade is closed first; a closed unpaid trade is never
//! paid. Held by `every_phase_answers_every_event` (the whole table, as a snapshot) and
//! `no_sequence_of_events_breaks_the_books` (random sequences).

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::money::Fen;

/// More refunds than any honest trade has; each one is kept for ever.
pub(crate) const REFUNDS_MAX: usize = 256;

/// The refund number of a cancel; no `out_request_no` can be this text.
const CANCEL_NO: &str = "*cancel";

/// One trade, from the page that was shown to the last refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trade {
    pub(crate) terms: Terms,
    pub(crate) phase: Phase,
    pub(crate) buyer: Option<String>,
    pub(crate) scanned_at: Option<Timestamp>,
    pub(crate) paid_at: Option<Timestamp>,
    pub(crate) closed_at: Option<Timestamp>,
    pub(crate) refunds: Vec<Refund>,
}

/// What the merchant asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) total: Fen,
    pub(crate) subject: String,
    pub(crate) body: Option<String>,
    /// Until when the code can be scanned.
    pub(crate) scan_until: Timestamp,
    /// Until when the trade can be paid.
    pub(crate) expires_at: Timestamp,
}

/// Where a trade stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A code or page is shown; nobody scanned it. Invisible to a query.
    Intent,
    Waiting,
    Success,
    Finished,
    Closed(Ending),
}

/// Why a trade is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Close,
    Cancel,
    Expiry,
    Refund,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) request_no: String,
    pub(crate) amount: Fen,
    pub(crate) settled_at: Option<Timestamp>,
}

/// What somebody wants of a trade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The merchant sends the same number again.
    Present(Terms),
    Scan {
        buyer: String,
    },
    /// The buyer pays, scanning first where that is still to be done.
    Pay {
        buyer: String,
        arrival: Arrival,
        product: Refundability,
    },
    Close,
    Cancel,
    Refund(Ask),
    /// A refund that was accepted earlier is done.
    Settle {
        request_no: String,
    },
    /// The refund window is over.
    Finish,
    /// The time is over now, whatever was agreed.
    Expire,
    /// Look at the clock.
    Tick,
}

/// Whether a payment is judged by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InTime,
    /// The buyer stood at the password step when the time ran out.
    Late,
}

/// Whether a paid trade can be refunded at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refundability {
    Refundable,
    /// Goes to `TRADE_FINISHED` without `TRADE_SUCCESS`.
    Final,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// `None`: no `out_request_no` was sent, so only the whole amount can be meant.
    pub(crate) request_no: Option<String>,
    /// What stands for the number when none was sent.
    pub(crate) fallback_no: String,
    pub(crate) amount: Fen,
    pub(crate) pace: Pace,
}

/// When a refund is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Now,
    Later,
}

/// What an event made true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// The content of an unscanned trade was replaced.
    Repriced,
    Scanned,
    Paid {
        late: bool,
    },
    Finished,
    Closed(Ending),
    RefundAccepted {
        request_no: String,
        amount: Fen,
    },
    Refunded {
        request_no: String,
        amount: Fen,
    },
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nobody scanned the code: for the channel there is no trade.
    NotExist,
    /// The phase does not allow it.
    Status,
    HasSuccess,
    HasClosed,
    HasFinished,
    /// The same number with other content.
    Inconsistent,
    /// The same refund number with another amount.
    Discordant,
    /// More than what is left.
    OverRefund,
    /// A part is to be refunded without a refund number.
    NotWhole,
    TooManyRefunds,
    /// The code or the trade is past its time.
    Overdue,
    /// Another buyer holds the trade.
    OtherBuyer,
}

/// The outcome of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) facts: Vec<Fact>,
    pub(crate) verdict: Result<(), Refusal>,
}

impl Trade {
    pub(crate) fn open(terms: Terms) -> Self {
        Self {
            terms,
            phase: Phase::Intent,
            buyer: None,
            scanned_at: None,
            paid_at: None,
            closed_at: None,
            refunds: Vec::new(),
        }
    }

    /// Applies one event; the only way in which a trade changes.
    pub(crate) fn apply(&mut self, event: Event, now: Timestamp) -> Step {
        let mut facts = Vec::new();
        let late = matches!(event, Event::Pay { arrival: Arrival::Late, .. });
        if self.phase == Phase::Waiting && now >= self.terms.expires_at && !late {
            facts.push(self.close(Ending::Expiry, now));
        }
        let verdict = match event {
            Event::Present(terms) => self.present(terms, now, &mut facts),
            Event::Scan { buyer } => self.scan(buyer, now, &mut facts),
            Event::Pay { buyer, arrival, product } => {
                self.pay(buyer, arrival, product, now, &mut facts)
            }
            Event::Close => self.close_by_merchant(now, &mut facts),
            Event::Cancel => self.cancel(now, &mut facts),
            Event::Refund(ask) => self.refund(ask, now, &mut facts),
            Event::Settle { request_no } => self.settle(&request_no, now, &mut facts),
            Event::Finish => self.finish(&mut facts),
            Event::Expire => self.expire(now, &mut facts),
            Event::Tick => Ok(()),
        };
        Step { facts, verdict }
    }

    /// Money that went back so far.
    pub(crate) fn refunded(&self) -> Fen {
        self.refunds.iter().filter(|refund| refund.settled_at.is_some()).map(|r| r.amount).sum()
    }

    pub(crate) fn refund_of(&self, request_no: &str) -> Option<&Refund> {
        self.refunds.iter().find(|refund| refund.request_no == request_no)
    }

    /// Money that is neither refunded nor promised to be.
    fn left(&self) -> Fen {
        self.terms.total.minus(self.refunds.iter().map(|refund| refund.amount).sum())
    }

    fn present(
        &mut self,
        terms: Terms,
        now: Timestamp,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Refusal> {
        let same = self.terms.same_purchase(&terms);
        match self.phase {
            Phase::Intent if same && now < self.terms.scan_until => Ok(()),
            Phase::Intent => {
                if !same {
                    facts.push(Fact::Repriced);
                }
                self.terms = terms;
                Ok(())
            }
            Phase::Waiting if same => Ok(()),
            Phase::Waiting => Err(Refusal::Inconsistent),
            Phase::Success | Phase::Finished => Err(Refusal::HasSuccess),
            Phase::Closed(_) => Err(Refusal::HasClosed),
        }
    }

    fn scan(
        &mut self,
        buyer: String,
        now: Timestamp,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Refusal> {
        match self.phase {
            Phase::Intent if now >= self.terms.scan_until => Err(Refusal::Overdue),
            Phase::Intent => {
                self.begin(buyer, now, facts);
                Ok(())
            }
            Phase::Waiting if self.buyer.as_deref() == Some(&buyer) => Ok(()),
            Phase::Waiting => Err(Refusal::OtherBuyer),
            Phase::Success | Phase::Finished => Err(Refusal::HasSuccess),
            Phase::Closed(_) => Err(Refusal::HasClosed),
        }
    }

    fn pay(
        &mut self,
        buyer: String,
        arrival: Arrival,
        product: Refundability,
        now: Timestamp,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Refusal> {
        match self.phase {
            Phase::Intent if arrival == Arrival::InTime && now >= self.terms.scan_until => {
                return Err(Refusal::Overdue);
            }
            Phase::Intent => self.begin(buyer, now, facts),
            Phase::Waiting if self.buyer.as_deref() != Some(&buyer) => {
                return Err(Refusal::OtherBuyer);
            }
            Phase::Waiting => {}
            Phase::Success | Phase::Finished => return Err(Refusal::HasSuccess),
            Phase::Closed(_) => return Err(Refusal::HasClosed),
        }
        self.phase = Phase::Success;
        self.paid_at = Some(now);
        facts.push(Fact::Paid { late: now >= self.terms.expires_at });
        if product == Refundability::Final {
            self.phase = Phase::Finished;
            facts.push(Fact::Finished);
        }
        Ok(())
    }

    fn close_by_merchant(&mut self, now: Timestamp, facts: &mut Vec<Fact>) -> Result<(), Refusal> {
        match self.phase {
            Phase::Intent => Err(Refusal::NotExist),
            Phase::Waiting => {
                facts.push(self.close(Ending::Close, now));
                Ok(())
            }
            Phase::Success | Phase::Finished | Phase::Closed(_) => Err(Refusal::Status),
        }
    }

    fn cancel(&mut self, now: Timestamp, facts: &mut Vec<Fact>) -> Result<(), Refusal> {
        match self.phase {
            Phase::Intent | Phase::Closed(_) => Ok(()),
            Phase::Waiting => {
                facts.push(self.close(Ending::Cancel, now));
                Ok(())
            }
            Phase::Success => {
                // Not limited by REFUNDS_MAX: it is the last one of this trade.
                let rest = self.left();
                if rest > Fen::ZERO {
                    let request_no = CANCEL_NO.to_owned();
                    self.promise(request_no.clone(), rest);
                    self.settle(&request_no, now, facts)?;
                }
                Ok(())
            }
            Phase::Finished => Err(Refusal::HasFinished),
        }
    }

    fn refund(&mut self, ask: Ask, now: Timestamp, facts: &mut Vec<Fact>) -> Result<(), Refusal> {
        let numbered = ask.request_no.is_some();
        let request_no = ask.request_no.unwrap_or(ask.fallback_no);
        if let Some(earlier) = self.refund_of(&request_no) {
            let same = earlier.amount == ask.amount;
            return if same { Ok(()) } else { Err(Refusal::Discordant) };
        }
        match self.phase {
            Phase::Intent => Err(Refusal::NotExist),
            Phase::Waiting | Phase::Closed(_) => Err(Refusal::Status),
            Phase::Finished => Err(Refusal::HasFinished),
            Phase::Success if !numbered && ask.amount != self.terms.total => Err(Refusal::NotWhole),
            Phase::Success if ask.amount > self.left() => Err(Refusal::OverRefund),
            Phase::Success if self.refunds.len() >= REFUNDS_MAX => Err(Refusal::TooManyRefunds),
            Phase::Success => {
                self.promise(request_no.clone(), ask.amount);
                match ask.pace {
                    Pace::Now => self.settle(&request_no, now, facts),
                    Pace::Later => {
                        facts.push(Fact::RefundAccepted { request_no, amount: ask.amount });
                        Ok(())
                    }
                }
            }
        }
    }

    fn settle(
        &mut self,
        request_no: &str,
        now: Timestamp,
        facts: &mut Vec<Fact>,
    ) -> Result<(), Refusal> {
        let open = self
            .refunds
            .iter_mut()
            .find(|refund| refund.request_no == request_no && refund.settled_at.is_none());
        let Some(refund) = open else { return Err(Refusal::Status) };
        refund.settled_at = Some(now);
        facts.push(Fact::Refunded { request_no: request_no.to_owned(), amount: refund.amount });
        if self.refunded() == self.terms.total {
            facts.push(self.close(Ending::Refund, now));
        }
        Ok(())
    }

    fn finish(&mut self, facts: &mut Vec<Fact>) -> Result<(), Refusal> {
        match self.phase {
            Phase::Success => {
                self.phase = Phase::Finished;
                facts.push(Fact::Finished);
                Ok(())
            }
            Phase::Intent => Err(Refusal::NotExist),
            Phase::Waiting | Phase::Finished | Phase::Closed(_) => Err(Refusal::Status),
        }
    }

    fn expire(&mut self, now: Timestamp, facts: &mut Vec<Fact>) -> Result<(), Refusal> {
        match self.phase {
            Phase::Intent | Phase::Waiting => {
                self.terms.expires_at = std::cmp::min(self.terms.expires_at, now);
                self.terms.scan_until = std::cmp::min(self.terms.scan_until, now);
                if self.phase == Phase::Waiting {
                    facts.push(self.close(Ending::Expiry, now));
                }
                Ok(())
            }
            Phase::Success | Phase::Finished | Phase::Closed(_) => Err(Refusal::Status),
        }
    }

    fn begin(&mut self, buyer: String, now: Timestamp, facts: &mut Vec<Fact>) {
        self.phase = Phase::Waiting;
        self.buyer = Some(buyer);
        self.scanned_at = Some(now);
        facts.push(Fact::Scanned);
    }

    fn close(&mut self, ending: Ending, now: Timestamp) -> Fact {
        self.phase = Phase::Closed(ending);
        self.closed_at = Some(now);
        Fact::Closed(ending)
    }

    fn promise(&mut self, request_no: String, amount: Fen) {
        self.refunds.push(Refund { request_no, amount, settled_at: None });
    }
}

impl Terms {
    /// Tells whether the same thing is sold; the times may differ.
    fn same_purchase(&self, other: &Self) -> bool {
        (self.total, &self.subject, &self.body) == (other.total, &other.subject, &other.body)
    }
}

impl Phase {
    /// The `trade_status` that a query and a notice carry.
    pub(crate) fn trade_status(self) -> &'static str {
        match self {
            Self::Intent => "INTENT",
            Self::Waiting => "WAIT_BUYER_PAY",
            Self::Success => "TRADE_SUCCESS",
            Self::Finished => "TRADE_FINISHED",
            Self::Closed(_) => "TRADE_CLOSED",
        }
    }

    pub(crate) fn is_paid(self) -> bool {
        matches!(self, Self::Success | Self::Finished)
    }
}

impl Refusal {
    /// Says it to the person who pressed the button.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::NotExist => "nobody scanned the code yet, so there is no trade",
            Self::Status => "the state of the trade does not allow this",
            Self::HasSuccess => "the trade is already paid",
            Self::HasClosed => "the trade is closed",
            Self::HasFinished => "the refund window of the trade is over",
            Self::Inconsistent => "the same number came with other content",
            Self::Discordant => "the same refund number came with another amount",
            Self::OverRefund => "the refund is more than what is left of the payment",
            Self::NotWhole => "a refund without out_request_no must be of the whole amount",
            Self::TooManyRefunds => "there are as many refunds as the simulator keeps",
            Self::Overdue => "the code is past its time",
            Self::OtherBuyer => "another buyer scanned the code first",
        }
    }
}
