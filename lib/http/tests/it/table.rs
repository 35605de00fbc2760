//! The decision table as a golden file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use crate::{
    site::{Plan, Site, answer},
    wire::{Answer, Ask},
};
use hapax_core::{Clock, Effect, TestClock, Timestamp};

#[derive(Clone, Copy, Debug)]
enum State {
    Absent,
    Running,
    Completed,
    Unknown,
    Open,
    Expired,
}

const STATES: [State; 6] =
    [State::Absent, State::Running, State::Completed, State::Unknown, State::Open, State::Expired];

/// Holds everything that must stay alive while the question is asked.
struct Scene {
    site: Site,
    _first: JoinSet<Answer>,
}

fn first() -> Ask {
    Ask::post("/work").by("shop/ann").key("k-1").json(r#"{"amount":1}"#)
}

async fn scene(state: State) -> Scene {
    let clock = Arc::new(TestClock::at(Timestamp::from_millis(784_111_777_000)));
    let status = Arc::new(AtomicU16::new(201));
    let says = Arc::clone(&status);
    let plan = Plan::new(Effect::Opaque).clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let site = plan
        .serve(move |effects, _| {
            let says = Arc::clone(&says);
            async move {
                let nth = effects.happen();
                if says.load(Ordering::SeqCst) == 0 {
                    effects.gate.pass().await;
                }
                answer(says.load(Ordering::SeqCst), format!("run {nth}"))
            }
        })
        .await;
    let mut running = JoinSet::new();
    match state {
        State::Absent => {}
        State::Running => {
            status.store(0, Ordering::SeqCst);
            let address = site.address;
            running.spawn(async move { first().send(address).await });
            site.effects.reach(1).await;
        }
        State::Completed | State::Expired => {
            assert_eq!(first().send(site.address).await.status, 201);
        }
        State::Unknown => {
            status.store(500, Ordering::SeqCst);
            assert_eq!(first().send(site.address).await.status, 500);
        }
        State::Open => {
            status.store(429, Ordering::SeqCst);
            assert_eq!(first().send(site.address).await.status, 429);
        }
    }
    if matches!(state, State::Expired) {
        clock.advance(Duration::from_secs(25 * 60 * 60));
    }
    status.store(201, Ordering::SeqCst);
    Scene { site, _first: running }
}

fn row(answer: &Answer, ran: usize) -> String {
    let json = answer.json();
    let said = |name: &str| json.get(name).map_or_else(|| "-".to_owned(), ToString::to_string);
    let line = |name: &str| answer.line(name).unwrap_or("-").to_owned();
    format!(
        "{} code={} retryable={} reuse_key={} retry-after={} replayed={} link={} ran={ran}",
        answer.status,
        said("code"),
        said("retryable"),
        said("reuse_key"),
        line("retry-after"),
        line("idempotency-replayed"),
        line("link"),
    )
}

/// Guards the order of the arms and questions in `service.rs` and `admit`.
#[tokio::test]
async fn the_decision_table() {
    let questions = [
        ("same", first()),
        ("different", Ask::post("/work").by("shop/ann").key("k-1").json(r#"{"amount":2}"#)),
        ("no key", Ask::post("/work").by("shop/ann").json(r#"{"amount":1}"#)),
        ("malformed", Ask::post("/work").by("shop/ann").key("\"k-1").json(r#"{"amount":1}"#)),
        ("twice", first().key("k-1")),
        ("no caller", Ask::post("/work").key("k-1").json(r#"{"amount":1}"#)),
    ];
    let mut table = Vec::new();
    for state in STATES {
        for (name, question) in &questions {
            let scene = scene(state).await;
            let before = scene.site.effects.count();
            let answer = question.send(scene.site.address).await;
            let ran = scene.site.effects.count() - before;
            table.push(format!("{state:?} | {name}: {}", row(&answer, ran)));
        }
    }
    insta::assert_snapshot!(table.join("\n"));
}
