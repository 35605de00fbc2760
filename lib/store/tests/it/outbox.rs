//! Messages that leave with a transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    engine::{Deed, Engine, blunder, on_each_engine},
    stage::{Stage, actor, nonce},
};
use hapax_core::message::{Burial, Delivery, Letters, Message, MessageId, Outbox, Topic};
use hapax_store::{Error, Kind, Sql, Tx};

on_each_engine! {
    a_message_leaves_only_if_its_transaction_commits
    the_same_fact_is_the_same_message
    a_message_over_its_bounds_is_refused
    of_each_key_only_the_head_is_claimed
    a_retry_waits_and_keeps_its_place
    a_lapsed_claim_cannot_acknowledge
    a_buried_message_blocks_nobody_and_can_be_replayed
    letters_come_page_by_page
    a_sequence_is_never_used_again
    messages_of_a_key_leave_in_order
    an_errand_that_fails_harms_no_other
    old_letters_go_and_living_ones_stay
}

const LEASE: Duration = Duration::from_secs(30);

fn message(key: &str, serial: u32) -> Message {
    Message {
        id: MessageId::of(&[key, &serial.to_string()]),
        topic: Topic::parse("order.paid").unwrap(),
        key: key.to_owned(),
        payload: Bytes::from(serial.to_string()),
    }
}

async fn send<E: Engine>(sql: &Sql<E>, messages: Vec<Message>) {
    let outbox = sql.clone();
    sql.write("send", async move |mut tx: Tx<E>| {
        for message in &messages {
            outbox.send(&mut tx, message).await?;
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

async fn claim<E: Engine>(sql: &Sql<E>, rows: u16) -> Vec<Delivery> {
    sql.claim(rows, LEASE).await.unwrap()
}

fn payloads(deliveries: &[Delivery]) -> Vec<&[u8]> {
    deliveries.iter().map(|delivery| &delivery.message.payload[..]).collect()
}

async fn a_message_leaves_only_if_its_transaction_commits<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let outbox = stage.sql.clone();
    let failed = stage.sql.write("failed", async move |mut tx: Tx<E>| {
        outbox.send(&mut tx, &message("k", 1)).await?;
        blunder::<E>(&mut tx).await?;
        Ok::<_, Error>(())
    });
    failed.await.unwrap_err();
    assert!(claim(&stage.sql, 10).await.is_empty());
    let written = stage.sql.written();
    send(&stage.sql, vec![message("k", 1)]).await;
    tokio::time::timeout(Duration::from_secs(5), written).await.expect("a hint comes");
    assert_eq!(payloads(&claim(&stage.sql, 10).await), [b"1"]);
}

async fn the_same_fact_is_the_same_message<E: Engine>() {
    let stage = Stage::<E>::set().await;
    send(&stage.sql, vec![message("k", 1), message("k", 1)]).await;
    send(&stage.sql, vec![message("k", 1)]).await;
    let depth = stage.sql.depth().await.unwrap();
    assert_eq!((depth.waiting, depth.buried), (1, 0));
}

async fn a_message_over_its_bounds_is_refused<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let long_key = Message { key: "k".repeat(256), ..message("k", 1) };
    let large = Message { payload: Bytes::from(vec![0; 256 * 1024 + 1]), ..message("k", 2) };
    for bad in [long_key, large] {
        let outbox = stage.sql.clone();
        let refused =
            stage.sql.write("refused", async move |mut tx: Tx<E>| outbox.send(&mut tx, &bad).await);
        assert_eq!(refused.await.unwrap_err().kind(), Kind::Invalid);
    }
}

async fn of_each_key_only_the_head_is_claimed<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let messages = [("a", 1), ("a", 2), ("b", 3), ("", 4), ("", 5), ("b", 6)];
    send(&stage.sql, messages.map(|(key, serial)| message(key, serial)).into()).await;
    let first = claim(&stage.sql, 10).await;
    assert_eq!(payloads(&first), [b"1", b"3", b"4", b"5"]);
    assert!(claim(&stage.sql, 10).await.is_empty(), "the heads are out");
    let head = &first[0];
    assert!(stage.sql.ack(head.message.id, head.token).await.unwrap());
    assert_eq!(payloads(&claim(&stage.sql, 10).await), [b"2"]);
}

async fn a_retry_waits_and_keeps_its_place<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    stage.pass(Duration::from_secs(100_000)).await;
    send(&stage.sql, vec![message("a", 1), message("a", 2)]).await;
    let head = claim(&stage.sql, 10).await.remove(0);
    let pause = Duration::from_secs(60);
    assert!(stage.sql.retry(head.message.id, head.token, pause, 3).await.unwrap());
    assert!(!stage.sql.ack(head.message.id, head.token).await.unwrap(), "the token is spent");
    assert!(claim(&stage.sql, 10).await.is_empty(), "the second waits for the first");
    stage.pass(pause).await;
    let again = claim(&stage.sql, 10).await;
    assert_eq!(payloads(&again), [b"1"]);
    assert_eq!((again[0].attempts, again[0].sequence), (3, head.sequence));
}

async fn a_lapsed_claim_cannot_acknowledge<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    send(&stage.sql, vec![message("a", 1)]).await;
    let slow = claim(&stage.sql, 10).await.remove(0);
    stage.pass(LEASE).await;
    let quick = claim(&stage.sql, 10).await.remove(0);
    assert_ne!(slow.token, quick.token);
    let id = slow.message.id;
    assert!(!stage.sql.ack(id, slow.token).await.unwrap());
    let burial = Burial { why: "slow".to_owned() };
    assert!(!stage.sql.bury(id, slow.token, burial).await.unwrap());
    assert!(!stage.sql.retry(id, slow.token, LEASE, 1).await.unwrap());
    assert!(stage.sql.ack(id, quick.token).await.unwrap());
    assert_eq!(stage.sql.depth().await.unwrap().waiting, 0);
}

async fn a_buried_message_blocks_nobody_and_can_be_replayed<E: Engine>() {
    let stage = Stage::<E>::set().await;
    send(&stage.sql, vec![message("a", 1), message("a", 2)]).await;
    let head = claim(&stage.sql, 10).await.remove(0);
    let burial = Burial { why: "400 bad request".to_owned() };
    assert!(stage.sql.bury(head.message.id, head.token, burial.clone()).await.unwrap());
    let next = claim(&stage.sql, 10).await.remove(0);
    assert_eq!(&next.message.payload[..], b"2");
    assert!(stage.sql.ack(next.message.id, next.token).await.unwrap());

    let letters = stage.sql.letters(Letters::Buried, 0, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].message.id, letters[0].buried.clone()), (head.message.id, Some(burial)));
    let unknown = MessageId::of(&["nobody"]);
    assert!(stage.sql.letter(unknown).await.unwrap().is_none());
    let letter = stage.sql.letter(head.message.id).await.unwrap().unwrap();
    assert_eq!((letter.message, letter.buried), (head.message.clone(), letters[0].buried.clone()));
    let by = actor("operator");
    assert!(!stage.sql.replay(unknown, by.clone(), "typo".to_owned()).await.unwrap());
    let reason = "receiver was fixed".to_owned();
    assert!(stage.sql.replay(head.message.id, by.clone(), reason.clone()).await.unwrap());
    assert!(!stage.sql.replay(head.message.id, by.clone(), reason.clone()).await.unwrap());
    let again = claim(&stage.sql, 10).await.remove(0);
    assert_eq!((again.message.id, again.sequence), (head.message.id, head.sequence));

    let handlings = stage.sql.handlings(head.message.id).await.unwrap();
    let told: Vec<_> = handlings
        .iter()
        .map(|line| (line.event.as_str(), line.actor.as_str(), line.reason.as_str()))
        .collect();
    let buried = ("buried", "relay", "400 bad request");
    assert_eq!(told, [buried, ("replayed", "operator", reason.as_str())]);
}

async fn letters_come_page_by_page<E: Engine>() {
    let stage = Stage::<E>::set().await;
    send(&stage.sql, (0..25).map(|serial| message("", serial)).collect()).await;
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = stage.sql.letters(Letters::All, after, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.sequence;
        seen.extend(page.into_iter().map(|letter| letter.message.id));
    }
    assert_eq!(seen, (0..25).map(|serial| message("", serial).id).collect::<Vec<_>>());
}

async fn a_sequence_is_never_used_again<E: Engine>() {
    let stage = Stage::<E>::set().await;
    send(&stage.sql, vec![message("a", 1)]).await;
    let first = claim(&stage.sql, 10).await.remove(0);
    stage.sql.ack(first.message.id, first.token).await.unwrap();
    send(&stage.sql, vec![message("a", 2)]).await;
    let second = claim(&stage.sql, 10).await.remove(0);
    assert!(second.sequence > first.sequence, "receivers compare sequences");
}

async fn messages_of_a_key_leave_in_order<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let messages = (0..120).map(|serial| message(&format!("key {}", serial % 7), serial));
    send(&stage.sql, messages.collect()).await;
    let sent: Arc<Mutex<BTreeMap<String, Vec<u32>>>> = Arc::default();
    let mut relays = JoinSet::new();
    for relay in 0..4 {
        // Two of the relays are in another process, as far as the file can tell.
        let sql = if relay % 2 == 0 { stage.sql.clone() } else { stage.other().await };
        let sent = Arc::clone(&sent);
        relays.spawn(async move {
            while sql.depth().await.unwrap().waiting > 0 {
                for delivery in claim(&sql, 3).await {
                    let serial = std::str::from_utf8(&delivery.message.payload).unwrap();
                    let serial = serial.parse().unwrap();
                    let key = delivery.message.key.clone();
                    sent.lock().unwrap().entry(key).or_default().push(serial);
                    tokio::task::yield_now().await;
                    assert!(sql.ack(delivery.message.id, delivery.token).await.unwrap());
                }
            }
        });
    }
    while let Some(relay) = relays.join_next().await {
        relay.unwrap();
    }
    let sent = sent.lock().unwrap();
    for (key, serials) in &*sent {
        assert!(serials.is_sorted(), "{key}: {serials:?}");
    }
    let all: BTreeSet<u32> = sent.values().flatten().copied().collect();
    let count: usize = sent.values().map(Vec::len).sum();
    assert_eq!((all.len(), count), (120, 120), "each once");
}

async fn an_errand_that_fails_harms_no_other<E: Engine>() {
    let stage = Stage::<E>::set().await;
    send(&stage.sql, (0..20).map(|serial| message("", serial)).collect()).await;
    let seven = format!("old.payload = {}", E::octets(b"7"));
    stage.execute(&E::refusal(Deed::Delete, "hapax_outbox", &seven)).await;
    let deliveries = claim(&stage.sql, 100).await;
    let acks = deliveries.iter().map(|delivery| {
        let ack = stage.sql.ack(delivery.message.id, delivery.token);
        async move { (&delivery.message.payload[..] == b"7", ack.await) }
    });
    for (is_poison, acked) in futures_util::future::join_all(acks).await {
        assert_eq!(acked.is_err(), is_poison, "{acked:?}");
    }
    assert_eq!(stage.sql.depth().await.unwrap().waiting, 1);
    let unknown = stage.sql.ack(MessageId::of(&["nobody"]), nonce(1)).await;
    assert!(matches!(unknown, Ok(false)), "{unknown:?}");
}

async fn old_letters_go_and_living_ones_stay<E: Engine>() {
    use hapax_core::purge::Purge;

    let stage = Stage::<E>::set().await.with_clock().await;
    send(&stage.sql, vec![message("", 1), message("", 2)]).await;
    let buried = claim(&stage.sql, 1).await.remove(0);
    let burial = Burial { why: "gone".to_owned() };
    stage.sql.bury(buried.message.id, buried.token, burial).await.unwrap();
    let week = Duration::from_secs(7 * 24 * 3600);
    assert_eq!(stage.sql.old_letters(week).purge(100).await.unwrap(), 0);
    stage.pass(week).await;
    assert_eq!(stage.sql.old_letters(week).purge(100).await.unwrap(), 1);
    let left = stage.sql.letters(Letters::All, 0, 10).await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(stage.sql.handlings(buried.message.id).await.unwrap().is_empty());
}
