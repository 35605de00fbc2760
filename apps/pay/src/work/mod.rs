//! What the service does by itself, for as long as it lives.
//!
//! Each worker is a loop of `hapax` with a few lines of ours. Any number of instances may run
//! them: rows are leased, messages are claimed, abandoned requests are claimed.

mod benefits;
mod complete;
mod notices;
mod purge;
mod requests;
mod sweep;

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::requests::{Requests, flush as note_requests};
use crate::{
    error::{Error, Kind},
    flow::Desk,
    ledger::{BENEFIT, MERCHANT_NOTICE},
};
use hapax::message::{Backoff, Relay, Topic};

/// Starts every worker on `tasks`; they end when `stop` is cancelled.
pub(crate) fn start(
    desk: &Arc<Desk>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), Error> {
    tasks.spawn(relay(desk)?.run(stop.clone()));
    tasks.spawn(complete::completer(desk).run(stop.clone()));
    tasks.spawn(sweep::payments(desk).run(stop.clone()));
    tasks.spawn(sweep::refunds(desk).run(stop.clone()));
    tasks.spawn(purge::purger(desk).run(stop.clone()));
    tasks.spawn(requests::run(Arc::clone(desk), stop.clone()));
    Ok(())
}

/// Sends what the books left in the outbox: benefits to our own consumer, notices to merchants.
fn relay(desk: &Arc<Desk>) -> Result<Relay, Error> {
    let (periods, bounds) = (&desk.config.periods, &desk.config.bounds);
    let topic = |name: &str| Topic::parse(name).map_err(Error::corrupt);
    let webhook = notices::webhook(desk)
        .map_err(|why| Error::caused(Kind::System, "set up notices to merchants", why))?;
    Ok(Relay::new(Arc::new(desk.sql.clone()))
        .route(&[topic(BENEFIT)?], benefits::Consumer::new(desk))
        .route(&[topic(MERCHANT_NOTICE)?], webhook)
        .period(periods.sweep.0)
        .lease(periods.notice_timeout.0 * 4)
        .at_once(bounds.sends_at_once)
        .backoff(Backoff::new(periods.resend.0, periods.resend_max.0))
        .outage(Backoff::new(periods.resend.0, periods.resend_max.0)))
}
