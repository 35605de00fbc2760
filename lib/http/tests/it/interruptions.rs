//! Clients that go away, timeouts around the layer, panics and shutdown: none of them splits the
//! effect from its record.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body_util::{BodyExt, Full};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{
    site::{Effects, Plan, answer},
    wire::Ask,
};
use hapax_core::{Clock, Effect, Hapax, Policy, SystemClock, store::MemoryStore, store::Step};
use hapax_http::{Caller, Idempotency, IdempotencyLayer, Idempotent, InFlight, Refusal};

const EFFECTS: [Effect; 4] = [
    Effect::Transactional,
    Effect::Keyed { window: Duration::from_secs(60) },
    Effect::Queryable { quiet: Duration::ZERO },
    Effect::Opaque,
];

/// Guards `operation.spawn(turn.run(..))` in `service.rs`: awaited in place, the handler is
/// dropped with the connection and its second half never happens.
#[tokio::test]
async fn a_client_that_disconnects_never_cancels_the_work() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            let nth = effects.happen();
            answer(201, format!("effect {nth}"))
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1").json(r#"{"amount":1}"#);

    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask.bytes()).await.unwrap();
    site.effects.reach(1).await;
    socket.set_zero_linger().unwrap();
    drop(socket); // RST
    SystemClock.sleep(Duration::from_millis(50)).await;
    site.effects.gate.open();
    site.effects.reach(2).await;

    let wait = ask.clone().line("prefer", "wait=5");
    let retry = wait.send(site.address).await;
    assert_eq!((retry.status, retry.text().as_str()), (201, "effect 2"));
    assert!(retry.is_replay());
    assert_eq!(site.effects.count(), 2, "one run");
}

/// A hundred clients that go away at any byte of their request or at any moment of the answer.
#[tokio::test]
async fn clients_that_go_away_at_any_moment_leave_one_effect_a_key() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move {
            SystemClock.sleep(Duration::from_millis(2)).await;
            answer(201, format!("effect {}", effects.happen()))
        })
        .await;
    let ask = |nth: usize| {
        Ask::post("/work").by("shop/ann").key(&format!("k-{nth}")).json(r#"{"amount":1}"#)
    };
    for nth in 0..100 {
        let bytes = ask(nth).bytes();
        let cut = bytes.len() * (nth % 20 + 1) / 20;
        let mut socket = TcpStream::connect(site.address).await.unwrap();
        socket.write_all(&bytes[..cut]).await.unwrap();
        SystemClock.sleep(Duration::from_millis(u64::try_from(nth % 5).unwrap())).await;
        socket.set_zero_linger().unwrap();
        drop(socket);
    }
    for nth in 0..100 {
        let answer = ask(nth).line("prefer", "wait=5").send(site.address).await;
        assert_eq!(answer.status, 201, "{nth}: {}", answer.text());
    }
    assert_eq!(site.effects.count(), 100);
}

type Plain = Request<Full<Bytes>>;

fn plain_layer(policy: Policy) -> (Hapax, IdempotencyLayer) {
    let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    let operation = hapax.declare("work.do", policy).unwrap();
    let caller = |_: &Parts| Caller::parse("shop", "ann").map_err(|_| Refusal::ScopeMissing);
    (hapax, IdempotencyLayer::new(operation, caller))
}

fn plain_ask() -> Plain {
    Request::post("/").header("idempotency-key", "k-1").body(Full::from("x")).unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The same guard, with a plain tower service and tower's own timeout around the layer.
#[tokio::test]
async fn a_timeout_around_the_layer_ends_the_waiting_only() {
    let effects = Effects::default();
    let seen = effects.clone();
    let handler = service_fn(move |_: Plain| {
        let effects = seen.clone();
        async move {
            effects.gate.pass().await;
            let body = Full::from(format!("effect {}", effects.happen()));
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    let (_, layer) = plain_layer(Policy::new(Effect::Opaque));
    let guarded = layer.layer(handler);
    let timed = ServiceBuilder::new().timeout(Duration::from_millis(30)).service(guarded.clone());
    let error = timed.oneshot(plain_ask()).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
    assert_eq!(effects.count(), 0);
    effects.gate.open();
    effects.reach(1).await;

    let mut request = plain_ask();
    request.headers_mut().insert("prefer", "wait=5".parse().unwrap());
    let retry = guarded.oneshot(request).await.unwrap();
    assert_eq!(retry.headers().get("idempotency-replayed").unwrap(), "true");
    assert_eq!(text(retry).await, "effect 1");
}

/// Guards `answer_within` in `service.rs`: the first client is not kept waiting, and the work goes
/// on to its end.
#[tokio::test]
async fn a_first_request_can_be_answered_before_its_work_is_done() {
    let site = Plan::new(Effect::Opaque)
        .layer(|layer| layer.answer_within(Duration::from_millis(30)).in_flight(InFlight::accept()))
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            answer(201, "done")
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1");
    let first = ask.send(site.address).await;
    assert_eq!((first.status, first.text().as_str()), (202, r#"{"status":"processing"}"#));
    assert_eq!(first.line("location"), Some("/v1/operations/work.do/k-1"));
    site.effects.gate.open();
    let second = ask.line("prefer", "wait=5").send(site.address).await;
    assert_eq!((second.text().as_str(), second.is_replay()), ("done", true));
    assert_eq!(site.effects.count(), 1);
}

/// What a service error is to the record: the work may have happened.
///
/// Guards the arm `Ok(Err(error))` in `Turn::run`.
#[tokio::test]
async fn an_error_of_the_service_is_an_unknown_outcome() {
    let (_, layer) = plain_layer(Policy::new(Effect::Opaque));
    let handler = service_fn(|_: Plain| async { Err::<Response<Body>, _>("the wire broke") });
    let mut guarded: Idempotency<_> = layer.layer(handler);
    let error = guarded.ready().await.unwrap().call(plain_ask()).await.unwrap_err();
    assert_eq!(error, "the wire broke", "the error itself is passed on");
    let again = guarded.ready().await.unwrap().call(plain_ask()).await.unwrap();
    assert_eq!(again.status(), 409);
    assert!(text(again).await.contains("outcome_unknown"));
}

fn panics_first(effects: &Effects, is_first: bool, after_effect: bool) -> Response<Body> {
    if after_effect || !is_first {
        effects.happen();
    }
    assert!(!is_first, "the handler panics on its first attempt");
    answer(201, "done")
}

/// Guards `catch_unwind` in `Turn::run`: without it a handler that left its handle somewhere
/// holds the record for ever.
#[tokio::test]
async fn a_panic_is_an_outcome() {
    for effect in EFFECTS {
        for after_effect in [false, true] {
            let left = Mutex::new(Vec::new());
            let site = Plan::new(effect)
                .serve(move |effects, request| {
                    let turn: Idempotent = request.extensions().get().cloned().unwrap();
                    left.lock().unwrap().push(turn.clone());
                    let is_first = turn.attempt() == 1;
                    async move { panics_first(&effects, is_first, after_effect) }
                })
                .await;
            let ask = Ask::post("/work").by("shop/ann").key("k-1").json(r#"{"amount":1}"#);
            let first = ask.send(site.address).await;
            assert_eq!((first.status, first.code().as_str()), (500, "handler_failed"));
            assert_eq!(first.json().get("reuse_key"), Some(&serde_json::json!(true)));

            let again = ask.send(site.address).await;
            let reran = matches!(effect, Effect::Transactional | Effect::Keyed { .. });
            if reran {
                assert_eq!((again.status, again.is_replay()), (201, false), "{effect:?}");
            } else {
                assert_eq!(again.code(), "outcome_unknown", "{effect:?}");
            }
            let expected = usize::from(after_effect) + usize::from(reran);
            assert_eq!(site.effects.count(), expected, "{effect:?}, after: {after_effect}");
        }
    }
}

/// The same for a body that panics or breaks off while it is collected.
#[tokio::test]
async fn a_body_that_breaks_off_is_an_unknown_outcome() {
    for panics in [false, true] {
        let site = Plan::new(Effect::Opaque)
            .serve(move |effects, _| async move {
                effects.happen();
                let frames = futures_util::stream::unfold(0, move |nth| async move {
                    match nth {
                        0 => Some((Ok("begun"), 1)),
                        _ if panics => panic!("in the body"),
                        1 => Some((Err(std::io::Error::other("gone")), 2)),
                        _ => None,
                    }
                });
                answer(201, Body::from_stream(frames))
            })
            .await;
        let ask = Ask::post("/work").by("shop/ann").key("k-1");
        let first = ask.send(site.address).await;
        assert_eq!((first.status, first.code().as_str()), (500, "handler_failed"));
        let again = ask.send(site.address).await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome_unknown"));
        assert_eq!(site.effects.count(), 1);
    }
}

/// Guards `Operation::spawn` against a task that nobody waits for.
#[tokio::test]
async fn a_shutdown_waits_for_handlers_whose_clients_are_gone() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            effects.happen();
            answer(201, "done")
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1");
    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask.bytes()).await.unwrap();
    site.effects.reach(1).await;
    drop(socket);

    let (hapax, gate) = (site.hapax.clone(), Arc::clone(&site.effects.gate));
    let mut draining = JoinSet::new();
    draining.spawn(async move { hapax.drain().await });
    SystemClock.sleep(Duration::from_millis(50)).await;
    assert!(draining.try_join_next().is_none(), "a handler is still at work");
    gate.open();
    draining.join_next().await.unwrap().unwrap();
    assert_eq!(site.effects.count(), 2, "drained: the work is done");
    assert_eq!(site.spy.asked().completes, 1, "and stored");
}

/// A duplicate that asks for something else is told so at once, while the first one runs.
///
/// Guards that the layer does not answer "busy" by itself before it compares.
#[tokio::test]
async fn a_mismatch_wins_over_a_running_attempt() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move {
            effects.happen();
            effects.gate.pass().await;
            answer(201, "done")
        })
        .await;
    let ask = |amount: &str| Ask::post("/work").by("shop/ann").key("k-1").json(amount);
    let address = site.address;
    let mut first = JoinSet::new();
    first.spawn(async move { ask("1").send(address).await });
    site.effects.reach(1).await;

    let other = ask("2").line("prefer", "wait=5").send(address).await;
    assert_eq!((other.status, other.code().as_str()), (422, "key_reused"));
    let same = ask("1.0").send(address).await;
    assert_eq!((same.status, same.code().as_str()), (409, "in_progress"));
    site.effects.gate.open();
    assert_eq!(first.join_next().await.unwrap().unwrap().status, 201);
    assert_eq!(site.effects.count(), 1);
}

/// A holder that cannot renew is told, and its late answer gives way to the one that was stored.
///
/// Guards the arm `Kind::Fenced` in `Turn::complete`: without it two clients get two answers.
#[tokio::test]
async fn a_late_answer_gives_way_to_the_stored_one() {
    let lease = Duration::from_millis(60);
    let plan = || {
        let keyed = Effect::Keyed { window: Duration::from_secs(60) };
        Plan::new(keyed).policy(|policy| policy.lease(lease))
    };
    let slow = plan()
        .serve(|effects, request| async move {
            let turn: Idempotent = request.extensions().get().cloned().unwrap();
            effects.happen();
            turn.lost().cancelled().await;
            effects.gate.pass().await;
            answer(201, "the slow one")
        })
        .await;
    let fast = plan().beside(&slow).serve(|_, _| async { answer(201, "the fast one") }).await;
    slow.spy.fail(|step| matches!(step, Step::Renew { .. }));
    let ask = Ask::post("/work").by("shop/ann").key("k-1");
    let (address, first) = (slow.address, ask.clone());
    let mut asking = JoinSet::new();
    asking.spawn(async move { first.send(address).await });
    slow.effects.reach(1).await;

    SystemClock.sleep(lease * 3).await;
    let second = ask.send(fast.address).await;
    assert_eq!((second.status, second.text().as_str()), (201, "the fast one"));
    slow.effects.gate.open();
    let first = asking.join_next().await.unwrap().unwrap();
    assert_eq!((first.text().as_str(), first.is_replay()), ("the fast one", true));
    assert!(ask.send(slow.address).await.is_replay());
}
