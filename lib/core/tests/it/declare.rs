//! What may be declared, and what renaming does.

use std::time::Duration;

use crate::bench::{Bench, LEASE, call, lease, value};
use hapax_core::{Begin, Busy, Effect, Kind, OperationName, Policy, store::Durability};

/// The sentence with which a declaration is refused.
fn refusal(policy: Policy) -> String {
    let error = Bench::new().hapax.declare("refused.op", policy).unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::Invalid, false));
    std::error::Error::source(&error).unwrap().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_hold_is_refused_with_a_clear_sentence() {
    let policy = || Policy::new(Effect::Opaque);
    let day = Duration::from_secs(86_400);
    for (refused, why) in [
        (policy().retain(day, day).redelivery(day * 2), "shorter time than callers may send"),
        (policy().lease(Duration::from_millis(29)), "between 30 ms and 1 h"),
        (policy().lease(Duration::from_secs(3601)), "between 30 ms and 1 h"),
        (policy().attempts_max(0), "no attempt"),
        (policy().needs(Durability::Disk), "survives more"),
        (policy().needs(Durability::Volatile), "survives more"),
        (policy().formerly(&["Not A Name"]), "1 to 64 characters"),
    ] {
        let sentence = refusal(refused);
        assert!(sentence.contains(why), "{sentence:?} does not say {why:?}");
    }
    for (serial, fine) in [
        policy(),
        policy().forever().redelivery(Duration::MAX),
        policy().lease(Duration::from_millis(30)),
        policy().lease(Duration::from_secs(3600)),
        policy().needs(Durability::Process),
        policy().busy(Busy::Wait(day)).attempts_max(1),
    ]
    .into_iter()
    .enumerate()
    {
        Bench::new().hapax.declare(&format!("fine.{serial}"), fine).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_declared_once() {
    let bench = Bench::new();
    let policy = || Policy::new(Effect::Opaque);
    bench.hapax.declare("order.pay", policy().formerly(&["pay"])).unwrap();
    for (name, taken) in [
        ("order.pay", policy()),
        ("pay", policy()),
        ("other", policy().formerly(&["pay"])),
        ("another", policy().formerly(&["order.pay"])),
    ] {
        let error = bench.hapax.declare(name, taken).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{name}");
        let free = OperationName::parse(name).unwrap();
        let known = bench.hapax.operation(&free).is_some();
        assert_eq!(known, ["order.pay", "pay"].contains(&name), "a refusal declares nothing");
    }
    for name in ["", "Order", "a b", "é", &"x".repeat(65)] {
        assert_eq!(bench.hapax.declare(name, policy()).unwrap_err().kind(), Kind::Invalid);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renamed_operation_finds_its_records() {
    let bench = Bench::new();
    let old = bench.declare(Effect::Opaque);
    lease(call(&old, "key")).await.complete(value("before")).await.unwrap();

    let (once, twice) = (bench.twin(), bench.twin());
    let policy = |names| Policy::new(Effect::Opaque).lease(LEASE).formerly(names);
    let once = once.hapax.declare("bench.pay", policy(&["bench.op"])).unwrap();
    let twice = twice.hapax.declare("bench.settle", policy(&["bench.op", "bench.pay"])).unwrap();
    for renamed in [once, twice] {
        let again = call(&renamed, "key").begin().await;
        assert!(matches!(again, Ok(Begin::Replay(outcome)) if outcome == value("before")));
        assert_eq!(call(&renamed, "key").id(), call(&old, "key").id());
    }
}
