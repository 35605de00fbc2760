//! One order from its submits to its end.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::ground::Ground;
use super::ledger::Ledger;
use super::settle::Watched;
use super::{refund, repeat, wave};
use crate::dice::Dice;
use crate::progress::Phase;
use crate::rule::Rule;
use crate::script::{Credential, Dress, Ending, Order, Purchase, Shadow, Story, Submit, Way};
use crate::simulator::{Arrival, Moment, Pulled};
use crate::wire::{Payment, Round};

/// The lane of the dice with which a story is played; those of the script have the same seed.
const PLAY: u64 = 0x9_1A7;

/// Latest moment after a close at which a buyer pays, in milliseconds.
const AFTER_CLOSE_MS: u64 = 150;

/// How long a buyer at the password step waits after the order is closed.
const HESITATION: Duration = Duration::from_millis(50);

/// Plays one order. `place` is given back when its submits are answered.
pub(crate) async fn play(ground: &Ground, order: &Order, place: Option<OwnedSemaphorePermit>) {
    let mut dice = Dice::new(ground.seed ^ PLAY, order.lane);
    let mut ledger = Ledger::default();
    let round = Round::First;
    let wave = wave::fire(ground, order, &order.submits, round, &mut ledger, &mut dice).await;
    drop(place);
    ground.meter.moved(Phase::Submit);
    let shadow = Dice::new(dice.next(), 0);
    let main = play_main(ground, order, &wave.main, &mut ledger, &mut dice);
    let shadow = play_shadow(ground, order.shadow.as_ref(), &wave.shadow, shadow);
    // Both are to run to their end; neither waits for the other.
    futures_util::future::join(Box::pin(main), Box::pin(shadow)).await;
    repeat::submits(ground, order, &mut ledger, wave.token.as_deref(), &mut dice).await;
    repeat::status(ground, order, &ledger, &mut dice).await;
    if !ground.until.is_stopped() {
        ground.meter.moved(Phase::Repeat);
    }
}

async fn play_main(
    ground: &Ground,
    order: &Order,
    payments: &[Payment],
    ledger: &mut Ledger,
    dice: &mut Dice,
) {
    let mut watched: Vec<Watched<'_>> =
        payments.iter().map(|payment| Watched::new(&order.main, &payment.payment_no)).collect();
    if let Some(conflict) = &order.conflict
        && !payments.is_empty()
    {
        repeat::contradict(ground, order, conflict, dice).await;
    }
    // The newest attempt is the one that can be paid.
    let newest = payments.iter().zip(&mut watched).max_by_key(|(p, _)| (p.round, p.attempt));
    let more = match newest {
        Some((payment, watched)) => act(ground, order, payment, watched, ledger, dice).await,
        None => Vec::new(),
    };
    watched.extend(more.iter().map(|payment| Watched::new(&order.main, &payment.payment_no)));
    ground.meter.moved(Phase::Act);
    for watched in &mut watched {
        ground.settle(watched, dice).await;
    }
    ground.meter.moved(Phase::Settle);
    if let Some(last) = watched.last_mut() {
        aftermath(ground, order, last, ledger, dice).await;
    }
    for watched in &mut watched {
        keep(ground, watched);
    }
}

/// What comes when an order is at rest and must change nothing.
async fn aftermath(
    ground: &Ground,
    order: &Order,
    last: &mut Watched<'_>,
    ledger: &mut Ledger,
    dice: &mut Dice,
) {
    ground.look_at_order(last).await;
    repeat::spy(ground, order, last, dice).await;
    if order.story != Story::RefundWhole {
        repeat::late_key(ground, order, last, ledger, dice).await;
    }
    if order.echo.is_some() {
        repeat::echo(ground, last).await;
        ground.settle(last, dice).await;
    }
}

/// What happens to an order before it is left alone; gives the payments of further rounds.
async fn act(
    ground: &Ground,
    order: &Order,
    payment: &Payment,
    watched: &mut Watched<'_>,
    ledger: &mut Ledger,
    dice: &mut Dice,
) -> Vec<Payment> {
    match order.story {
        Story::PayAtOnce => buy(ground, &order.main, payment).await,
        Story::CloseRace => {
            scan(ground, &order.main, payment).await;
            race(ground, payment, Moment::BeforeClose, 0).await;
            repeat::close(ground, watched, dice).await;
        }
        Story::PayDuringClose => {
            let delay = dice.between(0, AFTER_CLOSE_MS);
            race(ground, payment, Moment::AfterCloseNotExist, delay).await;
            repeat::close(ground, watched, dice).await;
        }
        Story::PayAfterExpiry => {
            // Some buyers are faster than the story.
            let over = |payment: &Payment| payment.is_paid() || payment.status == "closed";
            let over = ground.await_payment(watched, dice, over).await;
            if over.is_some_and(|payment| !payment.is_paid()) {
                ground.until.pause(HESITATION).await;
                pay(ground, &payment.payment_no, Arrival::Late).await;
            }
        }
        Story::Abandon => {}
        Story::Close => {
            scan(ground, &order.main, payment).await;
            repeat::close(ground, watched, dice).await;
        }
        Story::RefundWhole | Story::RefundParts | Story::RefundAtOnce => {
            buy(ground, &order.main, payment).await;
            // A benefit that is granted must be taken away; the others race with their grant.
            let ripe = |payment: &Payment| match order.story {
                Story::RefundWhole => payment.is_granted(),
                _ => payment.is_paid(),
            };
            if ground.await_payment(watched, dice, ripe).await.is_some() {
                Box::pin(give_back(ground, order, watched, dice)).await;
            }
        }
        Story::Repurchase => {
            buy(ground, &order.main, payment).await;
            if ground.await_payment(watched, dice, Payment::is_paid).await.is_some() {
                return Box::pin(buy_again(ground, order, payment, ledger, dice)).await;
            }
        }
    }
    Vec::new()
}

async fn give_back(ground: &Ground, order: &Order, watched: &mut Watched<'_>, dice: &mut Dice) {
    match order.story {
        Story::RefundParts => refund::parts(ground, order, watched, dice).await,
        Story::RefundAtOnce => refund::crowd(ground, order, watched, dice).await,
        _ => refund::whole(ground, order, watched, dice).await,
    }
}

/// Buys the same order once more, under two keys at once, and pays it.
async fn buy_again(
    ground: &Ground,
    order: &Order,
    first: &Payment,
    ledger: &mut Ledger,
    dice: &mut Dice,
) -> Vec<Payment> {
    let submits = [3, 4, 3, 4].map(|place| Submit {
        by: Credential::Key(place),
        dress: Dress::Bare,
        hang_up_ms: None,
    });
    let wave = wave::fire(ground, order, &submits, Round::Again, ledger, dice).await;
    for payment in &wave.main {
        let new = payment.payment_no != first.payment_no && payment.round > first.round;
        ground.judge(Rule::OnePayment, ground.about(&order.main), new, || {
            let (one, other) = (&first.payment_no, &payment.payment_no);
            let (round, again) = (first.round, payment.round);
            format!("{one} of round {round} was bought again and got {other} of round {again}")
        });
    }
    if let Some(payment) = wave.main.last() {
        buy(ground, &order.main, payment).await;
    }
    wave.main
}

async fn play_shadow(
    ground: &Ground,
    shadow: Option<&Shadow>,
    payments: &[Payment],
    mut dice: Dice,
) {
    let Some(Shadow { purchase, ending }) = shadow else { return };
    ground.book.count(|counts| counts.shadows += 1);
    for payment in payments {
        let mut watched = Watched::new(purchase, &payment.payment_no);
        if *ending == Ending::Paid {
            buy(ground, purchase, payment).await;
        }
        ground.settle(&mut watched, &mut dice).await;
        keep(ground, &mut watched);
    }
}

fn keep(ground: &Ground, watched: &mut Watched<'_>) {
    if let Some(payment) = watched.take_at_rest() {
        ground.keep(watched.purchase.tenant, payment);
    }
}

/// The buyer follows the code or the page, and pays.
async fn buy(ground: &Ground, purchase: &Purchase, payment: &Payment) {
    follow(ground, purchase, payment).await;
    pay(ground, &payment.payment_no, Arrival::InTime).await;
}

/// The buyer follows the code or the page, and scans.
async fn scan(ground: &Ground, purchase: &Purchase, payment: &Payment) {
    follow(ground, purchase, payment).await;
    // An unscanned trade is closed otherwise; the story goes on all the same.
    let _pulled = ground.simulator.scan(&payment.payment_no).await;
}

/// The buyer's browser opens the page; a code needs no visit.
async fn follow(ground: &Ground, purchase: &Purchase, payment: &Payment) {
    if purchase.way == Way::Code {
        return;
    }
    let page = payment.pay.as_ref().and_then(|pay| pay.page.as_deref());
    let opened = match page {
        Some(page) => ground.simulator.open(page).await,
        None => Pulled::Refused("there is no `pay.page`".to_owned()),
    };
    ground.judge(Rule::AnswerFits, ground.about(purchase), opened == Pulled::Done, || {
        format!("the page of {} does not open: {opened:?}", payment.payment_no)
    });
}

async fn pay(ground: &Ground, number: &str, arrival: Arrival) {
    let pulled = ground.simulator.pay(number, arrival).await;
    ground.book.count(|counts| match pulled {
        Pulled::Done => counts.paid += 1,
        // Whether money came in is asked of the channel when the order is to be at rest.
        Pulled::Refused(_) | Pulled::Silent(_) => counts.paid_refused += 1,
    });
}

/// Sets a buyer to pay at a moment of the channel.
async fn race(ground: &Ground, payment: &Payment, moment: Moment, delay_ms: u64) {
    let number = &payment.payment_no;
    match ground.simulator.hook(moment, number, delay_ms).await {
        Pulled::Done => ground.book.count(|counts| counts.hooks += 1),
        // No place for another hook: the buyer simply pays now, while the close is on its way.
        Pulled::Refused(_) | Pulled::Silent(_) => pay(ground, number, Arrival::InTime).await,
    }
}
