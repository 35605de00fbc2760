//! What is kept under which key, and for how long.

use std::time::Duration;

use crate::stage::{
    self, LEASE, ask, claim, complete, hold, key_of, look, namespace, record, tell, value,
};
use hapax_core::{
    Epoch, Fence, Retention,
    store::{Answer, Scan, Step, Store},
};
use hapax_store::redis::RedisStore;

/// A key outlives its record's horizon by this.
const SLACK_MS: i64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_one_key_with_its_id_as_the_hash_tag() {
    let (server, store) = stage::store().await;
    let fence = hold(&store, &claim("1", 1)).await;
    ask(&store, complete(fence, "done")).await;
    assert_eq!(tell(&server, "KEYS *").await, key_of(fence.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires_after_its_horizon_and_never_without_one() {
    let (server, store) = stage::store().await;
    let expiry = async |fence: Fence| {
        let told = tell(&server, &format!("PEXPIRETIME {}", key_of(fence.id))).await;
        told.parse::<i64>().unwrap()
    };
    let lapsing =
        hapax_core::store::Claim { lease: Duration::from_millis(1), ..claim("lapsing", 1) };
    let lapsed = hold(&store, &lapsing).await;
    assert_eq!(expiry(lapsed).await, -1, "a lapsed claim stays visible");
    let doubted = hold(&store, &claim("doubted", 1)).await;
    ask(&store, Step::Doubt { fence: doubted, why: "nobody knows".to_owned() }).await;
    assert_eq!(expiry(doubted).await, -1);
    let forever = hold(&store, &claim("forever", 1)).await;
    ask(&store, complete(forever, "done")).await;
    assert_eq!(expiry(forever).await, -1);

    let (keep, grace) = (Duration::from_secs(60), Duration::from_secs(30));
    let kept = hold(&store, &claim("kept", 1)).await;
    let retention = Retention { keep: Some(keep), grace };
    ask(&store, Step::Complete { fence: kept, outcome: value("done"), retention }).await;
    let horizon = record(&store, kept.id).await.reuse_at.unwrap();
    assert_eq!(expiry(kept).await, horizon.as_millis() + SLACK_MS);
    let freed = hold(&store, &claim("freed", 1)).await;
    ask(&store, Step::Release { fence: freed, memory: LEASE }).await;
    let horizon = record(&store, freed.id).await.reuse_at.unwrap();
    assert_eq!(expiry(freed).await, horizon.as_millis() + SLACK_MS);

    let again = hold(&store, &claim("freed", 2)).await;
    assert_eq!(expiry(again).await, -1, "a claim takes the expiry away");
    let endless = Retention { keep: Some(Duration::MAX), grace: Duration::MAX };
    ask(&store, Step::Complete { fence: again, outcome: value("done"), retention: endless }).await;
    let horizon = record(&store, again.id).await.reuse_at.unwrap();
    assert_eq!(expiry(again).await, horizon.as_millis() + SLACK_MS, "in two thousand years");
}

/// The horizon decides, not whether the key is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_beyond_its_horizon_is_not_shown_though_its_key_is_there() {
    let (server, store) = stage::store().await;
    let fence = hold(&store, &claim("1", 1)).await;
    ask(&store, Step::Release { fence, memory: Duration::from_millis(1) }).await;
    stage::until("it counts as absent", async || look(&store, fence.id).await.record.is_none())
        .await;
    assert_eq!(tell(&server, &format!("EXISTS {}", key_of(fence.id))).await, "1");
    let scan = Scan { operation: None, status: None, after: None, limit: 10 };
    assert!(store.scan(scan).await.unwrap().records.is_empty());
    assert!(hold(&store, &claim("1", 1)).await.epoch > fence.epoch, "its nonce is new again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_keeps_its_last_thousand_lines() {
    let (server, store) = stage::store().await;
    let mut last = None;
    for round in 0..520_u32 {
        let serial = u8::try_from(round % 250).unwrap();
        let fence = hold(&store, &claim("busy", serial)).await;
        let answer = ask(&store, Step::Release { fence, memory: LEASE }).await;
        assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
        last = Some(fence);
    }
    let last = last.unwrap();
    let told = store.history(last.id).await.unwrap();
    assert_eq!(told.len(), 1000);
    assert_eq!(told.last().map(|line| line.epoch), Some(last.epoch));
    assert!(told.windows(2).all(|pair| pair[0].epoch <= pair[1].epoch), "oldest first");
    let fields: u32 = tell(&server, &format!("HLEN {}", key_of(last.id))).await.parse().unwrap();
    assert!(fields < 1030, "older lines are gone: {fields}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_of_two_namespaces_share_a_server_and_nothing_else() {
    let server = stage::server().await;
    let (one, two) = (namespace(), namespace());
    let open =
        async |name: &str| RedisStore::at(&server.url()).namespace(name).open().await.unwrap();
    let (one, two) = (open(&one).await, open(&two).await);
    let fence = hold(&one, &claim("1", 1)).await;
    assert_eq!(look(&two, fence.id).await.record, None);
    hold(&two, &claim("1", 2)).await;
    let scan = Scan { operation: None, status: None, after: None, limit: 10 };
    assert_eq!(two.scan(scan).await.unwrap().records.len(), 1);
}

/// A key that is no record is told, and nothing is written over it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_record_is_left_alone() {
    let (server, store) = stage::store().await;
    let (text, list) = (claim("text", 1), claim("newer", 1));
    tell(&server, &format!("SET {} text", key_of(text.id))).await;
    let (word, kind, why) = stage::fault(&stage::try_claim(&store, &text).await);
    assert_eq!((word, kind), ("away", hapax_core::store::FaultKind::Corrupt), "{why}");
    assert_eq!(tell(&server, &format!("GET {}", key_of(text.id))).await, "text");

    hold(&store, &list).await;
    tell(&server, &format!("HSET {} format 2", key_of(list.id))).await;
    let fault = store.look(vec![list.id]).await.remove(0).expect_err("a newer format");
    assert_eq!(fault.kind(), hapax_core::store::FaultKind::Corrupt);
    assert!(stage::chain(&fault).contains("newer version"), "{fault:?}");
}

/// An epoch that is ahead of the clock keeps its key until the clock has passed it.
#[tokio::test(flavor = "multi_thread")]
async fn a_horizon_is_never_before_the_epoch() {
    let (server, store) = stage::store().await;
    let fence = hold(&store, &claim("1", 1)).await;
    let ahead = fence.epoch.get() + 5_000;
    tell(&server, &format!("HSET {} epoch {ahead}", key_of(fence.id))).await;
    let fence = Fence { epoch: Epoch::from_stored(ahead), ..fence };
    ask(&store, Step::Release { fence, memory: Duration::ZERO }).await;
    let horizon = record(&store, fence.id).await.reuse_at.unwrap();
    assert_eq!(horizon.as_millis(), ahead + 1);
}
