//! Relays on the memory outbox, in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    id::Actor,
    record::Nonce,
    store::{Fault, FaultKind},
    testing::{Dice, Seen, VirtualClock},
    time::Clock,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn topic() -> Topic {
    Topic::parse("payment.paid").unwrap()
}

fn message(key: &str, number: usize) -> Message {
    Message {
        id: MessageId::of(&[key, &number.to_string()]),
        topic: topic(),
        key: key.to_owned(),
        payload: Bytes::from(number.to_string()),
    }
}

fn number(delivery: &Delivery) -> usize {
    std::str::from_utf8(&delivery.message.payload).unwrap().parse().unwrap()
}

/// A broker that can be down, that refuses poison, and that remembers what it got.
#[derive(Clone)]
struct Broker {
    clock: Arc<VirtualClock>,
    is_down: Arc<AtomicBool>,
    poison: Arc<BTreeSet<MessageId>>,
    got: Seen<(String, usize, MessageId)>,
    asked: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    at_once_max: Arc<AtomicUsize>,
    /// One in so many sends is refused at random; 0 is never.
    refuses_one_in: u64,
    dice: Arc<Mutex<Dice>>,
    takes: Duration,
}

impl Broker {
    fn new(clock: &Arc<VirtualClock>) -> Self {
        Self {
            clock: clock.clone(),
            is_down: Arc::default(),
            poison: Arc::default(),
            got: Seen::new(),
            asked: Arc::default(),
            at_once: Arc::default(),
            at_once_max: Arc::default(),
            refuses_one_in: 0,
            dice: Arc::new(Mutex::new(Dice::new(7))),
            takes: Duration::from_millis(5),
        }
    }

    async fn take(&self, delivery: &Delivery) -> Result<(), SendError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.clock.sleep(self.takes).await;
        if self.is_down.load(Ordering::SeqCst) {
            return Err(SendError::Away { why: "connection refused".to_owned() });
        }
        let refuses = self.refuses_one_in;
        let unlucky = refuses > 0 && self.dice.lock().unwrap().below(refuses) == 0;
        if unlucky || self.poison.contains(&delivery.message.id) {
            return Err(SendError::Rejected { why: "cannot process".to_owned() });
        }
        let key = delivery.message.key.clone();
        self.got.add((key, number(delivery), delivery.message.id));
        Ok(())
    }
}

impl Transport for Broker {
    fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(async move {
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.at_once_max.fetch_max(now, Ordering::SeqCst);
            let answer = self.take(delivery).await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            answer
        })
    }

    fn receiver(&self, _: &Delivery) -> Option<String> {
        None
    }
}

fn relay(outbox: &MemoryOutbox, clock: &Arc<VirtualClock>, way: impl Transport) -> Relay {
    Relay::new(Arc::new(outbox.clone())).clock(clock.clone()).route(&[topic()], way)
}

/// Relays until nothing waits any more, and says how long that took.
async fn drained(outbox: &MemoryOutbox, clock: &Arc<VirtualClock>, relays: Vec<Relay>) -> Duration {
    let (stop, begun_at) = (CancellationToken::new(), clock.now());
    let mut running = JoinSet::new();
    for relay in relays {
        running.spawn(relay.run(stop.clone()));
    }
    while outbox.depth().await.unwrap().waiting > 0 {
        clock.sleep(SECOND / 2).await;
        assert!(clock.now().duration_since(begun_at) < MINUTE * 60 * 24, "it never ends");
    }
    let took = clock.now().duration_since(begun_at);
    stop.cancel();
    running.join_all().await;
    took
}

async fn buried(outbox: &MemoryOutbox) -> Vec<Letter> {
    outbox.letters(Letters::Buried, 0, 1000).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_outage_burns_no_attempts_and_poison_is_buried() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let poison: BTreeSet<_> =
        [17, 100, 250].map(|number| MessageId::of(&["", &number.to_string()])).into();
    let broker = Broker { poison: Arc::new(poison.clone()), ..Broker::new(&clock) };
    for number in 0..300 {
        outbox.write(message("", number)).unwrap();
    }
    let seen = Seen::new();
    let outage = async {
        // It goes down in the middle of the work, for half an hour.
        while broker.got.all().len() < 100 {
            clock.sleep(Duration::from_millis(1)).await;
        }
        broker.is_down.store(true, Ordering::SeqCst);
        let asked = broker.asked.load(Ordering::SeqCst);
        clock.sleep(MINUTE * 30).await;
        broker.is_down.store(false, Ordering::SeqCst);
        broker.asked.load(Ordering::SeqCst) - asked
    };
    let relays = vec![relay(&outbox, &clock, broker.clone()).witness(seen.clone())];
    let (_, asked_in_outage) = futures_util::join!(drained(&outbox, &clock, relays), outage);

    let mut got: Vec<_> = broker.got.all().into_iter().map(|(_, number, _)| number).collect();
    got.sort_unstable();
    let good: Vec<_> = (0..300).filter(|number| ![17, 100, 250].contains(number)).collect();
    assert_eq!(got, good, "every good one, and each once");
    let dead: BTreeSet<_> = buried(&outbox).await.iter().map(|dead| dead.message.id).collect();
    assert_eq!(dead, poison, "only the poison is buried");
    assert!(asked_in_outage < 32 + 200, "a probe now and then: {asked_in_outage}");
    assert_eq!(seen.count(|event| *event == Happening::WayDown), 1);
    assert_eq!(seen.count(|event| *event == Happening::WayUp), 1);
    let rejected = seen.count(|event| matches!(event, Happening::Rejected { .. }));
    assert_eq!(rejected, 3 * 11, "the twelfth failure buries");
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_key_keep_their_order_with_eight_relays() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    for number in 0..40 {
        for key in ["a", "b", "c", "d", "e"] {
            outbox.write(message(key, number)).unwrap();
        }
    }
    let broker = Broker { refuses_one_in: 4, ..Broker::new(&clock) };
    let backoff = Backoff::new(SECOND, SECOND * 4);
    let relays = (0..8).map(|_| {
        let relay = relay(&outbox, &clock, broker.clone());
        relay.backoff(backoff).tries_max(1_000)
    });
    drained(&outbox, &clock, relays.collect()).await;
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (key, number, _) in broker.got.all() {
        by_key.entry(key).or_default().push(number);
    }
    assert_eq!(by_key.len(), 5);
    for (key, numbers) in by_key {
        assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_buried_message_lets_the_rest_of_its_key_go_on() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let poison = BTreeSet::from([message("a", 0).id]);
    let broker = Broker { poison: Arc::new(poison), ..Broker::new(&clock) };
    for (key, number) in [("a", 0), ("a", 1), ("b", 2)] {
        outbox.write(message(key, number)).unwrap();
    }
    let relays = vec![relay(&outbox, &clock, broker.clone()).tries_max(3)];
    drained(&outbox, &clock, relays).await;
    let got: Vec<_> = broker.got.all().into_iter().map(|(_, number, _)| number).collect();
    assert_eq!(got, [2, 1], "b was not held up, and a's next one came after the burial");
    let dead = buried(&outbox).await;
    assert_eq!(dead[0].buried, Some(Burial { why: "cannot process".to_owned() }));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_owed_is_never_buried_for_being_refused() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    for number in 0..3 {
        outbox.write(message("a", number)).unwrap();
    }
    let sick = Broker {
        poison: Arc::new((0..3).map(|number| message("a", number).id).collect()),
        ..Broker::new(&clock)
    };
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let patient = |way| {
        let backoff = Backoff::new(SECOND, SECOND * 60);
        relay(&outbox, &clock, way).owed(&[topic()]).tries_max(3).backoff(backoff)
    };
    running.spawn(patient(sick.clone()).run(stop.clone()));
    clock.sleep(MINUTE * 60 * 2).await;
    stop.cancel();
    running.join_all().await;
    let asked = sick.asked.load(Ordering::SeqCst);
    assert!(asked > 100, "the longest pause is a minute: {asked}");
    assert_eq!(buried(&outbox).await.len(), 0);

    let well = Broker::new(&clock);
    let took = drained(&outbox, &clock, vec![patient(well.clone())]).await;
    assert!(took <= MINUTE + SECOND, "{took:?}");
    let got: Vec<_> = well.got.all().into_iter().map(|(_, number, _)| number).collect();
    assert_eq!(got, [0, 1, 2], "the first one held its key up all the time");
}

#[tokio::test(start_paused = true)]
async fn a_replayed_letter_keeps_its_id_and_says_who_and_why() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let id = message("", 5).id;
    outbox.write(message("", 5)).unwrap();
    let sick = Broker { poison: Arc::new(BTreeSet::from([id])), ..Broker::new(&clock) };
    drained(&outbox, &clock, vec![relay(&outbox, &clock, sick)]).await;
    assert_eq!(buried(&outbox).await.len(), 1);

    let ann = Actor::parse("ann").unwrap();
    assert!(outbox.replay(id, ann.clone(), "receiver fixed".to_owned()).await.unwrap());
    assert!(!outbox.replay(id, ann.clone(), "again".to_owned()).await.unwrap(), "not buried now");
    let well = Broker::new(&clock);
    drained(&outbox, &clock, vec![relay(&outbox, &clock, well.clone())]).await;
    assert_eq!(well.got.all(), [(String::new(), 5, id)]);
    let replays = outbox.replays();
    assert_eq!(replays.len(), 1);
    assert_eq!(
        (replays[0].id, &replays[0].by, replays[0].reason.as_str()),
        (id, &ann, "receiver fixed")
    );
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_dies_between_send_and_ack_repeats_with_the_same_id() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    outbox.write(message("a", 1)).unwrap();
    /// Gets the message, and its confirmation never comes back.
    struct Mute(Broker);
    impl Transport for Mute {
        fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            Box::pin(async move {
                self.0.take(delivery).await?;
                std::future::pending().await
            })
        }
        fn receiver(&self, _: &Delivery) -> Option<String> {
            None
        }
    }
    let broker = Broker::new(&clock);
    let mut first =
        Box::pin(relay(&outbox, &clock, Mute(broker.clone())).run(CancellationToken::new()));
    while broker.got.all().is_empty() {
        let nap = clock.sleep(Duration::from_millis(1));
        drop(futures_util::future::select(&mut first, nap).await);
    }
    drop(first);
    assert_eq!(outbox.depth().await.unwrap().waiting, 1, "nobody knows that it arrived");
    let took = drained(&outbox, &clock, vec![relay(&outbox, &clock, broker.clone())]).await;
    assert!(took <= LEASE + SECOND * 2, "as soon as the dead relay's claim is over: {took:?}");
    let got = broker.got.all();
    assert_eq!(got.len(), 2);
    assert_eq!(got[0], got[1], "the receiver's inbox knows it");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_makes_the_broker_hang_does_not_stop_the_others() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    struct Hangs(Broker);
    impl Transport for Hangs {
        fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            Box::pin(async move {
                if number(delivery) == 0 {
                    std::future::pending::<()>().await;
                }
                self.0.take(delivery).await
            })
        }
        fn receiver(&self, _: &Delivery) -> Option<String> {
            None
        }
    }
    let broker = Broker::new(&clock);
    for number in 0..200 {
        outbox.write(message("", number)).unwrap();
    }
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(relay(&outbox, &clock, Hangs(broker.clone())).run(stop.clone()));
    clock.sleep(MINUTE).await;
    assert_eq!(broker.got.all().len(), 199);
    // Alone now, it takes the way down by itself, and what is new still goes out.
    clock.sleep(MINUTE * 30).await;
    outbox.write(message("", 200)).unwrap();
    clock.sleep(MINUTE * 3).await;
    assert_eq!(broker.got.all().len(), 200);
    stop.cancel();
    running.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_holds_up_its_own_messages_only() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    /// Webhooks: the key names the host, and `a` is down.
    struct Hooks(Broker);
    impl Transport for Hooks {
        fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            Box::pin(async move {
                if delivery.message.key == "a" {
                    self.0.asked.fetch_add(1, Ordering::SeqCst);
                    return Err(SendError::Away { why: "refused".to_owned() });
                }
                self.0.take(delivery).await
            })
        }
        fn receiver(&self, delivery: &Delivery) -> Option<String> {
            Some(delivery.message.key.clone())
        }
    }
    // A long queue for the dead host comes first; its key keeps it in order.
    let broker = Broker::new(&clock);
    for number in 0..1000 {
        outbox.write(message("a", number)).unwrap();
    }
    for number in 0..50 {
        outbox.write(message("b", number)).unwrap();
    }
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(relay(&outbox, &clock, Hooks(broker.clone())).run(stop.clone()));
    clock.sleep(SECOND * 10).await;
    assert_eq!(broker.got.all().len(), 50);
    let asked = broker.asked.load(Ordering::SeqCst);
    clock.sleep(MINUTE * 10).await;
    let probes = broker.asked.load(Ordering::SeqCst) - asked;
    assert!(probes < 60, "{probes}");
    stop.cancel();
    running.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_for_a_dead_receiver_does_not_hide_the_others() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    struct Hooks(Broker);
    impl Transport for Hooks {
        fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            Box::pin(async move {
                if number(delivery) < 4000 {
                    return Err(SendError::Away { why: "refused".to_owned() });
                }
                self.0.take(delivery).await
            })
        }
        fn receiver(&self, delivery: &Delivery) -> Option<String> {
            Some(if number(delivery) < 4000 { "dead" } else { "live" }.to_owned())
        }
    }
    let broker = Broker::new(&clock);
    for number in 0..4010 {
        outbox.write(message("", number)).unwrap();
    }
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(relay(&outbox, &clock, Hooks(broker.clone())).run(stop.clone()));
    // One look through the queue takes 6.3 s. What only waits must not come back before its end.
    clock.sleep(SECOND * 8).await;
    assert_eq!(broker.got.all().len(), 10);
    stop.cancel();
    running.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_buries_its_message_and_nothing_else() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    struct Panics(Broker);
    impl Transport for Panics {
        fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            assert!(number(delivery) != 3, "a bug that one message finds");
            Box::pin(self.0.take(delivery))
        }
        fn receiver(&self, delivery: &Delivery) -> Option<String> {
            assert!(number(delivery) != 4, "and another one");
            None
        }
    }
    let broker = Broker::new(&clock);
    for number in 0..10 {
        outbox.write(message("", number)).unwrap();
    }
    drained(&outbox, &clock, vec![relay(&outbox, &clock, Panics(broker.clone()))]).await;
    assert_eq!(broker.got.all().len(), 9);
    let dead = buried(&outbox).await;
    assert_eq!((dead.len(), dead[0].message.id), (1, message("", 3).id));
}

#[tokio::test(start_paused = true)]
async fn a_malformed_message_is_buried_at_once() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    struct Strict;
    impl Transport for Strict {
        fn send<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
            let why = "no such field".to_owned();
            Box::pin(async { Err(SendError::Malformed { why }) })
        }
        fn receiver(&self, _: &Delivery) -> Option<String> {
            None
        }
    }
    outbox.write(message("", 1)).unwrap();
    let took = drained(&outbox, &clock, vec![relay(&outbox, &clock, Strict)]).await;
    assert!(took < SECOND * 2);
    assert_eq!(buried(&outbox).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_route_is_kept_for_who_knows_one() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let other = Topic::parse("from.the.next.release").unwrap();
    outbox.write(Message { topic: other.clone(), ..message("", 1) }).unwrap();
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(relay(&outbox, &clock, Broker::new(&clock)).run(stop.clone()));
    clock.sleep(MINUTE * 60).await;
    assert_eq!(outbox.depth().await.unwrap(), Depth { waiting: 1, buried: 0, oldest: MINUTE * 60 });
    stop.cancel();
    running.join_all().await;
    let broker = Broker::new(&clock);
    let knows = Relay::new(Arc::new(outbox.clone())).clock(clock.clone());
    drained(&outbox, &clock, vec![knows.route(&[other], broker.clone())]).await;
    assert_eq!(broker.got.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_told_to_stop_finishes_what_it_sends() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let broker = Broker { takes: SECOND * 5, ..Broker::new(&clock) };
    for number in 0..100 {
        outbox.write(message("", number)).unwrap();
    }
    let stop = CancellationToken::new();
    let stopping = async {
        clock.sleep(SECOND).await;
        stop.cancel();
    };
    let relay = relay(&outbox, &clock, broker.clone()).at_once(8);
    futures_util::join!(relay.run(stop.clone()), stopping);
    assert_eq!(broker.got.all().len(), 8, "what was on its way arrived, the rest stays");
    assert_eq!(outbox.depth().await.unwrap().waiting, 92);
    assert_eq!(broker.at_once_max.load(Ordering::SeqCst), 8);
}

/// An outbox that loses every second answer, before or after the work was done.
#[derive(Clone)]
struct Shaky(MemoryOutbox, Arc<Mutex<Dice>>);

impl Shaky {
    fn through<T: Send + 'static>(
        &self,
        go: impl FnOnce() -> BoxFuture<'static, Result<T, Fault>>,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        let lost = || Fault::new(FaultKind::Unavailable, "lost");
        match self.1.lock().unwrap().below(4) {
            0 => Box::pin(async move { Err(lost()) }),
            1 => {
                let done = go();
                Box::pin(async move { done.await.and_then(|_| Err(lost())) })
            }
            _ => go(),
        }
    }
}

impl Outbox for Shaky {
    fn claim(
        &self,
        rows: u16,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Vec<Delivery>, Fault>> {
        self.through(|| self.0.claim(rows, lease))
    }
    fn ack(&self, id: MessageId, token: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        self.through(|| self.0.ack(id, token))
    }
    fn retry(
        &self,
        id: MessageId,
        token: Nonce,
        pause: Duration,
        attempts: u32,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.through(|| self.0.retry(id, token, pause, attempts))
    }
    fn bury(
        &self,
        id: MessageId,
        token: Nonce,
        burial: Burial,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.through(|| self.0.bury(id, token, burial))
    }
    fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> BoxFuture<'static, Result<Vec<Letter>, Fault>> {
        self.0.letters(which, after, rows)
    }
    fn replay(
        &self,
        id: MessageId,
        by: Actor,
        reason: String,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.0.replay(id, by, reason)
    }
    fn depth(&self) -> BoxFuture<'static, Result<Depth, Fault>> {
        self.0.depth()
    }
    fn written(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_loses_answers_loses_no_message_and_no_order() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    for number in 0..50 {
        for key in ["a", "b"] {
            outbox.write(message(key, number)).unwrap();
        }
    }
    let shaky = Shaky(outbox.clone(), Arc::new(Mutex::new(Dice::new(3))));
    let broker = Broker { refuses_one_in: 5, ..Broker::new(&clock) };
    let relays = (0..3).map(|_| {
        let relay = Relay::new(Arc::new(shaky.clone())).clock(clock.clone());
        relay.route(&[topic()], broker.clone()).tries_max(1_000)
    });
    drained(&outbox, &clock, relays.collect()).await;
    for key in ["a", "b"] {
        let mut firsts = Vec::new();
        for (_, number, _) in broker.got.all().into_iter().filter(|(of, ..)| of == key) {
            if !firsts.contains(&number) {
                firsts.push(number);
            }
        }
        assert_eq!(firsts, (0..50).collect::<Vec<_>>(), "as an inbox sees them");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_message_leaves_at_once() {
    let clock = VirtualClock::new();
    let outbox = MemoryOutbox::on(clock.clone());
    let broker = Broker::new(&clock);
    let relay = relay(&outbox, &clock, broker.clone()).period(MINUTE);
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    running.spawn(relay.run(stop.clone()));
    clock.sleep(SECOND * 7).await;
    let written_at = clock.now();
    outbox.write(message("", 1)).unwrap();
    while broker.got.all().is_empty() {
        clock.sleep(Duration::from_millis(1)).await;
    }
    assert!(clock.now().duration_since(written_at) < Duration::from_millis(20));
    stop.cancel();
    running.join_all().await;
}
