//! The toy's memory: keys, orders, payments, and the channel's trades beside them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::flaw::Flaw;
use super::money;

pub(crate) struct Shop {
    pub(crate) flaw: Flaw,
    pub(crate) channel: SocketAddr,
    /// Address and secret for the notices of each tenant.
    pub(crate) merchants: HashMap<String, (String, String)>,
    pub(crate) keys: HashMap<(String, String), Done>,
    pub(crate) running: HashMap<(String, String), Running>,
    pub(crate) tokens: HashMap<String, String>,
    pub(crate) orders: HashMap<(String, String), Vec<Round>>,
    pub(crate) payments: BTreeMap<String, Payment>,
    pub(crate) trades: HashMap<String, Trade>,
    pub(crate) hooks: Vec<(String, String)>,
    /// Events of each order that the merchant has not taken yet.
    pub(crate) outbox: HashMap<(String, String), VecDeque<Event>>,
    pub(crate) creates: u64,
    serial: u64,
    sequence: u64,
}

/// A key that was answered.
#[derive(Clone)]
pub(crate) struct Done {
    pub(crate) request: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// A key whose work is under way.
pub(crate) struct Running {
    pub(crate) request: Vec<u8>,
    pub(crate) until_ms: u64,
}

pub(crate) struct Round {
    pub(crate) content: Value,
    pub(crate) payments: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Payment {
    pub(crate) no: String,
    pub(crate) tenant: String,
    pub(crate) order_id: String,
    pub(crate) round: usize,
    pub(crate) attempt: usize,
    pub(crate) amount: i64,
    pub(crate) benefits: Vec<String>,
    pub(crate) way: String,
    pub(crate) status: &'static str,
    pub(crate) benefit: &'static str,
    pub(crate) surplus: bool,
    pub(crate) refunds: BTreeMap<String, i64>,
    pub(crate) refunded: i64,
    pub(crate) expires_at_ms: u64,
    pub(crate) paid_at_ms: u64,
}

#[derive(Default)]
pub(crate) struct Trade {
    pub(crate) total: i64,
    pub(crate) is_scanned: bool,
    pub(crate) is_closed: bool,
    pub(crate) paid: i64,
    pub(crate) refunds: BTreeMap<String, (i64, u64)>,
}

#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) sequence: u64,
    pub(crate) kind: String,
    pub(crate) payment: Payment,
}

impl Shop {
    pub(crate) fn new(flaw: Flaw, channel: SocketAddr, merchants: [(String, String); 3]) -> Self {
        let merchants = merchants.map(|(name, address)| {
            let secret = format!("secret-of-{name}");
            (name, (address, secret))
        });
        Self {
            flaw,
            channel,
            merchants: merchants.into(),
            keys: HashMap::new(),
            running: HashMap::new(),
            tokens: HashMap::new(),
            orders: HashMap::new(),
            payments: BTreeMap::new(),
            trades: HashMap::new(),
            hooks: Vec::new(),
            outbox: HashMap::new(),
            creates: 0,
            serial: 0,
            sequence: 0,
        }
    }

    pub(crate) fn number(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}{:08}", self.serial)
    }

    /// Closes what is past its time.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        let is_due = |p: &Payment| p.expires_at_ms <= now_ms && p.is_open();
        let due: Vec<String> =
            self.payments.values().filter(|p| is_due(p)).map(|p| p.no.clone()).collect();
        for no in due {
            if self.flaw != Flaw::NeverCloses {
                self.shut(&no);
            }
        }
        if self.flaw == Flaw::Unpays {
            let paid = self.payments.values_mut().filter(|p| p.status == "paid");
            for payment in paid.filter(|p| p.paid_at_ms + 300 < now_ms) {
                payment.status = "closed";
            }
        }
    }

    /// Ends an unpaid payment, here and at the channel.
    pub(crate) fn shut(&mut self, no: &str) {
        if let Some(trade) = self.trades.get_mut(no)
            && trade.is_scanned
        {
            trade.is_closed = true;
        }
        let payment = self.payments.get_mut(no).unwrap();
        payment.status = "closed";
        self.tell(no, "payment.closed");
    }

    /// A buyer pays at the channel, and the callback arrives.
    pub(crate) fn buy(&mut self, no: &str, now_ms: u64) -> Result<(), &'static str> {
        let Some(trade) = self.trades.get_mut(no) else { return Err("no such trade") };
        if trade.paid > 0 {
            return Err("already paid");
        }
        if trade.is_closed {
            return Err("closed");
        }
        trade.is_scanned = true;
        trade.paid = trade.total;
        if self.flaw == Flaw::DeafToCallbacks {
            return Ok(());
        }
        let Some(payment) = self.payments.get_mut(no) else { return Ok(()) };
        let is_late = payment.status == "closed";
        (payment.status, payment.paid_at_ms, payment.surplus) = ("paid", now_ms, is_late);
        if is_late {
            let amount = payment.amount;
            self.give_back(no, &format!("auto_{no}"), amount);
            self.tell(no, "payment.surplus");
        } else {
            payment.benefit = "granted";
            self.tell(no, "payment.paid");
            self.tell(no, "benefit.granted");
        }
        Ok(())
    }

    pub(crate) fn give_back(&mut self, no: &str, refund_no: &str, amount: i64) {
        let trade = self.trades.get_mut(no).unwrap();
        let refund = trade.refunds.entry(refund_no.to_owned()).or_default();
        *refund = (refund.0 + amount, refund.1 + 1);
        let payment = self.payments.get_mut(no).unwrap();
        payment.refunds.insert(refund_no.to_owned(), amount);
        payment.refunded += amount;
        let was_granted = payment.benefit == "granted";
        if payment.refunded >= payment.amount && was_granted && self.flaw != Flaw::BenefitStays {
            payment.benefit = "revoked";
        }
        self.tell(no, "refund.done");
    }

    /// Puts an event into the outbox.
    fn tell(&mut self, no: &str, kind: &str) {
        self.sequence += 1;
        let payment = self.payments[no].clone();
        let line = (payment.tenant.clone(), payment.order_id.clone());
        let id = format!("{:032x}", self.sequence);
        let event = Event { id, sequence: self.sequence, kind: kind.to_owned(), payment };
        self.outbox.entry(line).or_default().push_back(event);
    }
}

impl Payment {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status, "paying" | "closing")
    }

    pub(crate) fn json(&self, channel: SocketAddr) -> Value {
        let benefits = self.benefits.iter();
        let benefits: Vec<Value> =
            benefits.map(|code| json!({"benefit": code, "status": self.benefit})).collect();
        let pay = if self.way == "page" {
            json!({"page": format!("http://{channel}/page/{}", self.no)})
        } else {
            json!({"code": format!("http://{channel}/qr/{}", self.no)})
        };
        json!({
            "payment_no": self.no, "order_id": self.order_id, "round": self.round,
            "attempt": self.attempt, "amount": money::text(self.amount), "currency": "CNY",
            "status": self.status, "refunded": money::text(self.refunded), "reserved": "0.00",
            "surplus": self.surplus, "pay": pay, "benefits": benefits,
        })
    }
}
