//! One request to pay, and the judgement of what it was answered.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};

use super::ground::Ground;
use super::ledger::{Entry, Ledger};
use super::persist::{Accepted, Outcome};
use crate::answer::Answer;
use crate::client::Call;
use crate::dice::Dice;
use crate::fen::Fen;
use crate::rule::Rule;
use crate::script::{Credential, Dress, Life, Order, Purchase, Submit, Way};
use crate::wire::{self, CURRENCY, Payment, Round};

/// The two headers of the contract.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("idempotent-token");

/// The refusal of the channel that an order gets whose time was over before it was ready.
const CHANNEL_REFUSED: (u16, &str) = (422, "channel_refused");

/// A request to pay as it goes out.
#[derive(Debug)]
pub(crate) struct Create<'a> {
    pub(crate) by: Credential,
    pub(crate) purchase: &'a Purchase,
    pub(crate) round: Round,
    pub(crate) header: (HeaderName, String),
    pub(crate) hang_up: Option<Duration>,
}

impl<'a> Create<'a> {
    /// What a submit of an order sends; `None` for a token that was not issued.
    pub(crate) fn of(
        order: &'a Order,
        submit: &Submit,
        token: Option<&str>,
        round: Round,
    ) -> Option<Self> {
        let key = |place: usize| order.keys.get(place).map(|key| (KEY, dressed(key, submit.dress)));
        let (purchase, header) = match submit.by {
            Credential::Key(place) => (&order.main, key(place)?),
            Credential::Token => (&order.main, (TOKEN, token?.to_owned())),
            Credential::Foreign => (&order.shadow.as_ref()?.purchase, key(0)?),
        };
        let hang_up = submit.hang_up_ms.map(Duration::from_millis);
        Some(Self { by: submit.by, purchase, round, header, hang_up })
    }
}

/// Writes a key for the header. One that a reader of bare text would take for a list or for
/// parameters goes in quotes, whatever it wants; none of ours has a quote or a backslash in it.
pub(crate) fn dressed(key: &str, dress: Dress) -> String {
    match dress {
        Dress::Bare if !key.contains([',', ';']) => key.to_owned(),
        Dress::Bare | Dress::Quoted => format!("\"{key}\""),
    }
}

impl Ground {
    /// The call of a request to pay, with the amount of the purchase or another one.
    pub(crate) fn create_call(&self, create: &Create<'_>, amount: Fen) -> Call {
        let body = wire::create(create.purchase, amount, create.round);
        self.payment_call(create.purchase.tenant, body, std::slice::from_ref(&create.header))
    }

    /// A request to pay with any body and headers.
    pub(crate) fn payment_call(
        &self,
        tenant: usize,
        body: Bytes,
        headers: &[(HeaderName, String)],
    ) -> Call {
        let mut call = self.call_of(tenant, "create", Method::POST, &["v1", "payments"]);
        call.body = Some(body);
        for (name, value) in headers {
            // Keys and tokens are visible ASCII. If a service gave another token, it is sent
            // without and the refusal is the evidence.
            if let Ok(value) = HeaderValue::from_str(value) {
                call.headers.insert(name, value);
            }
        }
        call
    }

    /// Sends a request to pay until it is decided.
    pub(crate) async fn create(&self, create: &Create<'_>, dice: &mut Dice) -> Outcome {
        self.book.count(|counts| counts.submits += 1);
        let call = self.create_call(create, create.purchase.amount);
        let tenant = create.purchase.tenant;
        let accepted = Accepted::Undecided(self.about(create.purchase));
        self.persist(tenant, &call, accepted, create.hang_up, dice).await
    }

    /// Judges what a request that is right was answered; gives the payment, if there is one.
    pub(crate) fn judge_create(
        &self,
        create: &Create<'_>,
        outcome: &Outcome,
        ledger: &mut Ledger,
    ) -> Option<Payment> {
        let about = self.about(create.purchase);
        let told = || format!("{:?} was answered {}", create.by, outcome.quote());
        let Some(answer) = outcome.answer() else {
            self.unanswered(about, &format!("{:?}", create.by), outcome);
            return None;
        };
        self.book.held(Rule::AnswersInTheEnd);
        if !answer.is_success() {
            self.judge_refusal(create, answer, &told());
            return None;
        }
        self.book.held(Rule::NoFalseFailure);
        self.judge_replay(create, answer, ledger);
        let payment = answer.payment();
        let misfit = match &payment {
            None => Some("is no payment".to_owned()),
            Some(payment) => misfit(create.purchase, payment),
        };
        // Whose answer it is when it is not the caller's: the worst that can go wrong.
        let rule = match create.by {
            Credential::Foreign => Rule::TenantsApart,
            Credential::Key(_) | Credential::Token => Rule::AnswerFits,
        };
        let fits = misfit.is_none();
        self.judge(rule, about, fits, || {
            format!("the answer {}: {}", misfit.unwrap_or_default(), told())
        });
        payment.filter(|_| fits)
    }

    fn judge_refusal(&self, create: &Create<'_>, answer: &Answer, told: &str) {
        let (status, code) = CHANNEL_REFUSED;
        let expired = create.purchase.life == Life::Short && answer.is_refused_as(status, code);
        if expired {
            return;
        }
        let rule = match create.by {
            // The same key text of another tenant is another key.
            Credential::Foreign if answer.status == 422 || answer.status == 409 => {
                Rule::TenantsApart
            }
            _ => Rule::NoFalseFailure,
        };
        self.broken(rule, self.about(create.purchase), told);
    }

    fn judge_replay(&self, create: &Create<'_>, answer: &Answer, ledger: &mut Ledger) {
        let about = self.about(create.purchase);
        let by = create.by;
        match ledger.enter(by, answer) {
            Entry::First => {}
            Entry::Same => self.book.held(Rule::SameAnswer),
            Entry::Other(first) => {
                let evidence = format!("{by:?}: first {first}; then {}", answer.quote());
                self.broken(Rule::SameAnswer, about, &evidence);
            }
        }
        let unmarked = ledger.unmarked(by);
        self.judge(Rule::ReplayMarked, about, unmarked <= 1, || {
            format!("{by:?}: {unmarked} answers without `Idempotency-Replayed: true`")
        });
    }
}

/// How a payment differs from what was asked.
fn misfit(purchase: &Purchase, payment: &Payment) -> Option<String> {
    let Purchase { order_id, amount, way, .. } = purchase;
    if payment.order_id != *order_id {
        return Some(format!("tells of order {:?}", payment.order_id));
    }
    if Fen::parse(&payment.amount) != Some(*amount) || payment.currency != CURRENCY {
        return Some(format!("tells of {} {}", payment.amount, payment.currency));
    }
    let pay = payment.pay.as_ref();
    let led = match way {
        Way::Code => pay.and_then(|pay| pay.code.as_ref()),
        Way::Page => pay.and_then(|pay| pay.page.as_ref()),
    };
    let is_ready = payment.status == "paying";
    (is_ready && led.is_none()).then(|| format!("has no `pay` for the way {way:?}"))
}
