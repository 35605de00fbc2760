//! A store that is down, and one that goes down at the worst moment.

use std::time::Duration;

use crate::{
    site::{Plan, Site, answer, until},
    wire::Ask,
};
use hapax_core::{Effect, Policy, store::Step};
use hapax_http::StoreDown;

async fn site(rule: StoreDown, policy: impl FnOnce(Policy) -> Policy) -> Site {
    Plan::new(Effect::Opaque)
        .policy(policy)
        .layer(move |layer| layer.store_down(rule))
        .serve(|effects, _| async move { answer(201, format!("run {}", effects.happen())) })
        .await
}

fn ask() -> Ask {
    Ask::post("/work").by("shop/ann").key("k-1").json("{}")
}

/// Guards the last arm of `guard`: the handler does not run.
#[tokio::test]
async fn a_store_that_is_down_refuses_and_nothing_runs() {
    let site = site(StoreDown::Refuse, |policy| policy).await;
    site.spy.fail(|_| true);
    let refused = ask().send(site.address).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "store_unavailable"));
    assert_eq!(refused.line("retry-after"), Some("1"));
    assert_eq!(refused.json().get("reuse_key"), Some(&serde_json::json!(true)));
    assert_eq!(site.effects.count(), 0);
    site.spy.heal();
    assert_eq!(ask().send(site.address).await.text(), "run 1");
    assert!(ask().send(site.address).await.is_replay());
}

/// Guards the mark in `unprotected`: an operation that opens its door says so each time.
#[tokio::test]
async fn fail_open_is_marked_on_every_answer() {
    let site = site(StoreDown::FailOpen, |policy| policy).await;
    site.spy.fail(|_| true);
    for nth in 1..=2 {
        let open = ask().send(site.address).await;
        assert_eq!((open.status, open.text()), (201, format!("run {nth}")));
        assert_eq!(open.line("idempotency-degraded"), Some("fail-open"));
    }
    site.spy.heal();
    let guarded = ask().send(site.address).await;
    assert_eq!((guarded.text().as_str(), guarded.line("idempotency-degraded")), ("run 3", None));
}

/// Guards the last arm of `Turn::complete`: the effect is there, so its real answer is given.
#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_given_and_marked() {
    let short = Duration::from_millis(60);
    let site = site(StoreDown::Refuse, |policy| policy.lease(short)).await;
    site.spy.fail(|step| matches!(step, Step::Complete { .. }));
    let first = ask().send(site.address).await;
    assert_eq!((first.status, first.text().as_str()), (201, "run 1"));
    assert_eq!(first.line("idempotency-degraded"), Some("not-stored"));
    site.spy.heal();
    let again = ask().send(site.address).await;
    assert_eq!(again.code(), "outcome_unknown", "held by its class, and never run again");
    assert_eq!(site.effects.count(), 1);
}

/// A store that comes back within the lease loses nothing.
#[tokio::test]
async fn a_completion_is_tried_until_the_store_is_back() {
    let site = site(StoreDown::Refuse, |policy| policy).await;
    site.spy.fail(|step| matches!(step, Step::Complete { .. }));
    let address = site.address;
    let mut first = tokio::task::JoinSet::new();
    first.spawn(async move { ask().send(address).await });
    until(|| site.spy.asked().completes >= 3).await;
    site.spy.heal();
    let first = first.join_next().await.unwrap().unwrap();
    assert_eq!((first.text().as_str(), first.line("idempotency-degraded")), ("run 1", None));
    assert!(ask().send(address).await.is_replay());
}
