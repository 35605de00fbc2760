//! A cluster of private servers, and what happens in one.

use std::time::Duration;

use hapax_testkit::Redis;

use crate::stage::{
    self, complete, grant, hold, namespace, pass, record, send, try_claim, until, value,
};
use hapax_core::{
    Id, State,
    store::{Answer, Scan, Store},
};
use hapax_store::redis::RedisStore;

const MASTERS: usize = 3;

/// Three masters, each with as many replicas as were asked for.
pub(crate) struct Cluster {
    nodes: Vec<Redis>,
}

impl Cluster {
    pub(crate) async fn start(replicas: usize) -> Self {
        let settings = [
            ("appendfsync", "no"),
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", "1000"),
            ("cluster-replica-validity-factor", "0"),
            ("repl-diskless-sync-delay", "0"),
        ];
        let mut nodes = Vec::new();
        for _ in 0..MASTERS * (1 + replicas) {
            nodes.push(Redis::with(&settings).await.unwrap());
        }
        let cluster = Self { nodes };
        cluster.join().await;
        cluster
    }

    async fn join(&self) {
        let share = 16_384 / MASTERS;
        for (at, node) in self.nodes.iter().enumerate() {
            let () = send(&node.url(), &format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)).await;
            let port = self.nodes[0].port();
            let () = send(&node.url(), &format!("CLUSTER MEET 127.0.0.1 {port}")).await;
            if at < MASTERS {
                let last = if at + 1 == MASTERS { 16_383 } else { (at + 1) * share - 1 };
                let range = format!("CLUSTER ADDSLOTSRANGE {} {last}", at * share);
                let () = send(&node.url(), &range).await;
            }
        }
        let count = format!("cluster_known_nodes:{}", self.nodes.len());
        self.until_all_say(&[&count]).await;
        for (at, node) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master: String = send(&self.nodes[at % MASTERS].url(), "CLUSTER MYID").await;
            until("a replica knows its master", async || {
                let known: String = send(&node.url(), "CLUSTER NODES").await;
                known.contains(&master)
            })
            .await;
            let () = send(&node.url(), &format!("CLUSTER REPLICATE {master}")).await;
            until("a replica follows", async || {
                let info: String = send(&node.url(), "INFO replication").await;
                info.contains("master_link_status:up")
            })
            .await;
        }
        self.until_all_say(&["cluster_state:ok", &count]).await;
    }

    async fn until_all_say(&self, words: &[&str]) {
        for node in &self.nodes {
            until("the nodes agree", async || {
                let info: String = send(&node.url(), "CLUSTER INFO").await;
                words.iter().all(|word| info.contains(word))
            })
            .await;
        }
    }

    /// One of its servers.
    pub(crate) fn url(&self) -> String {
        self.nodes[0].url()
    }

    pub(crate) async fn store(&self) -> RedisStore {
        self.store_in(&namespace()).await
    }

    pub(crate) async fn store_in(&self, namespace: &str) -> RedisStore {
        let opening = RedisStore::at(&self.url()).namespace(namespace).accept_no_replica_quorum();
        opening.open().await.unwrap()
    }

    /// Gives a slot of one master to another, key by key or all at once.
    async fn move_slot(&self, slot: u16, from: usize, to: usize, moving: &mut impl AsyncFnMut()) {
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        let giver: String = send(&from.url(), "CLUSTER MYID").await;
        let taker: String = send(&to.url(), "CLUSTER MYID").await;
        let () = send(&to.url(), &format!("CLUSTER SETSLOT {slot} IMPORTING {giver}")).await;
        let () = send(&from.url(), &format!("CLUSTER SETSLOT {slot} MIGRATING {taker}")).await;
        moving().await;
        loop {
            let keys: Vec<String> =
                send(&from.url(), &format!("CLUSTER GETKEYSINSLOT {slot} 1")).await;
            let Some(key) = keys.first() else { break };
            let port = to.port();
            let () = send(&from.url(), &format!("MIGRATE 127.0.0.1 {port} {key} 0 5000")).await;
            moving().await;
        }
        for node in [to, from] {
            let () = send(&node.url(), &format!("CLUSTER SETSLOT {slot} NODE {taker}")).await;
        }
    }

    async fn slot(&self, id: Id) -> u16 {
        send(&self.url(), &format!("CLUSTER KEYSLOT {}", id.hex())).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_all_masters_are_one_store() {
    let cluster = Cluster::start(0).await;
    let store = cluster.store().await;
    let mut ids = Vec::new();
    for serial in 0..60_u8 {
        ids.push(hold(&store, &stage::claim(&serial.to_string(), 1)).await.id);
    }
    ids.sort();
    for node in &cluster.nodes {
        let keys: u32 = send(&node.url(), "DBSIZE").await;
        assert!(keys > 0, "each master has some of them");
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

/// While a slot is on the way every step on it is taken, once: by its old owner, or by its new
/// one after ASK, or after MOVED.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_taken_while_their_slot_moves() {
    let cluster = Cluster::start(0).await;
    let store = cluster.store().await;
    // Records of one slot: keys that share a tag are not ours to make, so the slot is the one
    // that the first of them has, and what else is claimed meanwhile is elsewhere.
    let old = hold(&store, &stage::claim("old", 1)).await;
    let slot = cluster.slot(old.id).await;
    let from = usize::from(slot) / (16_384 / MASTERS);
    let from = std::cmp::min(from, MASTERS - 1);
    let to = (from + 1) % MASTERS;
    let fresh = twin(&cluster, slot).await;
    let mut fence = None;
    let mut rounds = 0;
    cluster
        .move_slot(slot, from, to, &mut async || {
            rounds += 1;
            let renewed = hapax_core::store::Step::Renew { fence: old, lease: stage::LEASE };
            let answer = stage::ask(&store, renewed).await;
            assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
            // A key that is nowhere is the importer's.
            let grant = grant(&store, &fresh).await;
            assert!(fence.is_none_or(|fence| fence == grant.epoch), "granted once");
            fence = Some(grant.epoch);
        })
        .await;
    assert!(rounds >= 2, "before the move and after each key");
    let answer = stage::ask(&store, complete(old, "done")).await;
    assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    assert_eq!(record(&store, old.id).await.outcome, Some(value("done")));
    assert_eq!(record(&store, fresh.id).await.state, State::Claimed);
    assert_eq!(store.history(old.id).await.unwrap().len(), 2, "its journal came along");
}

/// A claim whose record will live in `slot`.
async fn twin(cluster: &Cluster, slot: u16) -> hapax_core::store::Claim {
    let mut admin = stage::admin(&cluster.url()).await;
    for serial in 0..200_000_u32 {
        let claim = stage::claim(&format!("twin {serial}"), 1);
        let of: u16 = redis::cmd("CLUSTER")
            .arg("KEYSLOT")
            .arg(claim.id.hex())
            .query_async(&mut admin)
            .await
            .unwrap();
        if of == slot {
            return claim;
        }
    }
    panic!("no key has slot {slot}");
}

/// When a master dies its slots are refused, and taken again when a replica has its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_is_followed() {
    let cluster = Cluster::start(1).await;
    let store = cluster.store().await;
    let mut fences = Vec::new();
    for serial in 0..12_u8 {
        fences.push(hold(&store, &stage::claim(&serial.to_string(), 1)).await);
    }
    pass(Duration::from_millis(300)).await;
    cluster.nodes[1].kill().await.unwrap();
    let mut refused = 0;
    for fence in fences {
        until("the step is taken", async || {
            match stage::ask(&store, complete(fence, "done")).await {
                Answer::Applied { .. } => true,
                Answer::Away(_) | Answer::Unsure(_) => {
                    refused += 1;
                    false
                }
                answer => panic!("its record was replicated: {answer:?}"),
            }
        })
        .await;
    }
    assert!(refused > 0, "the dead master had some of them");
    let answer = try_claim(&store, &stage::claim("0", 2)).await;
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
}
