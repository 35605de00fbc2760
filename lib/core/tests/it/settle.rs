//! What a judge says, over a line that loses messages.

use crate::bench::{Bench, call, kind, lease, value};
use hapax_contract::{Asked, Delivery};
use hapax_core::{Actor, Begin, Effect, Epoch, Kind, Retention, Ruled, State, store::Ruling};

fn happened() -> Ruling {
    Ruling::Completed { outcome: value("seen"), retention: Retention::FOREVER }
}

fn judge() -> Actor {
    Actor::parse("judge").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_ruling_survives_every_loss() {
    for fates in [
        [Delivery::AnswerLost, Delivery::AnswerLost],
        [Delivery::RequestLost, Delivery::AnswerLost],
        [Delivery::AnswerLost, Delivery::Refused],
        [Delivery::Twice, Delivery::Normal],
    ] {
        let mut fates = fates.into_iter();
        let (bench, _) = Bench::lossy(move |asked| match asked {
            Asked::Step(step) if kind(step) == "settle" => fates.next().unwrap_or_default(),
            _ => Delivery::Normal,
        });
        let operation = bench.declare(Effect::Opaque);
        let held = lease(call(&operation, "key")).await;
        let fence = held.fence();
        held.doubt("no answer").await.unwrap();
        let ruled = bench.hapax.settle(fence.id, fence.epoch, happened(), judge(), "the books");
        let Ruled::Settled { epoch } = ruled.await.unwrap() else { panic!("it was unresolved") };
        assert!(epoch > fence.epoch);
        assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Replay(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_ruling_changes_nothing() {
    let (bench, _) = Bench::lossy(|asked| match asked {
        Asked::Step(step) if kind(step) == "settle" => Delivery::Refused,
        _ => Delivery::Normal,
    });
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    let fence = held.fence();
    held.doubt("no answer").await.unwrap();
    let ruled = bench.hapax.settle(fence.id, fence.epoch, happened(), judge(), "the books").await;
    assert_eq!(ruled.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(bench.record(fence.id).await.state, State::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_judge_who_saw_another_epoch_is_refused() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let held = lease(call(&operation, "key")).await;
    let fence = held.fence();
    held.doubt("no answer").await.unwrap();
    let stale = Epoch::from_stored(fence.epoch.get() - 1);
    let ruled = bench.hapax.settle(fence.id, stale, happened(), judge(), "the books").await;
    assert!(matches!(ruled, Ok(Ruled::Refused(_))), "{ruled:?}");
    assert_eq!(bench.record(fence.id).await.state, State::Unknown);
}
