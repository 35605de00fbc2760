//! What is said when a server refuses, is away or says nothing: never more than is known.

use std::time::Duration;

use crate::stage::{
    self, LEASE, ask, claim, complete, fault, grant, hold, look, pass, record, tell, try_claim,
    until,
};
use hapax_core::{
    Effect, State,
    store::{Answer, Claim, FaultKind, Step, Store},
};
use hapax_store::redis::RedisStore;
use hapax_testkit::{
    Proxy,
    proxy::{Fate, Mode},
};

fn refused(answer: &Answer, kind: FaultKind, code: &str) {
    let (word, is, why) = fault(answer);
    assert_eq!((word, is), ("away", kind), "{why}");
    assert!(why.contains(code), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_to_begin_and_lets_end() {
    let (server, store) = stage::store().await;
    let fences = [hold(&store, &claim("1", 1)).await, hold(&store, &claim("2", 1)).await];
    let lock = hapax_core::lock::LockName::of(&stage::tenant(), "order", "1");
    tell(&server, "CONFIG SET maxmemory 1").await;

    refused(&try_claim(&store, &claim("3", 1)).await, FaultKind::Full, "OOM");
    assert_eq!(look(&store, claim("3", 1).id).await.record, None, "nothing was begun");
    let point = Step::Checkpoint { fence: fences[0], point: bytes::Bytes::from_static(b"x") };
    refused(&ask(&store, point).await, FaultKind::Full, "OOM");
    let locked = hapax_core::lock::Locks::acquire(&store, lock, stage::nonce(1), LEASE).await;
    assert_eq!(locked.unwrap_err().kind(), FaultKind::Full);
    for step in [
        Step::Renew { fence: fences[0], lease: LEASE },
        complete(fences[0], "done"),
        Step::Doubt { fence: fences[1], why: "nobody knows".to_owned() },
        Step::Release { fence: fences[1], memory: LEASE },
    ] {
        let answer = ask(&store, step).await;
        assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    }
    assert_eq!(record(&store, fences[0].id).await.state, State::Completed);

    tell(&server, "CONFIG SET maxmemory 0").await;
    grant(&store, &claim("3", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_has_become_a_replica_refuses() {
    let (server, store) = stage::store().await;
    hold(&store, &claim("1", 1)).await;
    tell(&server, "REPLICAOF 127.0.0.1 1").await;
    refused(&try_claim(&store, &claim("2", 1)).await, FaultKind::Unavailable, "read only replica");
    tell(&server, "REPLICAOF NO ONE").await;
    grant(&store, &claim("2", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_short_of_replicas_refuses() {
    let (server, store) = stage::store().await;
    tell(&server, "CONFIG SET min-replicas-to-write 1").await;
    refused(&try_claim(&store, &claim("1", 1)).await, FaultKind::Unavailable, "NOREPLICAS");
    tell(&server, "CONFIG SET min-replicas-to-write 0").await;
    assert_eq!(look(&store, claim("1", 1).id).await.record, None);
    grant(&store, &claim("1", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_with_another_script_refuses() {
    let (server, store) = stage::store().await;
    grant(&store, &claim("1", 1)).await;
    tell(&server, "CONFIG SET busy-reply-threshold 50").await;
    let client = redis::Client::open(server.url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let mut spin = redis::cmd("EVAL");
        spin.arg("while true do end").arg(0);
        spin.exec_async(&mut line).await.ok();
    });
    pass(Duration::from_millis(200)).await;
    refused(&try_claim(&store, &claim("2", 1)).await, FaultKind::Unavailable, "BUSY");
    tell(&server, "SCRIPT KILL").await;
    // The script ends some moments after it was killed.
    until("it is free again", async || {
        matches!(try_claim(&store, &claim("2", 1)).await, Answer::Granted(_))
    })
    .await;
    assert_eq!(store.history(claim("2", 1).id).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_has_done_nothing() {
    let (server, store) = stage::store().await;
    let fence = hold(&store, &claim("1", 1)).await;
    server.kill().await.unwrap();
    // What was on the line when it broke is in doubt; what never went out is not.
    until("the line is known to be dead", async || {
        matches!(ask(&store, complete(fence, "done")).await, Answer::Away(_))
    })
    .await;
    for _ in 0..5 {
        let (word, kind, why) = fault(&try_claim(&store, &claim("2", 1)).await);
        assert_eq!((word, kind), ("away", FaultKind::Unavailable), "{why}");
    }
    server.restart().await.unwrap();
    until("it is dialled again", async || {
        matches!(ask(&store, complete(fence, "done")).await, Answer::Applied { .. })
    })
    .await;
    assert_eq!(look(&store, claim("2", 1).id).await.record, None);
    grant(&store, &claim("2", 1)).await;
}

/// On a server that flushes before it answers, what was acknowledged outlives every kill.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_flushed_survives_twenty_kills() {
    let server = hapax_testkit::redis().await.unwrap();
    let store = RedisStore::open(&server.url()).await.unwrap();
    let mut kept = Vec::new();
    for round in 0..20_u8 {
        let fence = hold(&store, &claim(&round.to_string(), 1)).await;
        if round % 2 == 0 {
            let answer = ask(&store, complete(fence, "done")).await;
            assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
        }
        kept.push(record(&store, fence.id).await);
        server.kill().await.unwrap();
        server.restart().await.unwrap();
        until("it is dialled again", async || store.look(vec![fence.id]).await[0].is_ok()).await;
        for before in &kept {
            assert_eq!(&record(&store, before.identity.id()).await, before);
        }
    }
}

/// A server that has never been there is dialled now and then, not by every caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_not_stormed() {
    let (server, _) = stage::store().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    proxy.set(Mode::Refuse);
    proxy.reset();
    let begun_at = tokio::time::Instant::now();
    while begun_at.elapsed() < Duration::from_secs(1) {
        fault(&try_claim(&store, &claim("1", 1)).await);
    }
    let dials = proxy.tally().connections;
    assert!(dials <= 20, "pauses double from 10 ms: {dials}");
    proxy.set(Mode::Pass);
    until("it is dialled again", async || {
        matches!(try_claim(&store, &claim("1", 1)).await, Answer::Granted(_))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_leaves_the_step_in_doubt() {
    let server = stage::server().await;
    let opening = RedisStore::at(&server.url()).answer_max(Duration::from_millis(200));
    let store = opening.open().await.unwrap();
    hold(&store, &claim("0", 1)).await;
    server.stop().unwrap();
    let (word, kind, why) = fault(&try_claim(&store, &claim("1", 1)).await);
    assert_eq!((word, kind), ("unsure", FaultKind::Unavailable), "{why}");
    server.cont().unwrap();
    until("it answers again", async || {
        matches!(try_claim(&store, &claim("1", 1)).await, Answer::Granted(_))
    })
    .await;
    let told = store.history(claim("1", 1).id).await.unwrap();
    assert_eq!(told.len(), 1, "it was claimed once: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_forgotten_the_scripts_is_taught_them_again() {
    let (server, store) = stage::store().await;
    let fence = hold(&store, &claim("1", 1)).await;
    tell(&server, "SCRIPT FLUSH").await;
    let answer = ask(&store, complete(fence, "done")).await;
    assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    let told = store.history(fence.id).await.unwrap();
    assert_eq!(told.len(), 2, "each step was taken once: {told:?}");
}

/// Best effort: what was flushed is gone, and its key runs again. What is not possible is that
/// the old holder ends the new attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_record_runs_again_under_a_higher_epoch() {
    let (server, store) = stage::store().await;
    let old = hold(&store, &claim("1", 1)).await;
    pass(Duration::from_millis(5)).await;
    tell(&server, "FLUSHALL").await;
    let answer = ask(&store, complete(old, "late")).await;
    assert!(matches!(&answer, Answer::Found(found) if found.record.is_none()), "{answer:?}");
    let new = hold(&store, &claim("1", 2)).await;
    assert!(new.epoch > old.epoch);
    let answer = ask(&store, complete(old, "late")).await;
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
    assert_eq!(record(&store, new.id).await.state, State::Claimed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_is_refused_each_time() {
    let (_server, store) = stage::store().await;
    for round in 0..20_u8 {
        let lapsing = |serial| Claim {
            effect: Effect::Transactional,
            lease: Duration::from_millis(10),
            ..claim(&round.to_string(), serial)
        };
        let zombie = hold(&store, &lapsing(1)).await;
        pass(Duration::from_millis(15)).await;
        let heir = hold(&store, &lapsing(2)).await;
        assert!(heir.epoch > zombie.epoch);
        for step in [
            Step::Renew { fence: zombie, lease: LEASE },
            complete(zombie, "late"),
            Step::Doubt { fence: zombie, why: "late".to_owned() },
            Step::Release { fence: zombie, memory: LEASE },
        ] {
            let answer = ask(&store, step).await;
            assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
        }
        let answer = ask(&store, complete(heir, "done")).await;
        assert!(matches!(answer, Answer::Applied { .. }), "{answer:?}");
    }
}

/// A line that was cut while it was idle: the next step says so at worst, and is never doubled.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_line_that_was_cut_is_dialled_again() {
    let server = stage::server().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    for serial in 0..10_u8 {
        let claim = claim(&serial.to_string(), 1);
        proxy.cut();
        until("it is dialled again", async || {
            matches!(try_claim(&store, &claim).await, Answer::Granted(_))
        })
        .await;
        assert_eq!(store.history(claim.id).await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_torn_leaves_the_step_in_doubt() {
    let server = stage::server().await;
    let proxy = Proxy::before(&server.url()).unwrap();
    let store = RedisStore::open(&proxy.url()).await.unwrap();
    grant(&store, &claim("0", 1)).await;
    proxy.next(Fate::Torn(5), hapax_testkit::proxy::scripts);
    let (word, ..) = fault(&try_claim(&store, &claim("1", 1)).await);
    assert_eq!((word, proxy.armed()), ("unsure", 0));
    grant(&store, &claim("1", 1)).await;
    assert_eq!(store.history(claim("1", 1).id).await.unwrap().len(), 1);
}
