//! Takes messages out of the outbox and sends them, for as long as the process lives.

use std::{
    cmp, fmt,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    backoff::{Backoff, random},
    circuit::{Circuits, Line, Pass},
    outbox::{Burial, Delivery, MessageId, Outbox, Topic},
    transport::{SendError, Transport},
};
use crate::{
    engine::Unobserved,
    rest::{LEASE_MIN, PERIOD_MIN, stopped_within, within},
    store::Fault,
    time::{Clock, SystemClock},
    witness::Witness,
};

/// Messages in one claim: a round trip is shared, and a relay that dies delays no more.
pub const BATCH_MAX: u16 = 100;
/// Failures of its own after which a message is buried: with the default backoff after two hours.
pub const TRIES_MAX: u32 = 12;
/// Sends at the same time, so that one slow receiver holds up no other.
pub const AT_ONCE: u16 = 32;
/// A claim lasts this long, and one send may take a third of it: longer than a broker's
/// confirmation under load, shorter than anybody waits for the messages of a dead relay.
pub const LEASE: Duration = Duration::from_secs(60);

/// A claim lasts for this many sends: one for the message, the rest for the word about it.
const SENDS_PER_LEASE: u32 = 3;
/// Times that a word about a message is given to an outbox that does not answer.
const WORDS_MAX: u32 = 5;
/// Longest reason of a burial, in bytes.
const WHY_BYTES_MAX: usize = 255;
/// Pause between two claims that found only messages which have to wait: what waits at its head
/// must not hide the rest of a long outbox, nor keep the database busy.
const PACE: Duration = Duration::from_millis(50);
/// A message without a route waits this long: another instance may know its topic.
const UNROUTED: Duration = Duration::from_secs(30);

/// Sends what an outbox holds, in order per key, until the receiver has it.
///
/// Any number of relays may work on one outbox. A relay that dies leaves its messages to the
/// others when its claims lapse; they arrive again under the same id.
#[must_use = "a relay sends nothing until it runs"]
pub struct Relay {
    outbox: Arc<dyn Outbox>,
    clock: Arc<dyn Clock>,
    witness: Arc<dyn Witness<Happening>>,
    transports: Vec<Arc<dyn Transport>>,
    routes: Vec<(Topic, usize)>,
    owed: Vec<Topic>,
    lease: Duration,
    period: Duration,
    at_once: u16,
    tries_max: u32,
    backoff: Backoff,
    outage: Backoff,
}

/// What happened to a message or to its way, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// The receiver has it and the outbox knows.
    Delivered {
        /// Which message.
        id: MessageId,
    },
    /// The receiver has it, and the outbox does not know: it will be sent again.
    Unacknowledged {
        /// Which message.
        id: MessageId,
    },
    /// The receiver refused it; it is tried again later.
    Rejected {
        /// Which message.
        id: MessageId,
        /// Failures of its own so far.
        attempts: u32,
    },
    /// Given up.
    Buried {
        /// Which message.
        id: MessageId,
    },
    /// Put back untouched, since its way is down or this relay knows none.
    PutBack {
        /// Which message.
        id: MessageId,
    },
    /// A receiver, or a whole transport, has gone down.
    WayDown,
    /// It is up again.
    WayUp,
    /// The outbox could not be read.
    ClaimFailed,
}

impl Relay {
    /// A relay before `outbox`, without routes.
    pub fn new(outbox: Arc<dyn Outbox>) -> Self {
        Self {
            outbox,
            clock: Arc::new(SystemClock),
            witness: Arc::new(Unobserved),
            transports: Vec::new(),
            routes: Vec::new(),
            owed: Vec::new(),
            lease: LEASE,
            period: Duration::from_secs(1),
            at_once: AT_ONCE,
            tries_max: TRIES_MAX,
            backoff: Backoff::new(Duration::from_secs(5), Duration::from_secs(60 * 60)),
            outage: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
        }
    }

    /// Sends messages of these topics through `transport`.
    pub fn route(mut self, topics: &[Topic], transport: impl Transport) -> Self {
        let number = self.transports.len();
        self.transports.push(Arc::new(transport));
        self.routes.extend(topics.iter().map(|topic| (topic.clone(), number)));
        self
    }

    /// Messages of these topics are never buried for being refused: they are sent until the
    /// receiver has them, and later ones of their key wait. What nobody can read is still buried.
    pub fn owed(mut self, topics: &[Topic]) -> Self {
        self.owed.extend_from_slice(topics);
        self
    }

    /// The clock of this process.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Who counts.
    pub fn witness(self, witness: impl Witness<Happening>) -> Self {
        Self { witness: Arc::new(witness), ..self }
    }

    /// How long a claim lasts, at least 30 ms. One send may take a third of it.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: cmp::max(lease, LEASE_MIN), ..self }
    }

    /// How often the outbox is asked without a hint.
    pub fn period(self, period: Duration) -> Self {
        Self { period: cmp::max(period, PERIOD_MIN), ..self }
    }

    /// How many sends go on at the same time; at least one.
    pub fn at_once(self, at_once: u16) -> Self {
        Self { at_once: cmp::max(at_once, 1), ..self }
    }

    /// After this many failures of its own a message is buried, unless it is [owed](Self::owed).
    pub fn tries_max(self, tries_max: u32) -> Self {
        Self { tries_max, ..self }
    }

    /// Pauses between the tries of one message.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Pauses between the probes of a way that is down.
    pub fn outage(self, outage: Backoff) -> Self {
        Self { outage, ..self }
    }

    /// Relays until `stop` is cancelled, then waits for what is being sent.
    ///
    /// # Cancellation
    /// Dropped instead of stopped, it is as if it had died: what was being sent is sent again.
    pub async fn run(self, stop: CancellationToken) {
        let circuits = Mutex::new(Circuits::new(self.outage));
        let office = Arc::new(Office { relay: self, circuits });
        let mut sending = JoinSet::new();
        let mut failures = 0;
        while !stop.is_cancelled() {
            while sending.try_join_next().is_some() {}
            // Listens from before the claim, so that no message falls in between.
            let written = office.relay.outbox.written();
            let round = office.round(&mut sending).await;
            failures = if round.is_ok() { 0 } else { cmp::min(failures + 1, TRIES_MAX) };
            match round {
                Ok(Next::Again) => {}
                Ok(Next::Idle(span)) => office.idle(span, written, &mut sending, &stop).await,
                Ok(Next::Pause) => {
                    stopped_within(&stop, office.clock(), PACE).await;
                }
                Err(fault) => {
                    tracing::warn!(
                        error = &fault as &dyn std::error::Error,
                        "the relay could not read its outbox"
                    );
                    office.see(&Happening::ClaimFailed);
                    let pause = office.relay.outage.pause(failures, random());
                    stopped_within(&stop, office.clock(), pause).await;
                }
            }
        }
        while sending.join_next().await.is_some() {}
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: Vec<_> = self.routes.iter().map(|(topic, _)| topic.as_str()).collect();
        f.debug_struct("Relay").field("topics", &topics).finish_non_exhaustive()
    }
}

/// The relay at work.
struct Office {
    relay: Relay,
    circuits: Mutex<Circuits>,
}

/// What to do after a round.
enum Next {
    /// There may be more.
    Again,
    /// Nothing is due: wait for a message, for a send that ends, or for this long.
    Idle(Duration),
    /// Everything found has to wait; look at the rest in a while.
    Pause,
}

/// Where a message may go now.
enum Place {
    Send(Arc<dyn Transport>, Line),
    Wait(Duration),
}

impl Office {
    fn clock(&self) -> &dyn Clock {
        self.relay.clock.as_ref()
    }

    fn see(&self, event: &Happening) {
        self.relay.witness.see(event);
    }

    /// Every change under this lock is complete when it is let go.
    fn circuits(&self) -> MutexGuard<'_, Circuits> {
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long one send may take.
    fn patience(&self) -> Duration {
        self.relay.lease / SENDS_PER_LEASE
    }

    /// Claims as many messages as can be sent at once, and sends them.
    async fn round(self: &Arc<Self>, sending: &mut JoinSet<()>) -> Result<Next, Fault> {
        let at_once = usize::from(self.relay.at_once);
        let free = at_once.saturating_sub(sending.len());
        // Half of the places are filled by one claim, so that claims stay few.
        if free == 0 || free * 2 < at_once {
            return Ok(Next::Idle(self.relay.period));
        }
        let mut rows = cmp::min(u16::try_from(free).unwrap_or(BATCH_MAX), BATCH_MAX);
        let transports = self.relay.transports.len();
        if transports > 0 && self.circuits().is_all_down(transports) {
            let pause = self.circuits().next_probe(transports, self.clock().now());
            if !pause.is_zero() {
                return Ok(Next::Idle(pause));
            }
            rows = 1;
        }
        let batch = self.relay.outbox.claim(rows, self.relay.lease).await?;
        let is_full = batch.len() >= usize::from(rows);
        let mut sent = false;
        for delivery in batch {
            match self.place(&delivery) {
                Place::Send(transport, line) => {
                    sent = true;
                    sending.spawn(Arc::clone(self).deliver(delivery, transport, line));
                }
                Place::Wait(pause) => {
                    sending.spawn(Arc::clone(self).put_back(delivery, pause));
                }
            }
        }
        Ok(match (is_full, sent) {
            (false, _) => Next::Idle(self.relay.period),
            (true, true) => Next::Again,
            (true, false) => Next::Pause,
        })
    }

    async fn idle(
        &self,
        span: Duration,
        written: BoxFuture<'static, ()>,
        sending: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        let one_is_done = pin!(async {
            if sending.join_next().await.is_none() {
                std::future::pending::<()>().await;
            }
        });
        let over = pin!(stopped_within(stop, self.clock(), span));
        // A hint, a finished task and a timer: none of them loses anything when dropped.
        match select(select(written, one_is_done), over).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    fn place(&self, delivery: &Delivery) -> Place {
        let topic = &delivery.message.topic;
        let number = self.relay.routes.iter().find(|(known, _)| known == topic).map(|(_, to)| *to);
        let route = number.and_then(|number| Some((number, self.relay.transports.get(number)?)));
        let Some((number, transport)) = route else {
            tracing::warn!(topic = topic.as_str(), "the relay has no route for a message");
            return Place::Wait(UNROUTED);
        };
        // A transport that cannot even name the receiver fails at the send, which is counted.
        let named = std::panic::catch_unwind(AssertUnwindSafe(|| transport.receiver(delivery)));
        let line = (number, named.unwrap_or(None));
        let now = self.clock().now();
        match self.circuits().pass(&line, now, self.patience()) {
            Pass::Send => Place::Send(Arc::clone(transport), line),
            Pass::Wait(pause) => Place::Wait(self.shelf(pause)),
        }
    }

    /// What only waits comes back well after the probe, so that a long queue of it costs little.
    fn shelf(&self, pause: Duration) -> Duration {
        let least = self.relay.outage.pause(u32::MAX, random());
        cmp::max(pause, least).saturating_add(pause / 8)
    }

    async fn deliver(
        self: Arc<Self>,
        delivery: Delivery,
        transport: Arc<dyn Transport>,
        line: Line,
    ) {
        let sent = self.send(transport.as_ref(), &delivery).await;
        let (id, token) = (delivery.message.id, delivery.token);
        let outbox = &self.relay.outbox;
        if !matches!(sent, Err(SendError::Away { .. })) && self.circuits().answered(&line) {
            tracing::info!("a receiver of messages is up again");
            self.see(&Happening::WayUp);
        }
        match sent {
            Ok(()) => {
                let event = match self.word(|| outbox.ack(id, token)).await {
                    true => Happening::Delivered { id },
                    false => Happening::Unacknowledged { id },
                };
                self.see(&event);
            }
            Err(SendError::Rejected { why }) => self.rejected(&delivery, &why).await,
            Err(SendError::Malformed { why }) => self.bury(&delivery, &why).await,
            Err(SendError::Away { why }) => {
                let now = self.clock().now();
                let (pause, has_gone_down) = self.circuits().failed(&line, now, random());
                if has_gone_down {
                    tracing::warn!(why, "a receiver of messages is down");
                    self.see(&Happening::WayDown);
                }
                // A little later than the probe, which is thus another message: one that makes
                // its receiver hang must not be every probe.
                self.put_back(delivery, pause + pause / 8).await;
            }
        }
    }

    async fn send(&self, transport: &dyn Transport, delivery: &Delivery) -> Result<(), SendError> {
        // Nothing of a transport that panicked is looked at again but its next answer.
        let send = AssertUnwindSafe(async { transport.send(delivery).await }).catch_unwind();
        match within(self.clock(), self.patience(), send).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err(SendError::Rejected { why: "the transport panicked".to_owned() }),
            None => Err(SendError::Away { why: "no answer in time".to_owned() }),
        }
    }

    async fn rejected(&self, delivery: &Delivery, why: &str) {
        let (id, token) = (delivery.message.id, delivery.token);
        let attempts = delivery.attempts.saturating_add(1);
        let is_owed = self.relay.owed.contains(&delivery.message.topic);
        if attempts >= self.relay.tries_max && !is_owed {
            return self.bury(delivery, why).await;
        }
        let pause = self.relay.backoff.pause(attempts, random());
        self.word(|| self.relay.outbox.retry(id, token, pause, attempts)).await;
        self.see(&Happening::Rejected { id, attempts });
    }

    async fn bury(&self, delivery: &Delivery, why: &str) {
        let (id, token) = (delivery.message.id, delivery.token);
        let burial = Burial { why: cut(why) };
        self.word(|| self.relay.outbox.bury(id, token, burial.clone())).await;
        tracing::error!(message = %id, topic = delivery.message.topic.as_str(), "buried a message");
        self.see(&Happening::Buried { id });
    }

    async fn put_back(self: Arc<Self>, delivery: Delivery, pause: Duration) {
        let (id, token, attempts) = (delivery.message.id, delivery.token, delivery.attempts);
        self.word(|| self.relay.outbox.retry(id, token, pause, attempts)).await;
        self.see(&Happening::PutBack { id });
    }

    /// Tells the outbox. `false`: the claim was not ours any more, or the outbox does not answer;
    /// the message then comes again when its claim lapses.
    async fn word(&self, tell: impl Fn() -> BoxFuture<'static, Result<bool, Fault>>) -> bool {
        let patience = Backoff::new(self.relay.lease / 100, self.relay.lease / 10);
        for nth in 1..=WORDS_MAX {
            match tell().await {
                Ok(was_held) => return was_held,
                Err(fault) => tracing::warn!(
                    error = &fault as &dyn std::error::Error,
                    "the outbox took no word"
                ),
            }
            self.clock().sleep(patience.pause(nth, random())).await;
        }
        false
    }
}

fn cut(why: &str) -> String {
    let ends = why.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= WHY_BYTES_MAX).last().unwrap_or(0);
    why.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_letters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(300)).len(), 254);
        assert_eq!(cut(&"x".repeat(300)).len(), 255);
    }
}
