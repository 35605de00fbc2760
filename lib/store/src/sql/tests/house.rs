//! Facts about statements that no contract and no pure rule speaks of.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    ground::Ground,
    mutants::{BEAT, Bent, Sites},
};
use crate::{
    error::{Error, Kind},
    sql::{
        Dialect, Sql, Tx,
        dialect::{Bind, Verbs},
    },
};
use hapax_core::{
    Actor, BusinessKey, Effect, Identity, Nonce, OperationName, Prints, Tenant,
    lock::{Hold, LockName, Locks},
    machine::Transition,
    message::{Burial, Horizon, Letters, Message, MessageId, Outbox, Received, Topic, Window},
    purge::Purge,
    store::{Answer, Claim, Scan, Step, Store},
};

/// A statement waits for a lock for at least a second: what is faster did not wait.
const AT_ONCE: Duration = Duration::from_millis(700);

fn lock(object: &str) -> LockName {
    LockName::of(&Tenant::parse("shop").unwrap(), "order", object)
}

fn nonce(serial: u8) -> Nonce {
    Nonce::from_bytes([serial; 16])
}

fn message(key: &str, serial: u32) -> Message {
    Message {
        id: MessageId::of(&[key, &serial.to_string()]),
        topic: Topic::parse("order.paid").unwrap(),
        key: key.to_owned(),
        payload: Bytes::from(serial.to_string()),
    }
}

async fn send<D: Dialect>(sql: &Sql<D>, messages: Vec<Message>) {
    let outbox = sql.clone();
    let sent = sql.write("send", async move |mut tx: Tx<D>| {
        for message in &messages {
            outbox.send(&mut tx, message).await?;
        }
        Ok::<_, Error>(())
    });
    sent.await.unwrap();
}

pub(super) async fn locks_do_not_meet<G: Ground>(sites: &Sites<G>) {
    let locks = sites.set().await;
    for (object, owner) in [("1", 1), ("2", 2)] {
        let hold = locks.acquire(lock(object), nonce(owner), BEAT).await.unwrap();
        assert!(matches!(hold, Hold::Mine { .. }), "another object is another lock");
    }
    assert!(locks.release(lock("1"), nonce(1)).await.unwrap());
    let kept = locks.renew(lock("2"), nonce(2), BEAT).await.unwrap();
    assert!(matches!(kept, Hold::Mine { .. }), "the release of one is not that of another");
    let taken = locks.acquire(lock("2"), nonce(3), BEAT).await.unwrap();
    assert!(matches!(taken, Hold::Taken { .. }));
    // Also where one owner holds both.
    for object in ["3", "4"] {
        locks.acquire(lock(object), nonce(4), BEAT).await.unwrap();
    }
    locks.renew(lock("3"), nonce(4), BEAT * 10).await.unwrap();
    assert!(locks.release(lock("3"), nonce(4)).await.unwrap());
    let kept = locks.renew(lock("4"), nonce(4), BEAT).await.unwrap();
    assert!(matches!(kept, Hold::Mine { .. }), "the release of one is not that of the other");
    locks.acquire(lock("3"), nonce(4), BEAT).await.unwrap();
    locks.renew(lock("3"), nonce(4), BEAT * 10).await.unwrap();
    sites.move_on(BEAT * 2).await;
    let free = locks.acquire(lock("4"), nonce(5), BEAT).await.unwrap();
    assert!(matches!(free, Hold::Mine { .. }), "the renewal of one is not that of the other");
}

pub(super) async fn a_lapsed_lock_is_not_given_back<G: Ground>(sites: &Sites<G>) {
    let locks = sites.set().await;
    locks.acquire(lock("1"), nonce(1), BEAT).await.unwrap();
    sites.move_on(BEAT).await;
    assert!(!locks.release(lock("1"), nonce(1)).await.unwrap(), "a purge may have taken it away");
}

pub(super) async fn a_lapsed_lock_has_one_heir<G: Ground>(sites: &Sites<G>) {
    let locks = sites.set().await;
    locks.acquire(lock("1"), nonce(1), BEAT).await.unwrap();
    sites.move_on(BEAT).await;
    let heirs = (2..10).map(|owner| locks.acquire(lock("1"), nonce(owner), BEAT));
    let heirs = futures_util::future::join_all(heirs).await;
    let mine = heirs.iter().filter(|hold| matches!(hold, Ok(Hold::Mine { .. }))).count();
    assert_eq!(mine, 1, "{heirs:?}");
}

pub(super) async fn a_purge_leaves_locks_that_matter<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    sql.acquire(lock("held"), nonce(1), BEAT * 2).await.unwrap();
    sql.acquire(lock("free"), nonce(2), BEAT).await.unwrap();
    // Its fence is ahead of the clock: without the row the next one would not rise.
    for owner in 3..6 {
        sql.acquire(lock("rising"), nonce(owner), Duration::from_millis(1)).await.unwrap();
        sql.release(lock("rising"), nonce(owner)).await.unwrap();
    }
    let purge = sql.old_locks();
    assert_eq!(purge.purge(10).await.unwrap(), 0, "all are held, or their fence is not past");
    sites.move_on(BEAT).await;
    assert_eq!(purge.purge(10).await.unwrap(), 2);
    let kept = sql.renew(lock("held"), nonce(1), BEAT).await.unwrap();
    assert!(matches!(kept, Hold::Mine { .. }), "a held lock stays");
}

pub(super) async fn letters_are_listed_page_by_page<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, (0..5).map(|serial| message("", serial)).collect()).await;
    let all = sql.letters(Letters::All, 0, 10).await.unwrap();
    assert_eq!(all.len(), 5);
    for letter in &all {
        let found = sql.letter(letter.message.id).await.unwrap().unwrap();
        assert_eq!(found.message, letter.message);
    }
    let rest = sql.letters(Letters::All, all[2].sequence, 10).await.unwrap();
    assert_eq!(rest.len(), 2, "a page goes on where the last one ended");
    assert!(sql.letters(Letters::Buried, 0, 10).await.unwrap().is_empty());
    for claimed in sql.claim(3, BEAT).await.unwrap() {
        let burial = Burial { why: "bad".to_owned() };
        assert!(sql.bury(claimed.message.id, claimed.token, burial).await.unwrap());
    }
    let buried = sql.letters(Letters::Buried, 0, 10).await.unwrap();
    assert_eq!(buried.len(), 3);
    let rest = sql.letters(Letters::Buried, buried[0].sequence, 10).await.unwrap();
    assert_eq!(rest.len(), 2);
    let depth = sql.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.buried), (2, 3));
    assert_eq!(depth.oldest, Duration::ZERO);
    sites.move_on(BEAT).await;
    assert_eq!(sql.depth().await.unwrap().oldest, BEAT);
    // The buried ones grow older, and are waited for by nobody.
    for letter in sql.claim(10, BEAT).await.unwrap() {
        assert!(sql.ack(letter.message.id, letter.token).await.unwrap());
    }
    send(&sql, vec![message("", 9)]).await;
    assert_eq!(sql.depth().await.unwrap().oldest, Duration::ZERO);
}

pub(super) async fn a_message_is_sent_once<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, vec![message("k", 1)]).await;
    send(&sql, vec![message("k", 1)]).await;
    assert_eq!(sql.letters(Letters::All, 0, 10).await.unwrap().len(), 1);
    let later = sql.clone();
    let sent = sql.write("later", async move |mut tx: Tx<Bent<G>>| {
        later.send_after(&mut tx, &message("later", 2), BEAT).await
    });
    sent.await.unwrap();
    assert_eq!(sql.claim(10, BEAT).await.unwrap().len(), 1, "the other one is not due");
    assert!(sql.claim(10, BEAT).await.unwrap().is_empty(), "it is out");
}

pub(super) async fn what_is_handled_is_told_once<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, (1..7).map(|serial| message("", serial)).collect()).await;
    let claimed = sql.claim(10, BEAT).await.unwrap();
    let burial = || Burial { why: "bad".to_owned() };
    let by = || Actor::parse("operator").unwrap();
    let (id, token) = (claimed[0].message.id, claimed[0].token);
    // With others beside them, whose changes commit.
    let wrong: Vec<_> = (0..4).map(|_| sql.bury(id, nonce(9), burial())).collect();
    let early: Vec<_> = (0..4).map(|_| sql.replay(id, by(), "why".to_owned())).collect();
    let right: Vec<_> = claimed[4..].iter().map(|it| sql.ack(it.message.id, it.token)).collect();
    for done in futures_util::future::join_all(wrong.into_iter().chain(early)).await {
        assert!(!done.unwrap(), "not with another's token, and not while it lives");
    }
    for done in futures_util::future::join_all(right).await {
        assert!(done.unwrap());
    }
    assert!(sql.handlings(id).await.unwrap().is_empty(), "what was refused is not told");
    // One of them is retried, two are buried, one of those is replayed.
    assert!(sql.retry(claimed[3].message.id, token, BEAT, 1).await.unwrap());
    assert!(sql.bury(id, token, burial()).await.unwrap(), "the claim of the others stands");
    assert!(sql.bury(claimed[1].message.id, token, burial()).await.unwrap());
    assert!(sql.replay(id, by(), "why".to_owned()).await.unwrap());
    let buried = sql.letters(Letters::Buried, 0, 10).await.unwrap();
    assert_eq!(buried.len(), 1, "the other one stays where it is");
    let told: Vec<_> = sql.handlings(id).await.unwrap();
    let told: Vec<_> = told.iter().map(|line| line.event.as_str()).collect();
    assert_eq!(told, ["buried", "replayed"]);
    let other = sql.handlings(claimed[1].message.id).await.unwrap();
    assert_eq!(other.len(), 1, "nobody replayed the other one: {other:?}");
    assert!(sql.handlings(claimed[2].message.id).await.unwrap().is_empty(), "nobody handled it");
}

pub(super) async fn a_relay_that_finds_nothing_writes_nothing<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    let later = sql.clone();
    let sent = sql.write("later", async move |mut tx: Tx<Bent<G>>| {
        later.send_after(&mut tx, &message("later", 1), BEAT).await
    });
    sent.await.unwrap();
    let due = async || {
        let rows = Bent::<G>::read(sql.readers(), G::OUTBOX_DUE, Vec::new()).await.unwrap();
        !rows.is_empty()
    };
    assert!(!due().await, "it asks before it claims");
    sites.move_on(BEAT).await;
    assert!(due().await);
}

pub(super) async fn a_purge_leaves_letters_that_matter<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, vec![message("old", 1)]).await;
    let old = sql.claim(10, BEAT).await.unwrap().remove(0);
    sql.bury(old.message.id, old.token, Burial { why: "bad".to_owned() }).await.unwrap();
    send(&sql, vec![message("living", 2)]).await;
    sites.move_on(BEAT * 2).await;
    send(&sql, vec![message("young", 3)]).await;
    let claimed = sql.claim(10, BEAT).await.unwrap();
    let young = claimed.into_iter().find(|letter| letter.message.key == "young").unwrap();
    sql.bury(young.message.id, young.token, Burial { why: "bad".to_owned() }).await.unwrap();
    assert_eq!(sql.old_letters(BEAT).purge(1).await.unwrap(), 1, "the buried one that is old");
    assert_eq!(sql.old_letters(BEAT).purge(10).await.unwrap(), 0);
    assert!(sql.handlings(old.message.id).await.unwrap().is_empty());
    assert_eq!(sql.handlings(young.message.id).await.unwrap().len(), 1);
    let left = sql.letters(Letters::All, 0, 10).await.unwrap();
    let left: Vec<_> = left.iter().map(|letter| letter.message.key.as_str()).collect();
    assert_eq!(left, ["living", "young"]);
    // As many lines as are asked for, from the old end.
    for serial in 10..14 {
        send(&sql, vec![message("more", serial)]).await;
    }
    sites.move_on(BEAT * 2).await;
    for letter in sql.claim(10, BEAT).await.unwrap() {
        sql.bury(letter.message.id, letter.token, Burial { why: "bad".to_owned() }).await.unwrap();
    }
    sites.move_on(BEAT * 2).await;
    assert!(sql.old_letters(BEAT).purge(2).await.unwrap() <= 2, "a purge is bounded");
}

pub(super) async fn claims_at_once_share_no_letter<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, (0..40).map(|serial| message("", serial)).collect()).await;
    let relays = (0..8).map(|_| sql.claim(20, BEAT));
    let mut claimed = Vec::new();
    for relay in futures_util::future::join_all(relays).await {
        claimed.extend(relay.unwrap().into_iter().map(|letter| letter.sequence));
    }
    let all = claimed.len();
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), all, "a letter has one claim");
}

/// Locks every row of a table in a transaction of somebody else, while `work` goes on.
async fn while_locked<D: Dialect, T>(
    sql: &Sql<D>,
    table: &'static str,
    work: impl AsyncFnOnce() -> T,
) -> Option<T> {
    if !D::COMMITS_EACH {
        // One writer: nothing is locked but all of it.
        return Some(work().await);
    }
    let mut tx = sql.begin("somebody").await.unwrap();
    D::fetch(&mut tx, table, Vec::<Bind>::new()).await.unwrap();
    let done = tokio::time::timeout(AT_ONCE, work()).await.ok();
    sql.rollback(tx).await;
    done
}

pub(super) async fn a_letter_that_is_locked_holds_up_no_other<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    send(&sql, vec![message("", 1)]).await;
    let text = "SELECT sequence FROM hapax_outbox FOR UPDATE";
    // A call begins with the call, not with its first poll.
    let claimed = while_locked(&sql, text, async || sql.claim(10, BEAT).await.unwrap()).await;
    let claimed = claimed.expect("it did not wait");
    assert_eq!(claimed.len(), usize::from(!G::COMMITS_EACH), "a locked one is left out");
}

pub(super) async fn a_record_that_is_locked_holds_up_no_claim<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    for key in ["dead", "open"] {
        let answer = take(&sql, claim("a", key, 1)).await;
        let Answer::Granted(grant) = answer else { panic!("{answer:?}") };
        if key == "open" {
            let claim = claim("a", key, 1);
            let fence = hapax_core::Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce };
            let released = take_step(&sql, Step::Release { fence, memory: BEAT }).await;
            assert!(matches!(released, Answer::Applied { .. }));
        }
    }
    sites.move_on(BEAT * 2).await;
    for key in ["dead", "open"] {
        let text = "SELECT id FROM hapax_records FOR UPDATE";
        let work = async || take(&sql, claim("a", key, 2)).await;
        let answer = while_locked(&sql, text, work).await.expect("it did not wait");
        let is_found = matches!(answer, Answer::Found(_));
        assert_eq!(is_found, G::COMMITS_EACH, "{key}: {answer:?}");
    }
}

fn claim(operation: &str, key: &str, serial: u8) -> Claim {
    let operation = OperationName::parse(operation).unwrap();
    let key = BusinessKey::of(&[key]).unwrap();
    let identity = Identity::business(Tenant::parse("shop").unwrap(), operation, key);
    Claim {
        id: identity.id(),
        identity,
        nonce: nonce(serial),
        prints: Prints::NONE,
        lease: BEAT,
        effect: Effect::Transactional,
        attempts_max: 5,
        caller: Actor::parse("worker").unwrap(),
    }
}

async fn take_step<D: Dialect>(sql: &Sql<D>, step: Step) -> Answer {
    sql.apply(vec![step]).await.remove(0)
}

async fn take<D: Dialect>(sql: &Sql<D>, claim: Claim) -> Answer {
    take_step(sql, Step::Claim(Arc::new(claim))).await
}

pub(super) async fn pages_are_of_their_operation<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    for (operation, key) in [("a", "1"), ("a", "2"), ("b", "3")] {
        take(&sql, claim(operation, key, 1)).await;
    }
    for (operation, count) in [("a", 2), ("b", 1)] {
        let operation = Some(OperationName::parse(operation).unwrap());
        let scan = Scan { operation, status: None, after: None, limit: 10 };
        assert_eq!(sql.scan(scan).await.unwrap().records.len(), count);
    }
}

pub(super) async fn a_message_is_first_until_its_window_is_over<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    let receive = async |consumer: &'static str, message: &'static str| {
        let inbox = sql.clone();
        let received = sql.write("receive", async move |mut tx: Tx<Bent<G>>| {
            inbox.once(&mut tx, consumer, MessageId::of(&[message])).await
        });
        received.await.unwrap()
    };
    assert_eq!(receive("a", "1").await, Received::First);
    assert_eq!(receive("a", "1").await, Received::Repeat);
    assert_eq!(receive("b", "1").await, Received::First);
    assert_eq!(receive("a", "2").await, Received::First);
    let none = Horizon { retries: BEAT, outage: Duration::ZERO, replay: Duration::ZERO };
    let old = sql.old_inbox(Window::new(BEAT, none).unwrap());
    assert_eq!(old.purge(10).await.unwrap(), 0);
    sites.move_on(BEAT).await;
    assert_eq!(receive("c", "1").await, Received::First);
    assert_eq!(old.purge(10).await.unwrap(), 3);
    assert_eq!(receive("c", "1").await, Received::Repeat, "it is young");
}

pub(super) async fn moves_are_told_of_their_entity<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    let go = async |kind: &'static str, entity: &'static str, version: i64| {
        let journal = sql.clone();
        let moved = sql.write("move", async move |mut tx: Tx<Bent<G>>| {
            let entity = entity.to_owned();
            let moved = Transition { kind, entity, version, from: "a", to: "b", event: "moved" };
            journal.transition(&mut tx, &moved, &Actor::parse("worker").unwrap()).await
        });
        moved.await
    };
    for (kind, entity) in [("order", "1"), ("order", "2"), ("ticket", "1")] {
        for version in 1..4 {
            go(kind, entity, version).await.unwrap();
        }
    }
    let again = go("order", "1", 2).await.unwrap_err();
    assert_eq!(again.kind(), Kind::Fenced, "a version is left once");
    let count = async |kind, entity, from| sql.moves(kind, entity, from, 10).await.unwrap().len();
    assert_eq!(count("order", "1", 0).await, 3);
    assert_eq!(count("ticket", "1", 0).await, 3);
    assert_eq!(count("order", "2", 3).await, 1);
    assert_eq!(count("ticket", "2", 0).await, 0);
}

pub(super) async fn a_purge_leaves_young_lines<G: Ground>(sites: &Sites<G>) {
    let sql = sites.set().await;
    let old = claim("a", "old", 1);
    take(&sql, old.clone()).await;
    sites.move_on(BEAT * 2).await;
    let young = claim("a", "young", 1);
    take(&sql, young.clone()).await;
    assert_eq!(sql.old_journal(BEAT).purge(10).await.unwrap(), 1);
    assert!(sql.history(old.id).await.unwrap().is_empty());
    assert_eq!(sql.history(young.id).await.unwrap().len(), 1);
    for key in ["1", "2", "3", "4"] {
        take(&sql, claim("a", key, 1)).await;
    }
    sites.move_on(BEAT * 2).await;
    assert!(sql.old_journal(BEAT).purge(2).await.unwrap() <= 2, "a purge is bounded");
}
