//! Afterwards: every request once more, and questions that only now have one answer.

use futures_util::future::join_all;
use reqwest::Method;

use super::create::{Create, KEY, dressed};
use super::ground::Ground;
use super::ledger::Ledger;
use super::persist::{Accepted, Outcome};
use super::settle::{Look, Watched};
use crate::dice::Dice;
use crate::rule::Rule;
use crate::script::{Conflict, Credential, Dress, Order, Submit};
use crate::simulator::Pulled;
use crate::wire::{Operation, Payment, Round};

/// Copies of a callback that was taken: some one after another, the rest at once. With the first
/// delivery these are eight.
const ECHOES: (usize, usize) = (3, 4);

/// The key that comes when all is over.
const LATE_KEY: usize = 5;

/// Sends the same key with another amount, and another key for the same order with it.
pub(crate) async fn contradict(
    ground: &Ground,
    order: &Order,
    conflict: &Conflict,
    dice: &mut Dice,
) {
    let [key, ..] = &order.keys;
    for (rule, key) in [(Rule::KeyBound, key), (Rule::ConflictNamed, &conflict.key)] {
        let create = Create {
            by: Credential::Key(0),
            purchase: &order.main,
            round: Round::First,
            header: (KEY, dressed(key, Dress::Bare)),
            hang_up: None,
        };
        let call = ground.create_call(&create, conflict.amount);
        let tenant = order.main.tenant;
        let outcome = ground.persist(tenant, &call, Accepted::RefusedLater, None, dice).await;
        let about = ground.about(&order.main);
        let Some(answer) = outcome.answer() else {
            ground.unanswered(about, "another amount", &outcome);
            continue;
        };
        let refused = match rule {
            Rule::KeyBound => answer.is_refused_as(422, "key_reused"),
            _ => {
                let named = answer.problem().conflicts.iter().any(|c| c.field == "amount");
                answer.is_refused_as(409, "order_conflict") && named
            }
        };
        ground.judge(rule, about, refused, || {
            let (stored, given) = (order.main.amount, conflict.amount);
            format!("{stored} first, then {given}: {}", answer.quote())
        });
    }
}

/// Sends every submit of the first wave once more; each must get its first answer.
pub(crate) async fn submits(
    ground: &Ground,
    order: &Order,
    ledger: &mut Ledger,
    token: Option<&str>,
    dice: &mut Dice,
) {
    let known: Vec<Submit> = ledger
        .credentials()
        .filter(|by| !matches!(by, Credential::Key(3..)))
        .map(|by| Submit { by, dress: Dress::Bare, hang_up_ms: None })
        .collect();
    let creates: Vec<Create<'_>> =
        known.iter().filter_map(|submit| Create::of(order, submit, token, Round::First)).collect();
    let seed = dice.next();
    let flights = (0_u64..).zip(&creates).map(|(lane, create)| async move {
        ground.create(create, &mut Dice::new(seed, lane)).await
    });
    let outcomes = join_all(flights).await;
    for (create, outcome) in creates.iter().zip(&outcomes) {
        ground.judge_create(create, outcome, ledger);
    }
}

/// A new key for an order that is paid: the paid payment, not a new one.
pub(crate) async fn late_key(
    ground: &Ground,
    order: &Order,
    watched: &Watched<'_>,
    ledger: &mut Ledger,
    dice: &mut Dice,
) {
    let paid = match ground.look(order.main.tenant, &watched.payment_no).await {
        Look::Found(payment) => payment.is_paid() && !payment.surplus,
        Look::Lost(_) | Look::Unclear(_) => false,
    };
    let submit = Submit { by: Credential::Key(LATE_KEY), dress: Dress::Bare, hang_up_ms: None };
    let Some(create) = Create::of(order, &submit, None, Round::First).filter(|_| paid) else {
        return;
    };
    let outcome = ground.create(&create, dice).await;
    let Some(Payment { payment_no, .. }) = ground.judge_create(&create, &outcome, ledger) else {
        return;
    };
    let same = payment_no == watched.payment_no;
    ground.judge(Rule::OnePayment, ground.about(&order.main), same, || {
        format!("the order is paid by {}, another key got {payment_no}", watched.payment_no)
    });
}

/// The status by key must tell of the first answer.
pub(crate) async fn status(ground: &Ground, order: &Order, ledger: &Ledger, dice: &mut Dice) {
    let [key, ..] = &order.keys;
    let Some(status) = ledger.status(Credential::Key(0)) else { return };
    let path = ["v1", "operations", "payment.create", key];
    let tenant = order.main.tenant;
    let call = ground.call_of(tenant, "read", Method::GET, &path);
    let outcome = ground.persist(tenant, &call, Accepted::Enough, None, dice).await;
    let Some(answer) = outcome.answer() else { return };
    let operation: Option<Operation> = answer.read();
    let tells = operation.is_some_and(|operation| {
        operation.status == "completed"
            && operation.result.is_some_and(|result| result.status == status)
    });
    ground.judge(Rule::StatusByKey, ground.about(&order.main), tells, || {
        format!("the key was answered {status}; its status reads {}", answer.quote())
    });
}

/// Another tenant asks for the payment and tries to close it.
pub(crate) async fn spy(ground: &Ground, order: &Order, watched: &Watched<'_>, dice: &mut Dice) {
    let Some(shadow) = &order.shadow else { return };
    let tenant = shadow.purchase.tenant;
    let number = watched.payment_no.as_str();
    let read = ground.call_of(tenant, "read", Method::GET, &["v1", "payments", number]);
    let close = ground.call_of(tenant, "close", Method::POST, &["v1", "payments", number, "close"]);
    for call in [read, close] {
        let outcome = ground.persist(tenant, &call, Accepted::Enough, None, dice).await;
        let Some(answer) = outcome.answer() else { continue };
        ground.judge(Rule::TenantsApart, ground.about(&order.main), answer.status == 404, || {
            let asker = ground.tenant(tenant);
            format!("{asker} sent {} {}: {}", call.method, call.url.path(), answer.quote())
        });
    }
}

/// Makes the channel deliver its notices again, one after another and at once.
pub(crate) async fn echo(ground: &Ground, watched: &Watched<'_>) {
    let Ok(notices) = ground.simulator.sent_notices(&watched.payment_no).await else { return };
    let (single, crowd) = ECHOES;
    for notice in &notices {
        for _ in 0..single {
            count(ground, &ground.simulator.resend(notice).await);
        }
        let copies = (0..crowd).map(|_| ground.simulator.resend(notice));
        for pulled in join_all(copies).await {
            count(ground, &pulled);
        }
    }
}

fn count(ground: &Ground, pulled: &Pulled) {
    ground.book.count(|counts| counts.echoes += u64::from(*pulled == Pulled::Done));
}

/// Closes a payment, twice at once: closing is idempotent by its nature.
pub(crate) async fn close(ground: &Ground, watched: &Watched<'_>, dice: &mut Dice) {
    let tenant = watched.purchase.tenant;
    let path = ["v1", "payments", &watched.payment_no, "close"];
    let call = ground.call_of(tenant, "close", Method::POST, &path);
    let seed = dice.next();
    let call = &call;
    let flights = [0, 1].map(|lane| async move {
        ground.book.count(|counts| counts.closes += 1);
        let dice = &mut Dice::new(seed, lane);
        ground.persist(tenant, call, Accepted::Enough, None, dice).await
    });
    for outcome in join_all(flights).await {
        let about = ground.about(watched.purchase);
        let Outcome::Decided(answer) = &outcome else {
            ground.unanswered(about, "close", &outcome);
            continue;
        };
        let payment = answer.payment();
        let fits = match (answer.status, payment.as_ref().map(|p| p.status.as_str())) {
            (200, Some(status)) => matches!(status, "closed" | "paid"),
            (202, Some(status)) => status == "closing",
            _ => false,
        };
        ground.judge(Rule::NoFalseFailure, about, fits, || {
            format!("closing {} was answered {}", watched.payment_no, answer.quote())
        });
    }
}
