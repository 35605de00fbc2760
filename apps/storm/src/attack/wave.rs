//! The submits of one order, all at once, and what they must have in common.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use reqwest::Method;

use super::create::Create;
use super::ground::Ground;
use super::ledger::Ledger;
use super::persist::{Accepted, Outcome};
use super::settle::Look;
use crate::dice::Dice;
use crate::rule::Rule;
use crate::script::{Credential, Order, Purchase, Submit};
use crate::wire::{self, Payment, Round, Token};

/// What a wave brought.
#[derive(Debug, Default)]
pub(crate) struct Wave {
    /// Each payment once, the newest attempt last.
    pub(crate) main: Vec<Payment>,
    pub(crate) shadow: Vec<Payment>,
    /// The token that was redeemed.
    pub(crate) token: Option<String>,
}

/// Fires all submits of an order at once and judges the answers.
pub(crate) async fn fire(
    ground: &Ground,
    order: &Order,
    submits: &[Submit],
    round: Round,
    ledger: &mut Ledger,
    dice: &mut Dice,
) -> Wave {
    let token = if submits.iter().any(|submit| submit.by == Credential::Token) {
        issue(ground, &order.main, dice).await
    } else {
        None
    };
    let creates: Vec<Create<'_>> = submits
        .iter()
        .filter_map(|submit| Create::of(order, submit, token.as_deref(), round))
        .collect();
    let seed = dice.next();
    let flights = (0_u64..).zip(&creates).map(|(lane, create)| async move {
        ground.create(create, &mut Dice::new(seed, lane)).await
    });
    let outcomes = join_all(flights).await;
    let mut wave = sort(ground, &creates, &outcomes, ledger);
    one_payment(ground, &order.main, round, &wave.main).await;
    if let Some(shadow) = &order.shadow {
        apart(ground, &order.main, &wave);
        one_payment(ground, &shadow.purchase, round, &wave.shadow).await;
    }
    wave.token = token;
    wave
}

/// Gets a one-time token.
async fn issue(ground: &Ground, purchase: &Purchase, dice: &mut Dice) -> Option<String> {
    let mut call = ground.call_of(purchase.tenant, "token", Method::POST, &["v1", "tokens"]);
    call.body = Some(wire::token(purchase));
    let tenant = purchase.tenant;
    let about = ground.about(purchase);
    let accepted = Accepted::Undecided(about);
    let outcome = ground.persist(tenant, &call, accepted, None, dice).await;
    let token = match &outcome {
        Outcome::Never(_) | Outcome::Unsent => {
            ground.unanswered(about, "token", &outcome);
            return None;
        }
        Outcome::Decided(answer) if answer.status == 201 => answer.read::<Token>(),
        Outcome::Decided(_) => None,
    };
    ground.judge(Rule::NoFalseFailure, about, token.is_some(), || {
        format!("a token was asked for and the answer was {}", outcome.quote())
    });
    ground.book.count(|counts| counts.tokens += u64::from(token.is_some()));
    token.map(|token| token.token)
}

/// Judges each answer and sorts the payments by whose they are.
fn sort(
    ground: &Ground,
    creates: &[Create<'_>],
    outcomes: &[Outcome],
    ledger: &mut Ledger,
) -> Wave {
    let mut wave = Wave::default();
    for (create, outcome) in creates.iter().zip(outcomes) {
        let Some(payment) = ground.judge_create(create, outcome, ledger) else { continue };
        let payments = match create.by {
            Credential::Foreign => &mut wave.shadow,
            Credential::Key(_) | Credential::Token => &mut wave.main,
        };
        if payments.iter().all(|known| known.payment_no != payment.payment_no) {
            payments.push(payment);
        }
    }
    for payments in [&mut wave.main, &mut wave.shadow] {
        payments.sort_by_key(|payment| (payment.round, payment.attempt));
    }
    wave
}

/// All answers of one purchase must name one payment. An attempt that is over may have a
/// successor, so that two numbers prove something only if both payments live, or if they call
/// themselves the same attempt. Who buys again under two keys, and whose buyer pays before the
/// second of them arrives, has bought twice: there an earlier round may be paid.
async fn one_payment(ground: &Ground, purchase: &Purchase, round: Round, payments: &[Payment]) {
    if payments.is_empty() {
        return;
    }
    let mut attempts: BTreeMap<(u32, u32), Vec<&str>> = BTreeMap::new();
    for payment in payments {
        let attempt = attempts.entry((payment.round, payment.attempt)).or_default();
        attempt.push(&payment.payment_no);
    }
    let mut live = Vec::new();
    if payments.len() > 1 {
        let newest = payments.iter().map(|payment| payment.round).max();
        for payment in payments {
            let look = ground.look(purchase.tenant, &payment.payment_no).await;
            if let Look::Found(now) = look
                && (now.is_open() || (now.is_paid() && !now.surplus))
                && !(round == Round::Again && now.is_paid() && Some(now.round) < newest)
            {
                live.push(format!("{} is {}", now.payment_no, now.status));
            }
        }
    }
    let held = live.len() <= 1 && attempts.values().all(|numbers| numbers.len() == 1);
    ground.judge(Rule::OnePayment, ground.about(purchase), held, || {
        format!("payments by (round, attempt): {attempts:?}; live: {}", live.join(", "))
    });
}

/// No payment belongs to two tenants.
fn apart(ground: &Ground, main: &Purchase, wave: &Wave) {
    let shared = wave
        .main
        .iter()
        .find(|mine| wave.shadow.iter().any(|theirs| theirs.payment_no == mine.payment_no));
    ground.judge(Rule::TenantsApart, ground.about(main), shared.is_none(), || {
        let number = shared.map(|payment| payment.payment_no.as_str()).unwrap_or_default();
        format!("payment {number} was answered to two tenants")
    });
}
