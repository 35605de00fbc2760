//! Watches payments until they are at rest, here and at the channel.

use reqwest::Method;

use super::ground::Ground;
use super::persist::pause;
use super::rest::{Expected, Notice, unrest};
use crate::dice::Dice;
use crate::fen::Fen;
use crate::rule::Rule;
use crate::script::Purchase;
use crate::wire::{Order, Payment, Refund};

/// Rules that a payment at rest was looked at for.
const LOOKED_AT: [Rule; 6] = [
    Rule::Settles,
    Rule::MoneyAgrees,
    Rule::RefundOnce,
    Rule::BenefitFollowsMoney,
    Rule::PaidStays,
    Rule::NothingLost,
];

/// A payment that the attack keeps an eye on.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) purchase: &'a Purchase,
    pub(crate) payment_no: String,
    pub(crate) refunds: Vec<(String, Fen)>,
    was_paid: bool,
    was_lost: bool,
    /// As it was at rest.
    at_rest: Option<Payment>,
}

/// What a look at a payment shows.
#[derive(Debug)]
pub(crate) enum Look {
    Found(Box<Payment>),
    /// The service does not know it.
    Lost(String),
    /// No answer, or none that says anything.
    Unclear(String),
}

impl<'a> Watched<'a> {
    /// The payment as it was at rest, if it came to rest.
    pub(crate) fn take_at_rest(&mut self) -> Option<Payment> {
        self.at_rest.take()
    }

    pub(crate) fn new(purchase: &'a Purchase, payment_no: &str) -> Self {
        let payment_no = payment_no.to_owned();
        Self {
            purchase,
            payment_no,
            refunds: Vec::new(),
            was_paid: false,
            was_lost: false,
            at_rest: None,
        }
    }
}

impl Ground {
    /// Looks at a payment once.
    pub(crate) async fn look(&self, tenant: usize, payment_no: &str) -> Look {
        let path = ["v1", "payments", payment_no];
        match self.once(&self.call_of(tenant, "read", Method::GET, &path), None).await {
            Ok(answer) if answer.status == 404 => Look::Lost(answer.quote()),
            Ok(answer) => match answer.payment().filter(|_| answer.status == 200) {
                Some(payment) => Look::Found(Box::new(payment)),
                None => Look::Unclear(answer.quote()),
            },
            Err(silence) => Look::Unclear(silence.describe()),
        }
    }

    /// Looks until the payment is as wanted; `None` if that did not come to be.
    pub(crate) async fn await_payment(
        &self,
        watched: &mut Watched<'_>,
        dice: &mut Dice,
        wanted: impl Fn(&Payment) -> bool,
    ) -> Option<Payment> {
        let mut last = String::new();
        let mut tries = 0;
        while !self.until.is_over() && !watched.was_lost {
            match self.watch(watched).await {
                Look::Found(payment) if wanted(&payment) => return Some(*payment),
                Look::Found(payment) => last = format!("is {:?}", payment.status),
                Look::Lost(seen) | Look::Unclear(seen) => last = seen,
            }
            self.until.pause(pause(tries, dice) * 2).await;
            tries += 1;
        }
        if !watched.was_lost {
            let evidence = format!("payment {} {last} at the deadline", watched.payment_no);
            self.overdue(Rule::Settles, self.about(watched.purchase), &evidence);
        }
        None
    }

    /// Waits until the payment is at rest; at the deadline, what is still wrong is a finding.
    pub(crate) async fn settle(&self, watched: &mut Watched<'_>, dice: &mut Dice) {
        let about = self.about(watched.purchase);
        let mut wrong = vec![(Rule::Settles, "it was never looked at".to_owned())];
        let mut tries = 0;
        while !watched.was_lost {
            match self.unrest(watched).await {
                Ok(unrest) => wrong = unrest,
                Err(unclear) => wrong = vec![(Rule::Settles, unclear)],
            }
            if wrong.is_empty() || self.until.is_over() {
                break;
            }
            self.until.pause(pause(tries, dice) * 2).await;
            tries += 1;
        }
        if watched.was_lost {
            return;
        }
        if wrong.is_empty() {
            LOOKED_AT.iter().for_each(|rule| self.book.held(*rule));
            if self.merchant.serves(self.tenant(watched.purchase.tenant)) && watched.was_paid {
                self.book.held(Rule::NoticeArrives);
            }
            self.look_at_refunds(watched).await;
        }
        for (rule, evidence) in wrong {
            self.overdue(rule, about, &evidence);
        }
    }

    /// The newest round of an order must list the payment.
    pub(crate) async fn look_at_order(&self, watched: &Watched<'_>) {
        let Purchase { tenant, order_id, .. } = watched.purchase;
        let call = self.call_of(*tenant, "read", Method::GET, &["v1", "orders", order_id]);
        let Ok(answer) = self.once(&call, None).await else { return };
        if answer.status >= 500 {
            return;
        }
        let order: Option<Order> = answer.read();
        let listed = order.is_some_and(|order| {
            let listed = |listed: &crate::wire::Listed| listed.payment_no == watched.payment_no;
            order.order_id == *order_id && order.round > 0 && order.payments.iter().any(listed)
        });
        self.judge(Rule::NothingLost, self.about(watched.purchase), listed, || {
            format!("the order does not list payment {}: {}", watched.payment_no, answer.quote())
        });
    }

    async fn unrest(&self, watched: &mut Watched<'_>) -> Result<Vec<(Rule, String)>, String> {
        let payment = match self.watch(watched).await {
            Look::Found(payment) => payment,
            Look::Lost(seen) | Look::Unclear(seen) => return Err(seen),
        };
        let expected = Expected {
            refunds: watched.refunds.iter().map(|(_, amount)| *amount).collect(),
            notice: self.notice_of(watched),
        };
        let trade = self.simulator.trade(&watched.payment_no).await?;
        let unrest = unrest(&payment, trade.as_ref(), &expected);
        watched.at_rest = unrest.is_empty().then_some(*payment);
        Ok(unrest)
    }

    /// Looks once; a payment that is gone or no longer paid is a finding at once.
    async fn watch(&self, watched: &mut Watched<'_>) -> Look {
        let about = self.about(watched.purchase);
        let look = self.look(watched.purchase.tenant, &watched.payment_no).await;
        match &look {
            Look::Found(payment) => {
                if watched.was_paid && !payment.is_paid() {
                    let Payment { payment_no, status, .. } = &**payment;
                    let evidence = format!("payment {payment_no} was paid and is now {status:?}");
                    self.broken(Rule::PaidStays, about, &evidence);
                }
                watched.was_paid = payment.is_paid();
            }
            Look::Lost(seen) => {
                let number = &watched.payment_no;
                let evidence = format!("payment {number} was answered and is gone: {seen}");
                self.broken(Rule::NothingLost, about, &evidence);
                watched.was_lost = true;
            }
            Look::Unclear(_) => {}
        }
        look
    }

    async fn look_at_refunds(&self, watched: &Watched<'_>) {
        let Watched { purchase, payment_no, .. } = watched;
        for (refund_no, amount) in &watched.refunds {
            let path = ["v1", "payments", payment_no, "refunds", refund_no];
            let call = self.call_of(purchase.tenant, "read", Method::GET, &path);
            let Ok(answer) = self.once(&call, None).await else { continue };
            if answer.status >= 500 {
                continue;
            }
            let refund: Option<Refund> = answer.read();
            let done = refund.is_some_and(|refund| {
                refund.status == "done" && Fen::parse(&refund.amount) == Some(*amount)
            });
            self.judge(Rule::NothingLost, self.about(purchase), done, || {
                format!("refund {refund_no} of {amount} was accepted: {}", answer.quote())
            });
        }
    }

    fn notice_of(&self, watched: &Watched<'_>) -> Notice {
        let tenant = self.tenant(watched.purchase.tenant);
        if !self.merchant.serves(tenant) {
            return Notice::NotExpected;
        }
        let kinds = ["payment.paid", "payment.surplus"];
        if self.merchant.knows(tenant, &watched.payment_no, &kinds) {
            Notice::Arrived
        } else {
            Notice::Missing
        }
    }
}
