//! Whose key it is, and who may see an answer again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, middleware, routing::any};

use crate::{
    site::{Effects, Plan, answer, authenticate, listen},
    wire::Ask,
};
use hapax_core::{Effect, Hapax, Policy, store::MemoryStore};
use hapax_http::{FromExtension, IdempotencyLayer, Refusal};

/// Guards tenant, principal and operation in the id: without one of them there are four effects.
#[tokio::test]
async fn one_key_of_two_tenants_principals_and_operations_runs_eight_times() {
    let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    let effects = Effects::default();
    let mut router = Router::new();
    for name in ["order.create", "order.refund"] {
        let operation = hapax.declare(name, Policy::new(Effect::Opaque)).unwrap();
        let seen = effects.clone();
        let handler = any(move || async move { answer(201, format!("run {}", seen.happen())) });
        let guard = IdempotencyLayer::new(operation, FromExtension);
        router = router.route(&format!("/{name}"), handler.layer(guard));
    }
    let (address, _server) = listen(router.layer(middleware::from_fn(authenticate))).await;

    let mut answers = Vec::new();
    for round in 0..2 {
        for caller in ["shop/ann", "shop/bob", "mall/ann", "mall/bob"] {
            for name in ["order.create", "order.refund"] {
                let ask = Ask::post(&format!("/{name}")).by(caller).key("k-1").json("{}");
                let answer = ask.send(address).await;
                assert_eq!((answer.status, answer.is_replay()), (201, round == 1));
                answers.push(answer.text());
            }
        }
    }
    assert_eq!(effects.count(), 8);
    let (first, again) = answers.split_at(8);
    assert_eq!(first, again, "each gets its own answer again");
}

/// Guards the `?` on `principals.caller` in `admit`.
#[tokio::test]
async fn a_request_without_a_caller_is_refused() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move { answer(201, format!("run {}", effects.happen())) })
        .await;
    let refused = Ask::post("/work").key("k-1").json("{}").send(site.address).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "scope_required"));
    assert_eq!((site.effects.count(), site.spy.asked().claims), (0, 0));
}

/// What the application says about a caller is the answer.
#[tokio::test]
async fn a_refusal_of_the_application_is_the_answer() {
    for (refusal, status, code) in [
        (Refusal::ScopeMissing, 400, "scope_required"),
        (Refusal::Unauthenticated, 401, "unauthenticated"),
        (Refusal::Forbidden, 403, "forbidden"),
    ] {
        let hapax = Hapax::new(Arc::new(MemoryStore::new()));
        let operation = hapax.declare("op", Policy::new(Effect::Opaque)).unwrap();
        let guard = IdempotencyLayer::new(operation, move |_: &http::request::Parts| Err(refusal));
        let router = Router::new().route("/", any(|| async { "never" }).layer(guard));
        let (address, _server) = listen(router).await;
        let refused = Ask::post("/").key("k-1").send(address).await;
        assert_eq!((refused.status, refused.code().as_str()), (status, code));
    }
}

/// Guards the check in `service::replay`: without it a revoked caller reads the body again.
#[tokio::test]
async fn a_revoked_caller_gets_403_and_not_the_body() {
    let allowed = Arc::new(AtomicBool::new(true));
    let checked = Arc::clone(&allowed);
    let site = Plan::new(Effect::Opaque)
        .layer(move |layer| {
            layer.may_replay(move |parts, caller| {
                parts.uri.path() == "/work"
                    && caller.principal.as_str() == "ann"
                    && checked.load(Ordering::SeqCst)
            })
        })
        .serve(|effects, _| async move {
            effects.happen();
            answer(201, "the secret body")
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1").json("{}");
    assert_eq!(ask.send(site.address).await.text(), "the secret body");
    assert!(ask.send(site.address).await.is_replay());
    allowed.store(false, Ordering::SeqCst);
    let refused = ask.send(site.address).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    assert!(!refused.text().contains("secret"));
    assert_eq!(site.effects.count(), 1);
}
