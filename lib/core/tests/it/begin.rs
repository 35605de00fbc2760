//! From a call to a decision, with a caller who goes away and a line that loses messages.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::poll;

use crate::bench::{
    Bench, LEASE, PausedClock, Slow, begun, call, first, lease, pass, prints, value,
};
use hapax_contract::{Asked, Delivery};
use hapax_core::{
    Begin, Class, Clock, Effect, Hapax, Kind, Policy, State, Status,
    store::{MemoryStore, Reading, Step},
};

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_no_claim() {
    let (bench, slow) = Bench::slow();
    let operation = bench.declare(Effect::Opaque);
    slow.close();
    {
        let mut begun = pin!(begun(call(&operation, "gone")));
        assert!(poll!(&mut begun).is_pending());
        assert_eq!(bench.counted.count("claim"), 1, "the claim has reached the store");
    }
    slow.open();
    bench.hapax.drain().await;

    let id = call(&operation, "gone").id();
    let record = bench.record(id).await;
    assert_eq!((record.state, record.attempts), (State::Open, 1));
    let next = lease(call(&operation, "gone").prints(prints("corrected"))).await;
    assert_eq!(next.attempt(), 1);
    next.complete(value("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_before_its_claim_arrives_leaves_no_claim() {
    let (bench, line) = Bench::lossy(first("claim", 1, Delivery::Late));
    let operation = bench.declare(Effect::Opaque);
    {
        let mut begun = pin!(begun(call(&operation, "gone")));
        assert!(poll!(&mut begun).is_pending(), "it is asked again after a pause");
    }
    bench.hapax.drain().await;
    let late = line.deliver_late().await;
    assert_eq!((late.len(), line.losses().held_back), (1, 1));

    let id = call(&operation, "gone").id();
    assert_eq!(bench.record(id).await.state, State::Open, "the late claim was refused");
    lease(call(&operation, "gone")).await.complete(value("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_caller_goes_away_is_handed_on_as_it_was_found() {
    let (bench, slow) = Bench::slow();
    let operation = bench.declare(Effect::Keyed { window: LEASE * 100 });
    let first = lease(call(&operation, "gone").prints(prints("request"))).await;
    let since = first.since();
    first.hand_on().await.unwrap();
    slow.close();
    {
        let mut begun = pin!(begun(call(&operation, "gone").prints(prints("request"))));
        assert!(poll!(&mut begun).is_pending());
    }
    slow.open();
    bench.hapax.drain().await;

    let id = call(&operation, "gone").id();
    let found = bench.found(id).await;
    let record = found.record.unwrap();
    assert_eq!(record.status(found.now), Status::Abandoned, "earlier attempts may have acted");
    assert_eq!((record.prints, record.created_at), (prints("request"), since));
    assert_eq!(lease(call(&operation, "gone")).await.attempt(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answers_are_lost_is_one_attempt() {
    for lost in [Delivery::AnswerLost, Delivery::RequestLost, Delivery::Twice] {
        for times in 1..=5 {
            let (bench, line) = Bench::lossy(first("claim", times, lost));
            let operation = bench.declare(Effect::Opaque);
            let lease = lease(call(&operation, "lost")).await;
            assert_eq!(lease.attempt(), 1, "{lost:?} {times} times");
            let losses = line.losses();
            let gone_astray = losses.answers + losses.requests + losses.doubled;
            assert_eq!(gone_astray, if lost == Delivery::Twice { 1 } else { times });
            lease.complete(value("done")).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_claim_claims_nothing() {
    let (bench, line) = Bench::lossy(|_| Delivery::Refused);
    let operation = bench.declare(Effect::Opaque);
    let error = call(&operation, "refused").begin().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Unavailable, true));
    bench.hapax.drain().await;
    assert_eq!(bench.found(call(&operation, "refused").id()).await.record, None);
    assert_eq!(line.losses().refused, 1, "what is surely not done is not taken back");
    assert_eq!(bench.seen.count("store_error"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_never_answered_is_unsure_and_taken_back() {
    let clock = PausedClock::new();
    let start = clock.now();
    let (bench, _) = Bench::lossy(move |asked| {
        let passed = clock.now().duration_since(start);
        match asked {
            Asked::Step(Step::Claim(_)) if passed < LEASE => Delivery::AnswerLost,
            Asked::Step(Step::Release { .. }) if passed < LEASE * 5 / 4 => Delivery::RequestLost,
            _ => Delivery::Normal,
        }
    });
    let operation = bench.declare(Effect::Opaque);
    let error = call(&operation, "unsure").begin().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Unsure, true));
    let id = call(&operation, "unsure").id();
    assert_eq!(bench.record(id).await.state, State::Claimed, "it was granted all the same");
    bench.hapax.drain().await;
    assert_eq!(bench.record(id).await.state, State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_answer_of_another_process() {
    let bench = Bench::new();
    let twin = bench.twin();
    let (here, there) = (bench.declare(Effect::Opaque), twin.declare(Effect::Opaque));
    let working = lease(call(&there, "shared")).await;
    let waiting = begun(call(&here, "shared").wait(Duration::from_secs(60)));
    let work = async {
        pass(Duration::from_secs(20)).await;
        working.complete(value("from there")).await.unwrap();
    };
    let (begun, ()) = futures_util::join!(waiting, work);
    assert!(matches!(begun, Ok(Begin::Replay(outcome)) if outcome == value("from there")));
    assert_eq!(bench.counted.count("claim"), 1, "a waiter looks, it does not claim");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_from_a_process_that_died() {
    let bench = Bench::new();
    let twin = bench.twin();
    let (here, there) = (bench.declare(Effect::Transactional), twin.declare(Effect::Transactional));
    let dead = lease(call(&there, "shared")).await;
    // As if its process had been killed: nobody renews and nobody says a last word.
    drop(dead.seal());
    let start = bench.clock.now();
    let next = lease(call(&here, "shared").wait(LEASE * 2)).await;
    let waited = bench.clock.now().duration_since(start);
    assert_eq!(next.attempt(), 2);
    assert!(waited >= LEASE && waited < LEASE + Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_reads_well_is_looked_at_before_it_is_claimed() {
    let bench = Bench::behind(|store| {
        Arc::new(Slow::with(store, |capabilities| capabilities.reading = Reading::First))
    });
    let operation = bench.declare(Effect::Opaque);
    lease(call(&operation, "read")).await.complete(value("done")).await.unwrap();
    assert_eq!((bench.counted.looks(), bench.counted.count("claim")), (1, 1));
    for _ in 0..3 {
        assert!(matches!(call(&operation, "read").begin().await, Ok(Begin::Replay(_))));
    }
    assert_eq!(bench.counted.count("claim"), 1, "a replay never touches the writer");
    assert_eq!(bench.counted.looks(), 4);
}

#[tokio::test(start_paused = true)]
async fn every_decision_reaches_the_caller() {
    let bench = Bench::new();
    let short =
        Policy::new(Effect::Opaque).lease(LEASE).retain(LEASE, LEASE).redelivery(Duration::ZERO);
    let operation = bench.hapax.declare("short.op", short).unwrap();
    let asked = call(&operation, "all").prints(prints("one"));
    let held = lease(asked.clone()).await;
    assert_eq!((held.class(), held.attempt()), (Class::Opaque, 1));
    assert!(matches!(asked.clone().begin().await, Ok(Begin::Busy { .. })));
    let other = call(&operation, "all").prints(prints("two"));
    assert!(matches!(other.begin().await, Ok(Begin::Mismatch)));
    held.complete(value("done")).await.unwrap();
    assert!(matches!(asked.clone().begin().await, Ok(Begin::Replay(_))));
    pass(LEASE).await;
    assert!(matches!(asked.clone().begin().await, Ok(Begin::Expired)));
    pass(LEASE).await;
    drop(lease(asked.clone()).await);
    bench.hapax.drain().await;
    assert!(matches!(asked.clone().begin().await, Ok(Begin::Held)));

    for word in ["executed", "busy", "mismatch", "completed", "replayed", "expired", "held"] {
        assert!(bench.seen.count(word) > 0, "{word} was not observed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_claims_nothing() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let asked = call(&operation, "asked");
    assert_eq!(asked.look().await.unwrap().record, None);
    assert_eq!((bench.counted.looks(), bench.counted.count("claim")), (1, 0));
    assert_eq!(bench.found(asked.id()).await.record, None);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_keys_and_keeps_the_old() {
    let clock = Arc::new(PausedClock::new());
    let memory = MemoryStore::with(Arc::clone(&clock) as Arc<_>, 1);
    let hapax = Hapax::on(Arc::new(memory)).clock(clock).build();
    let operation = hapax.declare("full.op", Policy::new(Effect::Opaque)).unwrap();
    let first = lease(call(&operation, "first")).await;
    let error = call(&operation, "second").begin().await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Full, true));
    first.complete(value("kept")).await.unwrap();
    assert!(matches!(call(&operation, "first").begin().await, Ok(Begin::Replay(_))));
}

/// Found by random losses: "surely not done" is said of one try, not of those before it.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_is_no_proof_that_nothing_was_claimed() {
    let mut fates = [Delivery::AnswerLost, Delivery::Refused, Delivery::Refused].into_iter();
    let (bench, line) = Bench::lossy(move |asked| match asked {
        Asked::Step(_) => fates.next().unwrap_or_default(),
        _ => Delivery::Normal,
    });
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    assert_eq!((held.attempt(), line.losses().answers, line.losses().refused), (1, 1, 2));
    held.complete(value("done")).await.unwrap();
}
