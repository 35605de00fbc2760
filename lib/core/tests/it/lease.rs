//! How a lease ends, whatever becomes of its messages and of its owner.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::{future::ready, poll};

use crate::bench::{Bench, LEASE, call, first, kind, lease, pass, prints, value};
use hapax_contract::{Asked, Delivery};
use hapax_core::{
    Begin, Class, Clock, Effect, End, Kind, Prints, Ran, State, Status,
    store::{Step, Store},
};

const KEYED: Effect = Effect::Keyed { window: Duration::from_secs(86_400) };
const QUERYABLE: Effect = Effect::Queryable { quiet: Duration::from_secs(30) };
/// What can happen to a message.
const FATES: [Delivery; 4] =
    [Delivery::AnswerLost, Delivery::RequestLost, Delivery::Refused, Delivery::Twice];

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_is_handed_on_by_its_class() {
    for effect in [Effect::Transactional, KEYED, QUERYABLE, Effect::Opaque] {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let dropped = lease(call(&operation, "dropped").prints(prints("request"))).await;
        dropped.checkpoint(Bytes::from_static(b"point")).await.unwrap();
        let id = dropped.fence().id;
        drop(dropped);
        bench.hapax.drain().await;

        let found = bench.found(id).await;
        let record = found.record.unwrap();
        assert_eq!(bench.counted.count("release"), 0, "never silently released");
        assert_eq!(record.prints, prints("request"));
        assert_eq!(record.checkpoint.as_deref(), Some(&b"point"[..]));
        let again = call(&operation, "dropped").begin().await.unwrap();
        match (effect.class(), again) {
            (Class::Transactional | Class::Keyed, Begin::Run(next)) => {
                assert_eq!(next.attempt(), 2);
                assert_eq!(next.point().as_deref(), Some(&b"point"[..]));
            }
            (Class::Queryable, Begin::Busy { .. }) => {
                pass(Duration::from_secs(30)).await;
                let again = call(&operation, "dropped").begin().await;
                assert!(matches!(again, Ok(Begin::Verify(_))), "{again:?}");
            }
            (Class::Opaque, Begin::Held) => assert_eq!(record.state, State::Unknown),
            (class, begun) => panic!("{class:?}: {begun:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_knows_ends_by_its_class() {
    for effect in [Effect::Transactional, KEYED, QUERYABLE, Effect::Opaque] {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let ran: Ran<()> = call(&operation, "key")
            .run(|_| ready(End::Unknown("it hung".to_owned())))
            .await
            .unwrap();
        assert!(matches!(ran, Ran::Unknown));
        let record = bench.record(call(&operation, "key").id()).await;
        let expected = match effect.class() {
            // Safe to do again: at once, without a person.
            Class::Transactional | Class::Keyed => State::Claimed,
            Class::Queryable | Class::Opaque => State::Unknown,
        };
        assert_eq!(record.state, expected, "{effect:?}");
        assert!(record.lease_until <= bench.clock.wall(), "{effect:?}: the lease has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_survives_every_loss() {
    for fate in FATES {
        for times in 1..=6 {
            let (bench, line) = Bench::lossy(first("complete", times, fate));
            let operation = bench.declare(Effect::Opaque);
            let held = lease(call(&operation, "key")).await;
            let id = held.fence().id;
            held.complete(value("done")).await.unwrap();
            let losses = line.losses();
            let astray = losses.answers + losses.requests + losses.refused + losses.doubled;
            assert!(astray > 0, "{fate:?} {times} times");
            let record = bench.record(id).await;
            assert_eq!((record.state, record.outcome), (State::Completed, Some(value("done"))));
            let again = call(&operation, "key").begin().await;
            assert!(matches!(again, Ok(Begin::Replay(_))), "{again:?}");
        }
    }
}

/// Whichever message of a whole life is lost, and however, the life ends as if none were.
#[tokio::test(start_paused = true)]
async fn a_loss_at_any_position_changes_nothing() {
    for fate in FATES {
        for position in 0..4 {
            let mut sent = 0;
            let (bench, line) = Bench::lossy(move |asked| {
                let Asked::Step(_) = asked else { return Delivery::Normal };
                sent += 1;
                if sent == position + 1 { fate } else { Delivery::Normal }
            });
            let operation = bench.declare(KEYED);
            let held = loop {
                // A refused claim has claimed nothing: the caller comes again.
                match call(&operation, "key").begin().await {
                    Ok(Begin::Run(lease)) => break lease,
                    Err(error) => assert_eq!(error.kind(), Kind::Unavailable),
                    Ok(begun) => panic!("{begun:?}"),
                }
            };
            while let Err(error) = held.checkpoint(Bytes::from_static(b"frozen")).await {
                assert!(error.is_retryable(), "{error}");
            }
            let id = held.fence().id;
            held.complete(value("done")).await.unwrap();
            bench.hapax.drain().await;

            let record = bench.record(id).await;
            assert_eq!((record.state, record.attempts), (State::Completed, 1));
            let history = bench.memory.history(id).await.unwrap();
            assert_eq!(history.len(), 2, "{fate:?} at {position}: {history:?}");
            let losses = line.losses();
            let astray = losses.answers + losses.requests + losses.refused + losses.doubled;
            assert_eq!(astray, usize::from(position < 3), "{fate:?} at {position}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_survives_every_loss() {
    for fate in FATES {
        let (bench, _) = Bench::lossy(first("release", 3, fate));
        let operation = bench.declare(Effect::Opaque);
        let held = lease(call(&operation, "key").prints(prints("typo"))).await;
        held.release().await.unwrap();
        let next = lease(call(&operation, "key").prints(prints("corrected"))).await;
        assert_eq!(next.attempt(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubt_survives_every_loss() {
    for fate in FATES {
        let (bench, _) = Bench::lossy(first("doubt", 3, fate));
        let operation = bench.declare(Effect::Opaque);
        let held = lease(call(&operation, "key")).await;
        let id = held.fence().id;
        held.doubt("the bank did not answer").await.unwrap();
        assert_eq!(bench.record(id).await.state, State::Unknown);
        let history = bench.memory.history(id).await.unwrap();
        assert_eq!(history.last().unwrap().note, "the bank did not answer");
        assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Held)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_goes_on_without_its_caller() {
    let (bench, slow) = Bench::slow();
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    let id = held.fence().id;
    slow.close();
    {
        let mut completion = pin!(held.complete(value("done")));
        assert!(poll!(&mut completion).is_pending());
    }
    slow.open();
    bench.hapax.drain().await;
    assert_eq!(bench.record(id).await.outcome, Some(value("done")));
    assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Replay(_))));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_never_arrives_is_unsure_after_one_lease() {
    let (bench, _) = Bench::lossy(first("complete", usize::MAX, Delivery::RequestLost));
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    let (id, start) = (held.fence().id, bench.clock.now());
    let error = held.complete(value("done")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Unsure, true));
    let waited = bench.clock.now().duration_since(start);
    assert!(waited >= LEASE && waited < LEASE + Duration::from_secs(2), "{waited:?}");
    let found = bench.found(id).await;
    assert_eq!(found.record.unwrap().status(found.now), Status::Abandoned);
    assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Held)));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_taken_over_cannot_complete() {
    let bench = Bench::new();
    let twin = bench.twin();
    let effect = Effect::Transactional;
    let (here, there) = (bench.declare(effect), twin.declare(effect));
    for end in ["complete", "release", "doubt", "renew", "checkpoint"] {
        let old = lease(call(&here, end)).await;
        let fence = old.fence();
        bench.memory.apply(vec![Step::Renew { fence, lease: Duration::ZERO }]).await;
        let new = lease(call(&there, end)).await;
        let before = bench.record(fence.id).await;
        let refused = match end {
            "complete" => old.complete(value("late")).await,
            "release" => old.release().await,
            "doubt" => old.doubt("late").await,
            "renew" => old.hand_on().await,
            _ => old.checkpoint(Bytes::from_static(b"late")).await,
        };
        assert_eq!(refused.unwrap_err().kind(), Kind::Fenced, "{end}");
        assert_eq!(bench.record(fence.id).await, before, "{end} left a trace");
        new.complete(value("new")).await.unwrap();
    }
    assert_eq!(bench.seen.count("fenced"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_release_forgets_the_request() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key").prints(prints("typo"))).await;
    let id = held.fence().id;
    held.release().await.unwrap();
    let record = bench.record(id).await;
    assert_eq!((record.state, record.prints), (State::Open, Prints::NONE));
    lease(call(&operation, "key").prints(prints("corrected"))).await.release().await.unwrap();
}

/// Found by the model: after such a release the window would begin anew, and with it a second
/// effect.
#[tokio::test(start_paused = true)]
async fn a_later_keyed_attempt_does_not_speak_for_the_first() {
    let bench = Bench::new();
    let operation = bench.declare(KEYED);
    let sent = lease(call(&operation, "key").prints(prints("request"))).await;
    let (id, since) = (sent.fence().id, sent.since());
    sent.hand_on().await.unwrap();
    pass(Duration::from_secs(5)).await;
    let later = lease(call(&operation, "key").prints(prints("request"))).await;
    assert_eq!(later.attempt(), 2);
    later.release().await.unwrap();

    let found = bench.found(id).await;
    let record = found.record.unwrap();
    assert_eq!(record.status(found.now), Status::Abandoned);
    assert_eq!((record.created_at, record.prints), (since, prints("request")));
    let other = call(&operation, "key").prints(prints("another"));
    assert!(matches!(other.begin().await, Ok(Begin::Mismatch)));
    let third = lease(call(&operation, "key").prints(prints("request"))).await;
    assert_eq!((third.attempt(), third.since()), (3, since));
}

#[tokio::test(start_paused = true)]
async fn a_recovery_point_is_found_by_the_next_attempt() {
    let bench = Bench::new();
    let operation = bench.declare(KEYED);
    let first = lease(call(&operation, "key")).await;
    assert_eq!(first.point(), None);
    first.checkpoint(Bytes::from_static(b"one")).await.unwrap();
    first.checkpoint(Bytes::from_static(b"two")).await.unwrap();
    assert_eq!(first.point().as_deref(), Some(&b"two"[..]));
    let key = first.child_key("charge");
    first.hand_on().await.unwrap();
    let second = lease(call(&operation, "key")).await;
    assert_eq!(second.point().as_deref(), Some(&b"two"[..]));
    assert_eq!(second.child_key("charge"), key, "the receiver sees one key");
    assert_ne!(second.child_key("refund"), key);
}

#[tokio::test(start_paused = true)]
async fn a_point_that_is_not_confirmed_is_no_point() {
    for fate in [Delivery::RequestLost, Delivery::AnswerLost, Delivery::Refused] {
        let (bench, _) = Bench::lossy(first("checkpoint", 1, fate));
        let operation = bench.declare(KEYED);
        let held = lease(call(&operation, "key")).await;
        assert!(held.checkpoint(Bytes::from_static(b"frozen")).await.is_err());
        assert_eq!(held.point(), None, "what depends on it must not begin");
        held.checkpoint(Bytes::from_static(b"frozen")).await.unwrap();
        assert_eq!(held.point().as_deref(), Some(&b"frozen"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_word_is_sent_once_on_a_good_line() {
    let (bench, line) = Bench::lossy(|asked| {
        if let Asked::Step(step) = asked {
            assert!(["claim", "complete"].contains(&kind(step)), "{step:?}");
        }
        Delivery::Normal
    });
    let operation = bench.declare(Effect::Opaque);
    lease(call(&operation, "key")).await.complete(value("done")).await.unwrap();
    bench.hapax.drain().await;
    pass(LEASE * 10).await;
    assert_eq!((bench.counted.count("claim"), bench.counted.count("complete")), (1, 1));
    assert_eq!(line.losses(), hapax_contract::Losses::default());
}
