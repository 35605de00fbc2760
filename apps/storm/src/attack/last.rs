//! The last look: what was at rest must still be as it was when its story ended.

use futures_util::future::join_all;

use super::ground::Ground;
use super::settle::Look;
use crate::book::About;
use crate::rule::Rule;
use crate::wire::Payment;

/// Looks in flight at once.
const AT_ONCE: usize = 64;

/// Tries of one look; the service was there a moment ago.
const TRIES_MAX: u32 = 20;

/// A payment that was at rest.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(crate) tenant: usize,
    pub(crate) payment: Payment,
}

/// Looks at every payment once more.
pub(crate) async fn look(ground: &Ground) {
    let settled = ground.take_settled();
    for some in settled.chunks(AT_ONCE) {
        join_all(some.iter().map(|settled| look_at(ground, settled))).await;
    }
}

async fn look_at(ground: &Ground, settled: &Settled) {
    let Settled { tenant, payment: then } = settled;
    let about = About { tenant: ground.tenant(*tenant), order_id: &then.order_id };
    for tries in 0..TRIES_MAX {
        if ground.until.is_stopped() {
            return;
        }
        match ground.look(*tenant, &then.payment_no).await {
            Look::Found(now) => {
                compare(ground, about, then, &now);
                return;
            }
            Look::Lost(seen) => {
                let evidence = format!("payment {} is gone: {seen}", then.payment_no);
                ground.broken(Rule::NothingLost, about, &evidence);
                return;
            }
            Look::Unclear(_) => ground.rest(tries).await,
        }
    }
}

fn compare(ground: &Ground, about: About<'_>, then: &Payment, now: &Payment) {
    let same = (&then.status, &then.refunded) == (&now.status, &now.refunded);
    let rule = match (then.is_paid(), now.is_paid()) {
        (true, false) => Rule::PaidStays,
        (_, true) => Rule::MoneyAgrees,
        (false, false) => Rule::Settles,
    };
    ground.judge(rule, about, same, || {
        format!(
            "payment {} was at rest, {:?} with {} refunded; later it is {:?} with {} refunded",
            then.payment_no, then.status, then.refunded, now.status, now.refunded
        )
    });
}
