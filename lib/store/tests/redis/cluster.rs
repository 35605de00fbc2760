//! What happens in a cluster: slots move, masters die.

use crate::stage::{
    LEASE, ask, claim, complete, grant, hold, namespace, record, tell, try_claim, until, value,
};
use hapax_core::{
    State,
    store::{Answer, Claim, Scan, Step, Store},
};
use hapax_store::redis::RedisStore;
use hapax_testkit::RedisCluster;

/// A store on a cluster, begun from its first two nodes.
async fn store_on(cluster: &RedisCluster) -> RedisStore {
    let seeds = cluster.urls().into_iter().take(2).collect::<Vec<_>>().join(", ");
    let opening = RedisStore::at(&seeds).namespace(&namespace()).accept_no_replica_quorum();
    opening.open().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_all_masters_are_one_store() {
    let cluster = RedisCluster::start().await.unwrap();
    let store = store_on(&cluster).await;
    let mut ids = Vec::new();
    for serial in 0..60_u8 {
        ids.push(hold(&store, &claim(&serial.to_string(), 1)).await.id);
    }
    ids.sort();
    for node in &cluster.nodes()[..3] {
        assert_ne!(tell(node, "DBSIZE").await, "0", "each master has some of them");
    }
    let mut scan = Scan { operation: None, status: None, after: None, limit: 7 };
    let mut found = Vec::new();
    loop {
        let page = store.scan(scan.clone()).await.unwrap();
        found.extend(page.records.iter().map(|record| record.identity.id()));
        scan.after = page.next;
        if scan.after.is_none() {
            break;
        }
    }
    assert_eq!(found, ids);
    let found = store.look(ids.clone()).await;
    assert!(found.iter().all(|found| found.as_ref().is_ok_and(|found| found.record.is_some())));
}

/// Between the first word of a move and the last, a slot is half here and half there: each step
/// is taken all the same, and once.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_taken_while_their_slot_moves() {
    let cluster = RedisCluster::start().await.unwrap();
    let store = store_on(&cluster).await;
    let old = hold(&store, &claim("old", 1)).await;
    let tag = old.id.hex();
    let slot = tell(&cluster.nodes()[0], &format!("CLUSTER KEYSLOT {tag}")).await;
    let from = cluster.master_of(&tag).await.unwrap();
    let (giver, taker) = (&cluster.nodes()[from], &cluster.nodes()[(from + 1) % 3]);
    let (giver_id, taker_id) =
        (tell(giver, "CLUSTER MYID").await, tell(taker, "CLUSTER MYID").await);

    tell(taker, &format!("CLUSTER SETSLOT {slot} IMPORTING {giver_id}")).await;
    tell(giver, &format!("CLUSTER SETSLOT {slot} MIGRATING {taker_id}")).await;
    let renew = async || {
        let answer = ask(&store, Step::Renew { fence: old, lease: LEASE }).await;
        assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    };
    renew().await;
    // A key that is nowhere yet is the taker's.
    let fresh = twin(&cluster, &slot).await;
    let granted = grant(&store, &fresh).await;
    assert_eq!(grant(&store, &fresh).await.epoch, granted.epoch, "granted once");
    assert_eq!(tell(taker, &format!("CLUSTER COUNTKEYSINSLOT {slot}")).await, "1");

    let keys = tell(giver, &format!("CLUSTER GETKEYSINSLOT {slot} 9")).await;
    let port = taker.port();
    tell(giver, &format!("MIGRATE 127.0.0.1 {port} {keys} 0 5000")).await;
    renew().await;
    for node in [taker, giver] {
        tell(node, &format!("CLUSTER SETSLOT {slot} NODE {taker_id}")).await;
    }
    let answer = ask(&store, complete(old, "done")).await;
    assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    assert_eq!(record(&store, old.id).await.outcome, Some(value("done")));
    assert_eq!(record(&store, fresh.id).await.state, State::Claimed);
    assert_eq!(store.history(old.id).await.unwrap().len(), 2, "its journal came along");
}

/// A claim whose record will live in `slot`.
async fn twin(cluster: &RedisCluster, slot: &str) -> Claim {
    let client = redis::Client::open(cluster.nodes()[0].url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    for serial in 0..1000_u32 {
        let claims: Vec<_> =
            (0..500).map(|part| claim(&format!("twin {serial} {part}"), 1)).collect();
        let mut asked = redis::pipe();
        for claim in &claims {
            asked.cmd("CLUSTER").arg("KEYSLOT").arg(claim.id.hex());
        }
        let slots: Vec<u16> = asked.query_async(&mut line).await.unwrap();
        let found = claims.into_iter().zip(slots).find(|(_, of)| of.to_string() == slot);
        if let Some((claim, _)) = found {
            return claim;
        }
    }
    panic!("no key has slot {slot}");
}

/// Slots move to and fro under a stream of claims and completions: all are taken, each once.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_steps_goes_on_while_slots_move() {
    let cluster = RedisCluster::start().await.unwrap();
    let store = store_on(&cluster).await;
    let claims: Vec<_> = (0..12_u8).map(|serial| claim(&serial.to_string(), 1)).collect();
    let mut fences = Vec::new();
    for claim in &claims {
        fences.push(hold(&store, claim).await);
    }
    for (fence, claim) in fences.into_iter().zip(claims) {
        let tag = fence.id.hex();
        let from = cluster.master_of(&tag).await.unwrap();
        let renewals = async {
            for _ in 0..40 {
                let answer = ask(&store, Step::Renew { fence, lease: LEASE }).await;
                assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
            }
        };
        let (moved, ()) = tokio::join!(cluster.move_slot_of(&tag, (from + 1) % 3), renewals);
        moved.unwrap();
        assert_eq!(grant(&store, &claim).await.epoch, fence.epoch, "the same attempt");
    }
}

/// When a master dies its slots are refused, and taken again when a replica has its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_is_followed() {
    let cluster = RedisCluster::start().await.unwrap();
    let store = store_on(&cluster).await;
    let mut fences = Vec::new();
    for serial in 0..12_u8 {
        fences.push(hold(&store, &claim(&serial.to_string(), 1)).await);
    }
    cluster.settle().await.unwrap();
    tell(&cluster.nodes()[1], "WAIT 1 5000").await;
    cluster.nodes()[1].kill().await.unwrap();
    let mut refused = 0;
    for fence in fences {
        until("the step is taken", async || match ask(&store, complete(fence, "done")).await {
            Answer::Applied { .. } => true,
            Answer::Away(_) | Answer::Unsure(_) => {
                refused += 1;
                false
            }
            answer => panic!("its record was replicated: {answer:?}"),
        })
        .await;
    }
    assert!(refused > 0, "the dead master had some of them");
    let answer = try_claim(&store, &claim("0", 2)).await;
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
}

/// A hand-over in good order loses nothing; a master that has become a replica sends us on.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_loses_nothing() {
    let cluster = RedisCluster::start().await.unwrap();
    let store = store_on(&cluster).await;
    let mut fences = Vec::new();
    for serial in 0..12_u8 {
        fences.push(hold(&store, &claim(&serial.to_string(), 1)).await);
    }
    cluster.settle().await.unwrap();
    for replica in 3..6 {
        cluster.hand_over_to(replica).await.unwrap();
    }
    for fence in fences {
        until("the step is taken", async || match ask(&store, complete(fence, "done")).await {
            Answer::Applied { .. } => true,
            Answer::Away(_) => false,
            answer => panic!("it is neither lost nor in doubt: {answer:?}"),
        })
        .await;
    }
}
