//! A call with its work: every way in which the work can end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::poll;
use tokio::sync::Notify;

use crate::bench::{Bench, LEASE, call, others_go_on, pass};
use hapax_core::{Begin, Effect, End, Kind, Outcome, Policy, Ran, State, Status};

const KEYED: Effect = Effect::Keyed { window: Duration::from_secs(86_400) };
const QUERYABLE: Effect = Effect::Queryable { quiet: Duration::from_secs(30) };
const EFFECTS: [Effect; 4] = [Effect::Transactional, KEYED, QUERYABLE, Effect::Opaque];

#[tokio::test(start_paused = true)]
async fn the_answer_of_the_first_run_is_the_answer_of_all() {
    for effect in EFFECTS {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let runs = Arc::new(AtomicU32::new(0));
        let run = || {
            let runs = Arc::clone(&runs);
            call(&operation, "key")
                .run(|_| async move { End::Done(runs.fetch_add(1, Ordering::SeqCst)) })
        };
        assert!(matches!(run().await, Ok(Ran::Fresh(0))));
        for _ in 0..3 {
            assert!(matches!(run().await, Ok(Ran::Replayed(0))));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn work_without_effect_frees_the_key() {
    for effect in EFFECTS {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let none = call(&operation, "key").run(|_| async { End::<u32>::NoEffect }).await;
        assert!(matches!(none, Ok(Ran::NoEffect)));
        let some = call(&operation, "key").run(|work| async move { End::Done(work.attempt()) });
        assert!(matches!(some.await, Ok(Ran::Fresh(1))), "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_treated_by_class() {
    for effect in EFFECTS {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let unknown = call(&operation, "key")
            .run(|_| async { End::<u32>::Unknown("the bank did not answer".to_owned()) });
        assert!(matches!(unknown.await, Ok(Ran::Unknown)));
        dead_by_class(&bench, effect).await;
        let record = bench.record(call(&operation, "key").id()).await;
        let told = matches!(effect, Effect::Opaque);
        assert_eq!(record.state == State::Unknown, told, "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_treated_by_class() {
    for effect in EFFECTS {
        let bench = Bench::new();
        let operation = bench.declare(effect);
        let ran = call(&operation, "key").run(|_| async {
            if true {
                panic!("the work has a bug");
            }
            End::Done(0_u32)
        });
        let error = ran.await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (Kind::Panicked, false));
        bench.hapax.drain().await;
        assert_eq!(bench.counted.count("release"), 0, "nobody knows what it did");
        dead_by_class(&bench, effect).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_a_panic_of_the_work() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let ran = call(&operation, "key").run(|_| {
        let fails = || -> u32 { panic!("at once") };
        let answer = fails();
        async move { End::Done(answer) }
    });
    assert_eq!(ran.await.unwrap_err().kind(), Kind::Panicked);
    bench.hapax.drain().await;
    assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Held)));
}

/// What the next call gets after the first attempt has died in the declared class.
async fn dead_by_class(bench: &Bench, effect: Effect) {
    let operation = bench.hapax.operation(&"bench.op".parse_name()).unwrap();
    let again = async || {
        call(&operation, "key").run(|work| async move { End::Done(work.attempt()) }).await.unwrap()
    };
    match (effect, again().await) {
        (Effect::Transactional | Effect::Keyed { .. }, Ran::Fresh(2)) => {}
        (Effect::Queryable { quiet }, Ran::Busy { .. }) => {
            pass(quiet).await;
            let Ran::Verify(lease) = again().await else { panic!("its receiver must be asked") };
            assert_eq!(lease.attempt(), 2);
            drop(lease);
            bench.hapax.drain().await;
        }
        (Effect::Opaque, Ran::Held) => {}
        (_, ran) => panic!("{effect:?}: {ran:?}"),
    }
}

trait ParseName {
    fn parse_name(&self) -> hapax_core::OperationName;
}

impl ParseName for str {
    fn parse_name(&self) -> hapax_core::OperationName {
        hapax_core::OperationName::parse(self).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_without_its_caller() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let (go, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    {
        let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
        let mut ran = Box::pin(call(&operation, "key").run(|_| async move {
            begun.notify_one();
            go.notified().await;
            End::Done(7_u32)
        }));
        assert!(poll!(&mut ran).is_pending());
    }
    begun.notified().await;
    pass(LEASE * 3).await;
    let id = call(&operation, "key").id();
    let found = bench.found(id).await;
    assert_eq!(found.record.unwrap().status(found.now), Status::Running, "it is renewed too");
    go.notify_one();
    bench.hapax.drain().await;
    let again = call(&operation, "key").run(|_| async { End::Done(8_u32) }).await;
    assert!(matches!(again, Ok(Ran::Replayed(7))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_leaves_a_tombstone() {
    let bench = Bench::new();
    let policy = Policy::new(Effect::Opaque).outcome_bytes_max(100);
    let operation = bench.hapax.declare("large.op", policy).unwrap();
    let large = "x".repeat(200);
    let answer = large.clone();
    let first = call(&operation, "key").run(|_| async move { End::Done(answer) }).await;
    assert!(matches!(first, Ok(Ran::Fresh(answer)) if answer == large));
    let again = call(&operation, "key").run(|_| async { End::Done(String::new()) }).await;
    assert!(matches!(again, Ok(Ran::NotRetained(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stored_answer_of_another_type_is_corrupt() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let text = call(&operation, "key").run(|_| async { End::Done("seven".to_owned()) });
    text.await.unwrap();
    let number = call(&operation, "key").run(|_| async { End::Done(7_u32) });
    assert_eq!(number.await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_treated_as_a_death() {
    struct Unspeakable;
    impl serde::Serialize for Unspeakable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no words for it"))
        }
    }
    impl<'de> serde::Deserialize<'de> for Unspeakable {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let ran = call(&operation, "key").run(|_| async { End::Done(Unspeakable) }).await;
    assert_eq!(ran.err().unwrap().kind(), Kind::Invalid);
    bench.hapax.drain().await;
    assert!(matches!(call(&operation, "key").begin().await, Ok(Begin::Held)));
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_last_words() {
    let bench = Bench::new();
    let operation = bench.declare(Effect::Opaque);
    let mut ran = Box::pin(call(&operation, "key").run(|_| async {
        pass(Duration::from_secs(3)).await;
        End::Done(7_u32)
    }));
    assert!(poll!(&mut ran).is_pending());
    drop(ran);
    bench.hapax.drain().await;
    let record = bench.record(call(&operation, "key").id()).await;
    assert_eq!(record.outcome, Some(Outcome::Value("7".into())));
    others_go_on().await;
}
