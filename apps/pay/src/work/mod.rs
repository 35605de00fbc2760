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
    config::{Bounds, Periods},
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
    tasks.spawn(purge::purger(desk)?.run(stop.clone()));
    tasks.spawn(requests::run(Arc::clone(desk), stop.clone()));
    Ok(())
}

/// Sends what the books left in the outbox: benefits to our own consumer, notices to merchants.
///
/// A notice is owed to its merchant: however often he refuses it, it is sent again, and what
/// happened to the order later waits behind it.
fn relay(desk: &Arc<Desk>) -> Result<Relay, Error> {
    let topic = |name: &str| Topic::parse(name).map_err(Error::corrupt);
    let webhook = notices::webhook(desk)
        .map_err(|why| Error::caused(Kind::System, "set up notices to merchants", why))?;
    let notices = [topic(MERCHANT_NOTICE)?];
    let relay = Relay::new(Arc::new(desk.sql.clone()))
        .route(&[topic(BENEFIT)?], benefits::Consumer::new(desk))
        .route(&notices, webhook)
        .owed(&notices);
    Ok(paced(relay, &desk.config.periods, desk.config.bounds))
}

/// The relay as the configuration wants it.
fn paced(relay: Relay, periods: &Periods, bounds: Bounds) -> Relay {
    relay
        .period(periods.sweep.0)
        .lease(periods.notice_timeout.0 * 4)
        .at_once(bounds.sends_at_once)
        .backoff(periods.resends())
        .outage(Backoff::new(periods.probe.0, periods.probe_max.0))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytes::Bytes;
    use futures_util::future::BoxFuture;
    use tokio::task::JoinSet;

    use super::*;
    use hapax::{
        Clock, SystemClock, Timestamp,
        message::{Delivery, MemoryOutbox, Message, MessageId, Outbox, SendError, Transport},
    };

    const AWAY: Duration = Duration::from_secs(3);

    /// Tokio's paused time, also as the time of the wall.
    struct Paused(Instant);

    impl Clock for Paused {
        fn now(&self) -> Instant {
            SystemClock.now()
        }

        fn wall(&self) -> Timestamp {
            Timestamp::from_millis(0).plus(self.now().duration_since(self.0))
        }

        fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
            SystemClock.sleep(span)
        }
    }

    /// A merchant who comes back after a while.
    struct Merchant(Arc<Paused>);

    impl Transport for Merchant {
        fn send<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            let is_away = self.0.wall() < Timestamp::from_millis(0).plus(AWAY);
            let away = || SendError::Away { why: "connection refused".to_owned() };
            Box::pin(async move { if is_away { Err(away()) } else { Ok(()) } })
        }

        fn receiver(&self, _: &Delivery) -> Option<String> {
            Some("shop".to_owned())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_merchant_that_was_away_for_seconds_is_told_within_half_a_minute() {
        let clock = Arc::new(Paused(SystemClock.now()));
        let outbox = MemoryOutbox::on(clock.clone());
        let topic = Topic::parse(MERCHANT_NOTICE).unwrap();
        for number in 0..50 {
            let key = number.to_string();
            let (id, payload) = (MessageId::of(&[&key]), Bytes::new());
            outbox.write(Message { id, topic: topic.clone(), key, payload }).unwrap();
        }
        let relay = Relay::new(Arc::new(outbox.clone())).clock(clock.clone());
        let relay = relay.route(&[topic], Merchant(Arc::clone(&clock)));
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        running.spawn(paced(relay, &Periods::default(), Bounds::default()).run(stop.clone()));
        clock.sleep(AWAY + Duration::from_secs(30)).await;
        assert_eq!(outbox.depth().await.unwrap().waiting, 0);
        stop.cancel();
        running.join_all().await;
    }
}
