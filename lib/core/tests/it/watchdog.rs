//! Leases are renewed while their holders live, and holders learn that they have lost them.

use std::time::Duration;

use crate::bench::{Bench, LEASE, call, kind, lease, pass, value};
use hapax_contract::{Asked, Delivery};
use hapax_core::{
    Begin, Clock, Effect, Lease,
    store::{Step, Store},
};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_a_third_while_its_holder_works() {
    let bench = Bench::new();
    let twin = bench.twin();
    let (here, there) = (bench.declare(Effect::Opaque), twin.declare(Effect::Opaque));
    let held = lease(call(&here, "long")).await;
    for _ in 0..20 {
        pass(LEASE / 2).await;
        let other = call(&there, "long").begin().await;
        assert!(matches!(other, Ok(Begin::Busy { .. })), "{other:?}");
    }
    let renewals = bench.counted.count("renew");
    assert!((28..=31).contains(&renewals), "{renewals} renewals in ten leases");
    assert!(!held.lost().is_cancelled());
    held.complete(value("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_the_end() {
    for end in ["complete", "release", "doubt", "hand on", "drop", "seal", "rolled back"] {
        let bench = Bench::new();
        let operation = bench.declare(Effect::Queryable { quiet: LEASE });
        let held = lease(call(&operation, "key")).await;
        pass(LEASE).await;
        assert!(bench.counted.count("renew") >= 2, "it is watched until then");
        match end {
            "complete" => held.complete(value("done")).await.unwrap(),
            "release" => held.release().await.unwrap(),
            "doubt" => held.doubt("why").await.unwrap(),
            "hand on" => held.hand_on().await.unwrap(),
            "drop" => drop(held),
            "seal" => drop(held.seal()),
            _ => {
                let held = held.seal().rolled_back();
                pass(LEASE).await;
                held.complete(value("done")).await.unwrap();
            }
        }
        bench.hapax.drain().await;
        let renewals = bench.counted.count("renew");
        pass(LEASE * 5).await;
        assert_eq!(bench.counted.count("renew"), renewals, "after {end}");
        assert_eq!(bench.seen.count("lease_lost"), 0, "after {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_by_a_rollback_is_watched_again() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Transactional);
    let held = lease(call(&operation, "key")).await.seal().rolled_back();
    let before = bench.counted.count("renew");
    pass(Duration::from_millis(10)).await;
    assert_eq!(bench.counted.count("renew"), before + 1, "at once: none ran meanwhile");
    pass(LEASE * 3).await;
    assert!(!held.lost().is_cancelled());
    held.complete(value("done")).await.unwrap();
}

/// How long a holder believes in its lease after the renewals have stopped to arrive.
async fn trust(bench: &Bench, held: &Lease) -> Duration {
    let start = bench.clock.now();
    held.lost().cancelled().await;
    bench.clock.now().duration_since(start)
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_is_told_in_time() {
    for fate in [Delivery::RequestLost, Delivery::AnswerLost, Delivery::Refused] {
        let (bench, line) = Bench::lossy(move |asked| match asked {
            Asked::Step(step) if kind(step) == "renew" => fate,
            _ => Delivery::Normal,
        });
        let operation = bench.declare(Effect::Opaque);
        let held = lease(call(&operation, "key")).await;
        let trusted = trust(&bench, &held).await;
        assert!(trusted >= LEASE / 2, "{trusted:?}: it gave up too soon");
        assert!(trusted <= LEASE - LEASE / 10, "{trusted:?}: somebody else may have it by now");
        assert_eq!(bench.seen.count("lease_lost"), 1);
        let losses = line.losses();
        assert!(losses.requests + losses.answers + losses.refused >= 3, "{losses:?}");
    }
}

/// A store that does not answer at all is no better than one that refuses.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_renewals_hang_is_told_in_time() {
    let (bench, slow) = Bench::slow();
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    slow.close();
    let trusted = trust(&bench, &held).await;
    assert!(trusted <= LEASE - LEASE / 10, "{trusted:?}");
    slow.open();
    pass(LEASE).await;
    assert!(held.lost().is_cancelled(), "what is lost stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_now_and_then_loses_nothing() {
    let mut sent = 0;
    let (bench, line) = Bench::lossy(move |asked| match asked {
        Asked::Step(step) if kind(step) == "renew" => {
            sent += 1;
            if sent % 3 == 0 { Delivery::Normal } else { Delivery::RequestLost }
        }
        _ => Delivery::Normal,
    });
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    pass(LEASE * 20).await;
    assert!(!held.lost().is_cancelled());
    assert!(line.losses().requests > 20);
    held.complete(value("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_taken_over_is_told() {
    let bench = Bench::new();
    let twin = bench.twin();
    let effect = Effect::Transactional;
    let (here, there) = (bench.declare(effect), twin.declare(effect));
    let old = lease(call(&here, "key")).await;
    let step = Step::Renew { fence: old.fence(), lease: Duration::ZERO };
    bench.memory.apply(vec![step]).await;
    let new = lease(call(&there, "key")).await;
    assert_eq!(new.attempt(), 2);
    let told = trust(&bench, &old).await;
    assert!(told <= LEASE / 3 + Duration::from_millis(10), "at the next renewal: {told:?}");
    assert_eq!((bench.seen.count("lease_lost"), twin.seen.count("lease_lost")), (1, 0));
    pass(LEASE).await;
    assert!(!new.lost().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn renewals_of_many_leases_share_calls_of_the_store() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let mut held = Vec::new();
    for serial in 0..600 {
        held.push(lease(call(&operation, &format!("key-{serial}"))).await);
    }
    pass(LEASE * 2).await;
    assert!(held.iter().all(|lease| !lease.lost().is_cancelled()));
    let renewals = bench.counted.count("renew");
    assert!((600 * 5..=600 * 6).contains(&renewals), "{renewals}");
    let calls = bench.counted.calls();
    assert!(calls < 600 + 30, "{calls} calls for {renewals} renewals");
    for lease in held {
        lease.complete(value("done")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_different_lengths_are_each_renewed_in_time() {
    let bench = Bench::new();
    let policy = |lease| hapax_core::Policy::new(Effect::Opaque).lease(lease);
    let long = bench.hapax.declare("long.op", policy(LEASE * 10)).unwrap();
    let short = bench.hapax.declare("short.op", policy(Duration::from_millis(300))).unwrap();
    let slow = lease(call(&long, "key")).await;
    pass(Duration::from_secs(1)).await;
    let quick = lease(call(&short, "key")).await;
    pass(LEASE).await;
    assert!(!slow.lost().is_cancelled() && !quick.lost().is_cancelled());
    assert!(bench.counted.count("renew") > 100, "the short one, every 100 ms");
}
