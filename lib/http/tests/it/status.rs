//! The status of an operation by its key, and the answers that point there.

use std::{sync::Arc, time::Duration};

use axum::Router;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::{
    site::{Plan, answer},
    wire::{Answer, Ask},
};
use hapax_core::{
    Begin, Busy, Effect, Hapax, Policy, Principal, RequestKey, Tenant, TestClock, Timestamp,
    store::MemoryStore,
};
use hapax_http::{
    BusyStatus, Caller, Ended, FromExtension, Idempotent, InFlight, MismatchStatus, StatusRoutes,
};

fn ask(key: &str) -> Ask {
    Ask::post("/work").by("shop/ann").key(key).json("{}")
}

async fn status(address: std::net::SocketAddr, caller: &str, key: &str) -> Answer {
    let path = format!("/v1/operations/work.do/{key}");
    Ask::of("GET", &path).by(caller).send(address).await
}

/// A payment API: a loser waits for a moment, then gets 202 and a place to ask.
///
/// Guards `InFlight::accept`, and that the policy's wait is used without a `Prefer`.
#[tokio::test]
async fn a_repeat_in_flight_can_be_accepted_with_a_place_to_ask() {
    let site = Plan::new(Effect::Opaque)
        .policy(|policy| policy.busy(Busy::Wait(Duration::from_millis(50))))
        .layer(|layer| layer.in_flight(InFlight::accept()))
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            let body = answer(201, r#"{"id":7}"#);
            let (mut parts, body) = body.into_parts();
            parts.headers.insert("location", "/orders/7".parse().unwrap());
            axum::response::Response::from_parts(parts, body)
        })
        .await;
    let address = site.address;
    let mut first = JoinSet::new();
    first.spawn(async move { ask("a/b?c%d").send(address).await });
    site.effects.reach(1).await;

    let accepted = ask("a/b?c%d").send(address).await;
    assert_eq!((accepted.status, accepted.text().as_str()), (202, r#"{"status":"processing"}"#));
    assert_eq!(accepted.line("retry-after"), Some("1"));
    let place = accepted.line("location").unwrap().to_owned();
    assert_eq!(place, "/v1/operations/work.do/a%2Fb%3Fc%25d");

    let running = Ask::of("GET", &place).by("shop/ann").send(address).await;
    assert_eq!((running.status, running.line("retry-after")), (200, Some("1")));
    assert_eq!(running.json().get("status"), Some(&serde_json::json!("running")));

    site.effects.gate.open();
    assert_eq!(first.join_next().await.unwrap().unwrap().status, 201);
    let done = Ask::of("GET", &place).by("shop/ann").send(address).await.json();
    assert_eq!(done.get("status"), Some(&serde_json::json!("completed")));
    let kept = done.get("answer").unwrap();
    assert_eq!(kept.get("status"), Some(&serde_json::json!(201)));
    assert_eq!(kept.get("location"), Some(&serde_json::json!("/orders/7")));
    let replay = kept.get("replay").unwrap().as_str().unwrap().to_owned();
    let replay = Ask::of("GET", &replay).by("shop/ann").send(address).await;
    assert_eq!((replay.status, replay.text().as_str()), (201, r#"{"id":7}"#));
    assert!(replay.is_replay());
    assert_eq!(site.effects.count(), 1);
}

/// Guards the principal in the lookup of `Asked::look`.
#[tokio::test]
async fn the_status_of_another_caller_is_absent() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move { answer(201, format!("run {}", effects.happen())) })
        .await;
    ask("k-1").send(site.address).await;
    assert_eq!(status(site.address, "shop/ann", "k-1").await.status, 200);
    for stranger in ["shop/bob", "mall/ann"] {
        for path in ["k-1", "k-1/answer"] {
            let absent = status(site.address, stranger, path).await;
            assert_eq!((absent.status, absent.code().as_str()), (404, "key_unknown"));
        }
    }
    let nobody = status(site.address, "", "k-1").await;
    assert_eq!((nobody.status, nobody.code().as_str()), (400, "scope_required"));
    let other = Ask::of("GET", "/v1/operations/work.undone/k-1").by("shop/ann");
    assert_eq!(other.send(site.address).await.code(), "operation_unknown");
    let broken = Ask::of("GET", "/v1/operations/work.do/a%20b").by("shop/ann");
    assert_eq!(broken.send(site.address).await.code(), "key_invalid");
}

/// Guards `word` and the arms of `Asked::answer`.
#[tokio::test]
async fn every_state_has_its_word() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, request| async move {
            let key = request.headers().get("idempotency-key").unwrap().to_str().unwrap();
            effects.happen();
            match key {
                "completed" => answer(201, "done"),
                "unknown" => answer(500, "gone"),
                "open" => answer(429, "later"),
                _ => answer(200, vec![b'x'; 300 * 1024]),
            }
        })
        .await;
    for (key, word, code) in [
        ("completed", "completed", ""),
        ("unknown", "unknown", "outcome_unknown"),
        ("open", "open", "key_unknown"),
        ("large", "completed", "result_not_retained"),
    ] {
        ask(key).send(site.address).await;
        let told = status(site.address, "shop/ann", key).await.json();
        assert_eq!(told.get("status").unwrap(), word, "{told}");
        let answer = status(site.address, "shop/ann", &format!("{key}/answer")).await;
        assert_eq!(answer.code(), code, "{key}");
    }
    let large = status(site.address, "shop/ann", "large").await.json();
    assert_eq!(
        large.get("answer"),
        Some(&serde_json::json!({"status": 200})),
        "no place, no replay"
    );

    // An attempt that died without a word is unknown to its caller.
    let (tenant, principal) = (Tenant::parse("shop").unwrap(), Principal::parse("ann").unwrap());
    let name = hapax_core::OperationName::parse("work.do").unwrap();
    let key = RequestKey::parse("dead").unwrap();
    let call = site.hapax.operation(&name).unwrap().request(tenant, principal, key);
    drop(call.begin().await.unwrap());
    let told = status(site.address, "shop/ann", "dead").await.json();
    assert_eq!(told.get("status").unwrap(), "unknown");
}

/// Guards `StatusRoutes::completed` and `may_go_on`.
#[tokio::test]
async fn what_a_completer_goes_on_with_is_processing() {
    let clock = Arc::new(TestClock::at(Timestamp::from_millis(1_790_000_000_000)));
    let store = Arc::new(MemoryStore::with(clock.clone(), 10));
    // A process whose clock stands still renews nothing.
    let still = Arc::new(TestClock::at(Timestamp::from_millis(0)));
    let hapax = Hapax::on(store).clock(still).build();
    let window = Effect::Keyed { window: Duration::from_secs(100) };
    let operations = [("keyed", window), ("opaque", Effect::Opaque), ("left", window)];
    let operations = operations.map(|(name, effect)| {
        hapax.declare(name, Policy::new(effect).lease(Duration::from_secs(1))).unwrap()
    });
    let [keyed, opaque, _] = &operations;
    let routes = StatusRoutes::new(hapax.clone(), FromExtension);
    let router: Router = routes.completed(keyed).completed(opaque).router();
    let (tenant, principal) = (Tenant::parse("shop").unwrap(), Principal::parse("ann").unwrap());
    let mut held = Vec::new();
    for operation in &operations {
        let key = RequestKey::parse("k-1").unwrap();
        let call = operation.request(tenant.clone(), principal.clone(), key);
        let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is free") };
        held.push(lease);
    }
    let told = async |name: &str, path: &str| {
        let mut ask = http::Request::get(format!("/v1/operations/{name}/k-1{path}"))
            .body(axum::body::Body::empty())
            .unwrap();
        ask.extensions_mut().insert(Caller::parse("shop", "ann").unwrap());
        let answer = router.clone().oneshot(ask).await.unwrap();
        let wait = answer.headers().get("retry-after").cloned();
        let body = axum::body::to_bytes(answer.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let word =
            body.get("code").or_else(|| body.get("status")).unwrap().as_str().unwrap().to_owned();
        (word, wait.is_some())
    };
    let says = |word: &str, waits| (word.to_owned(), waits);
    assert_eq!(told("keyed", "").await, says("running", true));
    clock.advance(Duration::from_secs(2));
    assert_eq!(told("keyed", "").await, says("processing", true));
    assert_eq!(told("keyed", "/answer").await, says("in_progress", true));
    assert_eq!(told("opaque", "").await, says("unknown", false), "nobody may go on with it");
    assert_eq!(told("left", "").await, says("unknown", false), "nobody does");
    assert_eq!(told("left", "/answer").await.0, "outcome_unknown");
    clock.advance(Duration::from_secs(100));
    assert_eq!(told("keyed", "").await, says("unknown", false), "its window is over");
}

/// Guards `Idempotent::still_at_work`.
#[tokio::test]
async fn a_handler_can_answer_as_a_repeat_in_flight_is_answered() {
    let site = Plan::new(Effect::Keyed { window: Duration::from_secs(60) })
        .layer(|layer| layer.in_flight(InFlight::accept()))
        .serve(|effects, request| async move {
            let turn: Idempotent = request.extensions().get().cloned().unwrap();
            if effects.happen() > 1 {
                return answer(201, "done");
            }
            let mut early = turn.still_at_work(Duration::from_secs(1));
            early.extensions_mut().insert(Ended::Unknown);
            early
        })
        .await;
    let early = ask("k-1").send(site.address).await;
    assert_eq!((early.status, early.text().as_str()), (202, r#"{"status":"processing"}"#));
    assert_eq!(early.lines_of("location"), ["/v1/operations/work.do/k-1"]);
    assert_eq!(early.lines_of("retry-after"), ["1"]);
    let late = ask("k-1").send(site.address).await;
    assert_eq!((late.status, late.is_replay()), (201, false), "the next attempt goes on");
}

/// Guards the configurable statuses, and the links of the problems.
#[tokio::test]
async fn the_statuses_of_the_field_can_be_chosen() {
    for (busy, mismatch, expected) in [
        (BusyStatus::Conflict, MismatchStatus::Unprocessable, (409, 422)),
        (BusyStatus::TooEarly, MismatchStatus::Conflict, (425, 409)),
        (BusyStatus::TooMany, MismatchStatus::BadRequest, (429, 400)),
        (BusyStatus::Locked, MismatchStatus::Unprocessable, (423, 422)),
    ] {
        let site = Plan::new(Effect::Opaque)
            .layer(move |layer| {
                let layer = layer.in_flight(InFlight::refuse(busy)).mismatch(mismatch);
                layer.documented_at("https://docs.shop.test/keys")
            })
            .serve(|effects, _| async move {
                effects.happen();
                effects.gate.pass().await;
                answer(201, "done")
            })
            .await;
        let address = site.address;
        let mut first = JoinSet::new();
        first.spawn(async move { ask("k-1").send(address).await });
        site.effects.reach(1).await;
        let same = ask("k-1").send(address).await;
        let other = Ask::post("/work").by("shop/ann").key("k-1").json("[]").send(address).await;
        assert_eq!((same.status, other.status), expected);
        assert_eq!((same.code().as_str(), other.code().as_str()), ("in_progress", "key_reused"));
        assert_eq!(same.json().get("status"), Some(&serde_json::json!(same.status)));
        assert_eq!(
            same.lines_of("link"),
            ["</v1/operations/work.do/k-1>; rel=\"status\""],
            "an answer of the in-flight rule is its own"
        );
        let documented = "<https://docs.shop.test/keys>; rel=\"describedby\"";
        assert_eq!(other.lines_of("link"), [documented]);
        site.effects.gate.open();
        first.join_next().await;
    }
}

/// Guards `preferred_wait` and its cap in `admit`.
#[tokio::test]
async fn a_client_can_wait_for_the_first_answer_up_to_a_cap() {
    let site = Plan::new(Effect::Opaque)
        .layer(|layer| layer.wait_max(Duration::from_millis(100)))
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            answer(201, "done")
        })
        .await;
    let address = site.address;
    let mut asking = JoinSet::new();
    asking.spawn(async move { ask("k-1").send(address).await });
    site.effects.reach(1).await;
    // A wish of an hour ends at the cap.
    let capped = ask("k-1").line("prefer", "wait=3600").send(address).await;
    assert_eq!(capped.code(), "in_progress");
    asking.spawn(async move { ask("k-1").line("prefer", "wait=3600").send(address).await });
    site.effects.gate.open();
    let mut replays = 0;
    while let Some(answer) = asking.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.text(), "done");
        replays += usize::from(answer.is_replay());
    }
    assert_eq!((replays, site.effects.count()), (1, 1));
}
