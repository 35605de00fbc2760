//! Refunds: whole, in parts, at once, and each of them more than once.

use futures_util::future::join_all;
use reqwest::Method;

use super::ground::Ground;
use super::persist::{Accepted, Outcome};
use super::settle::Watched;
use crate::dice::Dice;
use crate::fen::Fen;
use crate::rule::Rule;
use crate::script::Order;
use crate::wire::{self, Refund};

/// Times that one number is sent at once.
const REPEATS: usize = 3;

/// First parts of the sequential story, in hundredths of the amount; the rest is the last part.
const PARTS: [i64; 2] = [20, 30];

/// Numbers that are sent at once, each for this many hundredths: three fit.
const CROWD: (usize, i64) = (5, 30);

/// One refund that is asked for.
#[derive(Clone, Debug)]
struct Ask {
    refund_no: String,
    amount: Fen,
}

/// Whether the service took a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Yes,
    /// Less than that was left.
    TooMuch,
    /// Neither; there is a finding already.
    Neither,
}

/// Refunds the whole amount under one number, several times at once.
pub(crate) async fn whole(
    ground: &Ground,
    order: &Order,
    watched: &mut Watched<'_>,
    dice: &mut Dice,
) {
    let amount = order.main.amount;
    let ask = Ask { refund_no: number(ground, order, 0), amount };
    if repeat(ground, watched, &ask, dice).await == Taken::Yes {
        watched.refunds.push((ask.refund_no.clone(), amount));
        contradict(ground, watched, &ask, dice).await;
    }
    exceed(ground, order, watched, Fen(1), dice).await;
}

/// Refunds three parts, one after another, until nothing is left.
pub(crate) async fn parts(
    ground: &Ground,
    order: &Order,
    watched: &mut Watched<'_>,
    dice: &mut Dice,
) {
    let whole = order.main.amount;
    let [first, second] = PARTS.map(|share| hundredths(whole, share));
    let rest = Fen(whole.0 - first.0 - second.0);
    for (nth, amount) in (0_u32..).zip([first, second, rest]) {
        let ask = Ask { refund_no: number(ground, order, nth), amount };
        match repeat(ground, watched, &ask, dice).await {
            Taken::Yes => watched.refunds.push((ask.refund_no.clone(), amount)),
            Taken::TooMuch => {
                let evidence =
                    format!("refund {} of {amount} was refused as too much", ask.refund_no);
                ground.broken(Rule::NoFalseFailure, ground.about(&order.main), &evidence);
            }
            Taken::Neither => {}
        }
        if nth == 0 {
            contradict(ground, watched, &ask, dice).await;
        }
    }
    exceed(ground, order, watched, Fen(1), dice).await;
}

/// Refunds under five numbers at once, each number twice; as many are taken as fit.
pub(crate) async fn crowd(
    ground: &Ground,
    order: &Order,
    watched: &mut Watched<'_>,
    dice: &mut Dice,
) {
    let (numbers, share) = CROWD;
    let amount = hundredths(order.main.amount, share);
    let asks: Vec<Ask> = (0_u32..)
        .take(numbers)
        .map(|nth| Ask { refund_no: number(ground, order, nth), amount })
        .collect();
    let seed = dice.next();
    let watching: &Watched<'_> = watched;
    let flights = (0_u64..).zip(asks.iter().chain(&asks)).map(|(lane, ask)| async move {
        send(ground, watching, ask, &mut Dice::new(seed, lane)).await
    });
    let outcomes = join_all(flights).await;
    let taken: Vec<Taken> = asks
        .iter()
        .chain(&asks)
        .zip(&outcomes)
        .map(|(a, o)| judge(ground, watching, a, o))
        .collect();
    let about = ground.about(&order.main);
    let (first, second) = taken.split_at(numbers);
    let mut accepted = Vec::new();
    for ((ask, first), second) in asks.iter().zip(first).zip(second) {
        let split =
            [*first, *second].contains(&Taken::Yes) && [*first, *second].contains(&Taken::TooMuch);
        ground.judge(Rule::RefundOnce, about, !split, || {
            format!("refund {} was taken and refused at the same time", ask.refund_no)
        });
        if [first, second].contains(&&Taken::Yes) {
            accepted.push((ask.refund_no.clone(), amount));
        }
    }
    let sum: Fen = accepted.iter().map(|(_, amount)| *amount).sum();
    ground.judge(Rule::RefundWithin, about, sum <= order.main.amount, || {
        format!("{sum} of {} were accepted to be refunded", order.main.amount)
    });
    let fits = usize::try_from(order.main.amount.0 / std::cmp::max(amount.0, 1)).unwrap_or(numbers);
    if !taken.contains(&Taken::Neither) {
        ground.judge(Rule::NoFalseFailure, about, accepted.len() >= fits, || {
            format!("{} of {fits} refunds that fit were accepted", accepted.len())
        });
    }
    watched.refunds.extend(accepted);
}

/// Sends one refund several times at once; all answers must agree.
async fn repeat(ground: &Ground, watched: &Watched<'_>, ask: &Ask, dice: &mut Dice) -> Taken {
    let seed = dice.next();
    let flights = (0_u64..)
        .take(REPEATS)
        .map(|lane| async move { send(ground, watched, ask, &mut Dice::new(seed, lane)).await });
    let outcomes = join_all(flights).await;
    let taken: Vec<Taken> =
        outcomes.iter().map(|outcome| judge(ground, watched, ask, outcome)).collect();
    let about = ground.about(watched.purchase);
    let split = taken.contains(&Taken::Yes) && taken.contains(&Taken::TooMuch);
    ground.judge(Rule::RefundOnce, about, !split, || {
        let quotes: Vec<String> = outcomes.iter().map(Outcome::quote).collect();
        format!("refund {} was answered {}", ask.refund_no, quotes.join(" and "))
    });
    [Taken::Yes, Taken::TooMuch]
        .into_iter()
        .find(|one| taken.contains(one))
        .unwrap_or(Taken::Neither)
}

/// The same number with another amount must be refused.
async fn contradict(ground: &Ground, watched: &Watched<'_>, ask: &Ask, dice: &mut Dice) {
    let amount = if ask.amount > Fen(1) { Fen(ask.amount.0 - 1) } else { Fen(2) };
    let other = Ask { refund_no: ask.refund_no.clone(), amount };
    let outcome = send(ground, watched, &other, dice).await;
    let about = ground.about(watched.purchase);
    let Some(answer) = outcome.answer() else {
        ground.unanswered(about, "the same refund with another amount", &outcome);
        return;
    };
    ground.judge(Rule::RefundOnce, about, answer.is_refused_as(409, "refund_conflict"), || {
        let Ask { refund_no, amount } = &other;
        format!("refund {refund_no} of {} came with {amount}: {}", ask.amount, answer.quote())
    });
}

/// More than is left must be refused.
async fn exceed(
    ground: &Ground,
    order: &Order,
    watched: &Watched<'_>,
    amount: Fen,
    dice: &mut Dice,
) {
    let ask = Ask { refund_no: number(ground, order, 99), amount };
    let outcome = send(ground, watched, &ask, dice).await;
    let about = ground.about(watched.purchase);
    let Some(answer) = outcome.answer() else {
        ground.unanswered(about, "a refund of more than is left", &outcome);
        return;
    };
    let refused = answer.is_refused_as(422, "refund_exceeds_payment");
    ground.judge(Rule::RefundWithin, about, refused, || {
        format!("{amount} more than was left was asked for: {}", answer.quote())
    });
}

async fn send(ground: &Ground, watched: &Watched<'_>, ask: &Ask, dice: &mut Dice) -> Outcome {
    ground.book.count(|counts| counts.refunds += 1);
    let path = ["v1", "payments", &watched.payment_no, "refunds"];
    let tenant = watched.purchase.tenant;
    let mut call = ground.call_of(tenant, "refund", Method::POST, &path);
    call.body = Some(wire::refund(&ask.refund_no, ask.amount));
    ground.persist(tenant, &call, Accepted::Enough, None, dice).await
}

/// Judges the answer to a refund that is right, or too much at worst.
fn judge(ground: &Ground, watched: &Watched<'_>, ask: &Ask, outcome: &Outcome) -> Taken {
    let about = ground.about(watched.purchase);
    let Some(answer) = outcome.answer() else {
        ground.unanswered(about, "refund", outcome);
        return Taken::Neither;
    };
    ground.book.held(Rule::AnswersInTheEnd);
    if answer.is_refused_as(422, "refund_exceeds_payment") {
        return Taken::TooMuch;
    }
    let accepted = matches!(answer.status, 200..=202);
    if !ground.judge(Rule::NoFalseFailure, about, accepted, || {
        format!("refund {} of {}: {}", ask.refund_no, ask.amount, answer.quote())
    }) {
        return Taken::Neither;
    }
    let refund: Option<Refund> = answer.read();
    let fits = refund.is_some_and(|refund| {
        refund.refund_no == ask.refund_no
            && refund.payment_no == watched.payment_no
            && Fen::parse(&refund.amount) == Some(ask.amount)
            && refund.status != "refused"
    });
    ground.judge(Rule::RefundOnce, about, fits, || {
        format!("refund {} of {} was answered {}", ask.refund_no, ask.amount, answer.quote())
    });
    Taken::Yes
}

/// Letters, digits and `_`, as the channel takes them, unique over orders and seeds.
fn number(ground: &Ground, order: &Order, nth: u32) -> String {
    format!("R{:x}_{}_{nth}", ground.seed, order.lane)
}

fn hundredths(amount: Fen, share: i64) -> Fen {
    Fen(std::cmp::max(amount.0.saturating_mul(share) / 100, 1))
}
