//! What every outbox must hold, case by case.

#![expect(clippy::missing_panics_doc, reason = "a case panics if its fact does not hold")]

use std::{collections::BTreeSet, future::ready, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};

use hapax_core::{
    Actor, Nonce, TestClock, Timestamp,
    message::{
        Burial, Delivery, Depth, Letter, Letters, MemoryOutbox, Message, MessageId, Outbox,
        PAYLOAD_BYTES_MAX, Topic,
    },
    store::Fault,
};

/// How often the work of a dropped call is looked for.
const LOOKS: u32 = 500;

/// Writes one message in a transaction of its own, and completes when that has committed.
pub type Write = Arc<dyn Fn(Message) -> BoxFuture<'static, ()> + Send + Sync>;

/// An outbox on trial, and the clock that judges it.
///
/// The cases count time in beats, as those of [`Subject`](crate::Subject) do.
pub trait Office: Send + Sync + 'static {
    /// The name of the outbox, for messages.
    fn name(&self) -> &str;

    /// Opens an outbox without letters, and the way to write one.
    fn open(&self) -> BoxFuture<'_, (Arc<dyn Outbox>, Write)>;

    /// Makes the clock of every outbox that was opened here move on by `span`, a whole number of
    /// beats. It may run on by itself meanwhile, but by less than one beat in one case.
    fn pass(&self, span: Duration) -> BoxFuture<'_, ()>;

    /// The unit of time, from 10 ms to 5 min.
    fn beat(&self) -> Duration;
}

/// The memory on a clock that stands still until it is moved.
#[derive(Debug)]
pub struct Memory {
    clock: Arc<TestClock>,
}

impl Memory {
    /// The memory, somewhere in 2026.
    pub fn new() -> Self {
        Self { clock: Arc::new(TestClock::at(Timestamp::from_millis(1_790_000_000_000))) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Office for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self) -> BoxFuture<'_, (Arc<dyn Outbox>, Write)> {
        let outbox = MemoryOutbox::on(Arc::clone(&self.clock) as Arc<_>);
        let inside = outbox.clone();
        let write: Write = Arc::new(move |message| {
            answered(inside.write(message));
            Box::pin(ready(()))
        });
        Box::pin(ready((Arc::new(outbox) as Arc<dyn Outbox>, write)))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.clock.advance(span);
        Box::pin(ready(()))
    }

    fn beat(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// Makes one test of every case of an outbox.
///
/// The argument is an expression that makes a fresh [`Office`](crate::outbox::Office); each test
/// evaluates it for itself.
#[macro_export]
macro_rules! outbox_suite {
    ($office:expr) => {
        $crate::outbox_suite!([$office]
            an_empty_outbox_gives_nothing
            messages_come_as_they_were_written
            the_oldest_come_first
            a_claim_is_bounded
            a_claimed_message_is_hidden_until_its_lease_ends
            an_acknowledged_message_is_gone
            claims_at_once_share_nothing
            only_the_oldest_of_a_key_is_claimed
            a_key_waits_while_its_oldest_is_tried_again
            messages_without_a_key_do_not_wait
            a_retry_waits_and_keeps_its_attempts
            a_claim_that_was_taken_over_changes_nothing
            a_late_word_counts_if_nobody_took_over
            a_burial_frees_its_key
            a_buried_message_is_shown_with_its_reason
            letters_come_in_pages
            a_replayed_message_keeps_its_id_and_place
            only_a_buried_message_is_replayed
            the_depth_counts_both_kinds
            a_message_is_written_once
            a_dropped_call_abandons_only_the_answer
            a_hint_is_only_a_hint
        );
    };
    ([$office:expr] $($case:ident)+) => {$(
        #[test]
        fn $case() {
            let office = $office;
            $crate::run($crate::outbox::$case(&office));
        }
    )+};
}

/// An outbox on trial and the words to ask it.
struct Counter<'a> {
    office: &'a dyn Office,
    outbox: Arc<dyn Outbox>,
    write: Write,
}

impl<'a> Counter<'a> {
    async fn open(office: &'a dyn Office) -> Self {
        let (outbox, write) = office.open().await;
        Self { office, outbox, write }
    }

    fn beats(&self, count: u32) -> Duration {
        self.office.beat() * count
    }

    async fn pass(&self, beats: u32) {
        self.office.pass(self.beats(beats)).await;
    }

    /// Writes messages of a key; their ids are of their names.
    async fn write(&self, key: &str, names: &[&str]) {
        for name in names {
            (self.write)(message(key, name)).await;
        }
    }

    /// Claims for two beats.
    async fn claim(&self, rows: u16) -> Vec<Delivery> {
        answered(self.outbox.claim(rows, self.beats(2)).await)
    }

    /// The names of what can be claimed now; they are then hidden for two beats.
    async fn names(&self, rows: u16) -> Vec<String> {
        self.claim(rows).await.iter().map(name).collect()
    }

    /// Claims what must be the one message that is due.
    async fn claim_one(&self) -> Delivery {
        let mut claimed = self.claim(100).await;
        assert_eq!(claimed.len(), 1, "one message is due, not {claimed:?}");
        claimed.remove(0)
    }

    async fn ack(&self, delivery: &Delivery) -> bool {
        answered(self.outbox.ack(delivery.message.id, delivery.token).await)
    }

    async fn retry(&self, delivery: &Delivery, beats: u32, attempts: u32) -> bool {
        let (id, token, pause) = (delivery.message.id, delivery.token, self.beats(beats));
        answered(self.outbox.retry(id, token, pause, attempts).await)
    }

    async fn bury(&self, delivery: &Delivery, why: &str) -> bool {
        let burial = Burial { why: why.to_owned() };
        answered(self.outbox.bury(delivery.message.id, delivery.token, burial).await)
    }

    async fn replay(&self, id: MessageId) -> bool {
        let by = Actor::parse("operator");
        let by = by.unwrap_or_else(|invalid| panic!("the suite has a bad constant: {invalid}"));
        answered(self.outbox.replay(id, by, "the receiver is well again".to_owned()).await)
    }

    async fn letters(&self, which: Letters, after: i64, rows: u16) -> Vec<Letter> {
        answered(self.outbox.letters(which, after, rows).await)
    }

    async fn depth(&self) -> Depth {
        answered(self.outbox.depth().await)
    }
}

fn answered<T>(answer: Result<T, Fault>) -> T {
    answer.unwrap_or_else(|fault| panic!("the outbox did not answer: {fault:?}"))
}

fn message(key: &str, name: &str) -> Message {
    let topic = Topic::parse("contract.told");
    Message {
        id: MessageId::of(&["contract", name]),
        topic: topic.unwrap_or_else(|invalid| panic!("the suite has a bad constant: {invalid}")),
        key: key.to_owned(),
        payload: Bytes::copy_from_slice(name.as_bytes()),
    }
}

fn name(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.payload).into_owned()
}

/// Nothing was written, nothing comes.
pub async fn an_empty_outbox_gives_nothing(office: &dyn Office) {
    let counter = Counter::open(office).await;
    assert!(counter.claim(100).await.is_empty());
    assert!(counter.letters(Letters::All, 0, 100).await.is_empty());
    assert_eq!(counter.depth().await, Depth::default());
}

/// Id, topic, key and payload are kept byte for byte.
pub async fn messages_come_as_they_were_written(office: &dyn Office) {
    let counter = Counter::open(office).await;
    let written = [
        Message { payload: Bytes::new(), ..message("", "empty") },
        Message { payload: Bytes::from_static(&[0, 0xFF, 0x80, b'\'']), ..message("", "binary") },
        Message { payload: vec![b'x'; PAYLOAD_BYTES_MAX].into(), ..message("", "largest") },
        message("Ключ '\"\\ \u{1F511}", "unicode key"),
        message(&"k".repeat(255), "longest key"),
    ];
    for message in &written {
        (counter.write)(message.clone()).await;
    }
    let claimed = counter.claim(100).await;
    let came: Vec<_> = claimed.iter().map(|delivery| delivery.message.clone()).collect();
    assert!(came == written, "not as written: {came:?}");
    assert!(claimed.iter().all(|delivery| delivery.attempts == 0));
}

/// The order of writing is the order of claiming, and the sequence says so.
pub async fn the_oldest_come_first(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "b"]).await;
    counter.write("key", &["c"]).await;
    counter.write("", &["d"]).await;
    let claimed = counter.claim(100).await;
    assert_eq!(claimed.iter().map(name).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert!(claimed.is_sorted_by(|one, next| one.sequence < next.sequence), "{claimed:?}");
}

/// No claim is larger than was asked for, and none is empty while something is due.
pub async fn a_claim_is_bounded(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "b", "c"]).await;
    assert_eq!(counter.names(2).await, ["a", "b"]);
    assert_eq!(counter.names(2).await, ["c"]);
    assert!(counter.claim(2).await.is_empty());
}

/// A relay that says nothing loses its messages when its claim is over, and not before.
pub async fn a_claimed_message_is_hidden_until_its_lease_ends(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let first = counter.claim_one().await;
    counter.pass(1).await;
    assert!(counter.claim(100).await.is_empty());
    counter.pass(1).await;
    let second = counter.claim_one().await;
    assert_eq!(second.message, first.message);
    assert_eq!((second.sequence, second.attempts), (first.sequence, 0), "a lapse is no failure");
    assert!(second.token.as_bytes() != first.token.as_bytes(), "each claim has its token");
}

/// Acknowledged is gone, and saying so again changes nothing.
pub async fn an_acknowledged_message_is_gone(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "b"]).await;
    let claimed = counter.claim(1).await;
    for delivery in &claimed {
        assert!(counter.ack(delivery).await);
        assert!(!counter.ack(delivery).await);
    }
    counter.pass(2).await;
    assert_eq!(counter.names(100).await, ["b"]);
    assert_eq!(counter.depth().await.waiting, 1);
}

/// Relays that ask at once never get the same message.
pub async fn claims_at_once_share_nothing(office: &dyn Office) {
    let counter = Counter::open(office).await;
    let names: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    counter.write("", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut seen = BTreeSet::new();
    // A claim may come back with less than it could have had, but only while others hold rows.
    for _ in 0..20 {
        for batch in join_all((0..8).map(|_| counter.claim(10))).await {
            for delivery in batch {
                assert!(seen.insert(name(&delivery)), "{delivery:?} was claimed twice");
            }
        }
    }
    assert_eq!(seen.len(), names.len());
}

/// Of each key only the oldest is given out, until it is acknowledged.
pub async fn only_the_oldest_of_a_key_is_claimed(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("k", &["k1", "k2", "k3"]).await;
    counter.write("l", &["l1", "l2"]).await;
    let claimed = counter.claim(100).await;
    assert_eq!(claimed.iter().map(name).collect::<Vec<_>>(), ["k1", "l1"]);
    assert!(counter.claim(100).await.is_empty(), "the claimed ones are still the oldest");
    for delivery in claimed.iter().filter(|delivery| name(delivery) == "k1") {
        assert!(counter.ack(delivery).await);
    }
    assert_eq!(counter.names(100).await, ["k2"]);
}

/// While the oldest of a key waits for its next try, the key waits with it.
pub async fn a_key_waits_while_its_oldest_is_tried_again(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("k", &["k1", "k2"]).await;
    let first = counter.claim_one().await;
    assert!(counter.retry(&first, 3, 1).await);
    counter.pass(2).await;
    assert!(counter.claim(100).await.is_empty());
    counter.pass(1).await;
    assert_eq!(counter.names(100).await, ["k1"]);
}

/// The empty key is no key.
pub async fn messages_without_a_key_do_not_wait(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "b"]).await;
    let first = counter.claim(1).await;
    for delivery in &first {
        assert!(counter.retry(delivery, 3, 1).await);
    }
    assert_eq!(counter.names(100).await, ["b"]);
}

/// A retry comes back after its pause with the failures on its account.
pub async fn a_retry_waits_and_keeps_its_attempts(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let first = counter.claim_one().await;
    assert!(counter.retry(&first, 3, 7).await);
    assert!(!counter.retry(&first, 0, 8).await, "the claim ended with the first word");
    counter.pass(2).await;
    assert!(counter.claim(100).await.is_empty());
    counter.pass(1).await;
    let second = counter.claim_one().await;
    assert_eq!(second.attempts, 7);
    assert!(counter.retry(&second, 0, 7).await);
    assert_eq!(counter.claim_one().await.attempts, 7, "without a pause it is due at once");
}

/// Whoever woke too late has no say any more.
pub async fn a_claim_that_was_taken_over_changes_nothing(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let late = counter.claim_one().await;
    counter.pass(2).await;
    let owner = counter.claim_one().await;
    assert!(!counter.ack(&late).await);
    assert!(!counter.retry(&late, 0, 9).await);
    assert!(!counter.bury(&late, "late").await);
    let stranger = Delivery { token: Nonce::from_bytes([0; 16]), ..owner.clone() };
    assert!(!counter.ack(&stranger).await);
    assert!(counter.claim(100).await.is_empty(), "it is still the owner's");
    assert!(counter.ack(&owner).await);
    assert_eq!(counter.depth().await, Depth::default());
}

/// A lapse permits others to take over; until one does, the late word is good.
pub async fn a_late_word_counts_if_nobody_took_over(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let late = counter.claim_one().await;
    counter.pass(3).await;
    assert!(counter.ack(&late).await);
    assert!(counter.claim(100).await.is_empty());
}

/// What is buried is not given out, and holds nobody up.
pub async fn a_burial_frees_its_key(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("k", &["k1", "k2"]).await;
    let first = counter.claim_one().await;
    assert!(counter.bury(&first, "poison").await);
    assert!(!counter.bury(&first, "again").await);
    assert_eq!(counter.names(100).await, ["k2"]);
    counter.pass(9).await;
    assert_eq!(counter.names(100).await, ["k2"], "time raises nobody");
}

/// An operator sees what was buried, when it was written, how often it failed, and why.
pub async fn a_buried_message_is_shown_with_its_reason(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("k", &["k1", "k2"]).await;
    let first = counter.claim_one().await;
    counter.retry(&first, 0, 11).await;
    let last = counter.claim_one().await;
    let why = "Ошибка 'quoted' \"twice\"";
    assert!(counter.bury(&last, why).await);
    let [letter] = &counter.letters(Letters::Buried, 0, 100).await[..] else {
        panic!("one is buried")
    };
    assert_eq!(letter.message, last.message);
    assert_eq!((letter.sequence, letter.created_at), (last.sequence, first.created_at));
    assert_eq!(letter.attempts, 11);
    assert_eq!(letter.buried, Some(Burial { why: why.to_owned() }));
}

/// Letters are listed in order of their sequence, each once, page by page.
pub async fn letters_come_in_pages(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "b", "c", "d", "e"]).await;
    for delivery in counter.claim(100).await {
        if matches!(name(&delivery).as_str(), "b" | "d") {
            assert!(counter.bury(&delivery, "poison").await);
        }
    }
    for (which, expected) in
        [(Letters::All, &["a", "b", "c", "d", "e"][..]), (Letters::Buried, &["b", "d"])]
    {
        let (mut after, mut listed) = (0, Vec::new());
        loop {
            let page = counter.letters(which, after, 2).await;
            assert!(page.len() <= 2, "a page keeps its limit");
            let Some(last) = page.last() else { break };
            after = last.sequence;
            let names = page.iter().map(|letter| letter.message.payload.clone());
            listed.extend(names.map(|payload| String::from_utf8_lossy(&payload).into_owned()));
        }
        assert_eq!(listed, expected, "{which:?}");
    }
}

/// A replayed message is the same message: the receiver's inbox knows it. It stands where it
/// stood, before the later ones of its key, and has all its tries again.
pub async fn a_replayed_message_keeps_its_id_and_place(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("k", &["k1", "k2", "k3"]).await;
    let first = counter.claim_one().await;
    counter.bury(&first, "poison").await;
    let second = counter.claim_one().await;
    assert!(counter.replay(first.message.id).await);
    assert!(counter.ack(&second).await);
    let again = counter.claim_one().await;
    assert_eq!(again.message, first.message);
    assert_eq!((again.sequence, again.attempts), (first.sequence, 0));
    assert!(counter.letters(Letters::Buried, 0, 100).await.is_empty());
    assert!(counter.ack(&again).await);
    assert_eq!(counter.names(100).await, ["k3"]);
}

/// What is on its way, gone or unknown is not sent again by hand.
pub async fn only_a_buried_message_is_replayed(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let id = message("", "a").id;
    assert!(!counter.replay(id).await, "it is on its way");
    let delivery = counter.claim_one().await;
    assert!(!counter.replay(id).await, "it is being sent");
    assert!(counter.ack(&delivery).await);
    assert!(!counter.replay(id).await, "it is gone");
    assert!(counter.claim(100).await.is_empty());
}

/// The depth counts what waits and what is buried, and how old the oldest waiting one is.
pub async fn the_depth_counts_both_kinds(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let first = counter.claim_one().await;
    counter.bury(&first, "poison").await;
    counter.pass(5).await;
    counter.write("", &["b"]).await;
    counter.pass(2).await;
    counter.write("", &["c"]).await;
    counter.claim(1).await;
    let depth = counter.depth().await;
    assert_eq!((depth.waiting, depth.buried), (2, 1), "a claimed one still waits");
    let oldest = depth.oldest;
    assert!(oldest >= counter.beats(2) && oldest < counter.beats(3), "{oldest:?}");
}

/// The same fact is the same message, while it is on its way and while it is buried.
pub async fn a_message_is_written_once(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a", "a"]).await;
    let delivery = counter.claim_one().await;
    counter.write("", &["a"]).await;
    assert!(counter.claim(100).await.is_empty());
    counter.bury(&delivery, "poison").await;
    counter.write("", &["a"]).await;
    assert!(counter.claim(100).await.is_empty());
    assert_eq!(counter.letters(Letters::All, 0, 100).await.len(), 1);
}

/// The work of a call begins with the call.
pub async fn a_dropped_call_abandons_only_the_answer(office: &dyn Office) {
    let counter = Counter::open(office).await;
    counter.write("", &["a"]).await;
    let delivery = counter.claim_one().await;
    drop(counter.outbox.ack(delivery.message.id, delivery.token));
    for _ in 0..LOOKS {
        if counter.depth().await.waiting == 0 {
            return;
        }
        tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await.ok();
    }
    panic!("a dropped acknowledgement was never seen");
}

/// Hints may come or not; waiting for one takes nothing from anybody.
pub async fn a_hint_is_only_a_hint(office: &dyn Office) {
    let counter = Counter::open(office).await;
    let (early, dropped) = (counter.outbox.written(), counter.outbox.written());
    drop(dropped);
    counter.write("", &["a"]).await;
    for hint in [early, counter.outbox.written()] {
        tokio::time::timeout(Duration::from_millis(20), hint).await.ok();
    }
    assert_eq!(counter.names(100).await, ["a"]);
}
