//! A handler that closes the record itself, in its own transaction.

use bytes::Bytes;
use http::Response;

use crate::{
    site::{Plan, answer},
    wire::Ask,
};
use hapax_core::Effect;
use hapax_http::Idempotent;

/// Guards the `let Some(lease) = .. else` in `Turn::run`: what the handler sealed is not stored
/// again, and the repeat gets the very response.
#[tokio::test]
async fn a_handler_can_seal_its_own_answer() {
    let site = Plan::new(Effect::Transactional)
        .serve(|effects, request| async move {
            let turn: Idempotent = request.extensions().get().cloned().unwrap();
            effects.happen();
            let response = Response::builder().status(201).header("location", "/orders/7");
            let response = response.body(Bytes::from("sealed")).unwrap();
            let outcome = turn.outcome(&response);
            let lease = turn.take_lease().unwrap();
            assert!(turn.take_lease().is_none(), "there is one");
            lease.complete(outcome).await.unwrap();
            response.map(axum::body::Body::from)
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1").json("{}");
    let (first, again) = (ask.send(site.address).await, ask.send(site.address).await);
    assert_eq!((first.status, first.text().as_str(), first.is_replay()), (201, "sealed", false));
    assert_eq!((again.status, again.text().as_str(), again.is_replay()), (201, "sealed", true));
    assert_eq!(again.line("location"), Some("/orders/7"));
    assert_eq!((site.effects.count(), site.spy.asked().completes), (1, 1));
}

/// A lease that a handler took and dropped is handed on by its class, whatever it answers.
#[tokio::test]
async fn a_lease_that_was_taken_and_dropped_is_not_completed() {
    let site = Plan::new(Effect::Transactional)
        .serve(|effects, request| async move {
            let turn: Idempotent = request.extensions().get().cloned().unwrap();
            drop(turn.take_lease());
            answer(201, format!("run {}", effects.happen()))
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1").json("{}");
    assert_eq!(ask.send(site.address).await.text(), "run 1");
    assert_eq!(ask.send(site.address).await.text(), "run 2");
    assert_eq!(site.spy.asked().completes, 0);
}
