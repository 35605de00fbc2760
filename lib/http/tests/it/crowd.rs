//! Ten thousand duplicates at once.

use std::collections::BTreeMap;

use axum::body::Body;
use http::Request;
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::site::{Plan, Site, answer};
use hapax_core::{Effect, FOLLOWERS_PER_KEY_MAX};

const DUPLICATES: usize = 10_000;

async fn site() -> Site {
    Plan::new(Effect::Opaque)
        .serve(|effects, request| async move {
            let nth = effects.happen();
            if request.headers().get("idempotency-key").unwrap() == "hot" {
                effects.gate.pass().await;
            }
            answer(201, format!("run {nth}"))
        })
        .await
}

fn ask(key: &str) -> Request<Body> {
    Request::post("/work")
        .header("authorization", "shop/ann")
        .header("idempotency-key", key)
        .header("prefer", "wait=10")
        .body(Body::from("{}"))
        .unwrap()
}

/// Guards the claim before the handler: run first and stored afterwards, there are 10,000 effects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_duplicates_run_once() {
    let site = site().await;
    let mut asking = JoinSet::new();
    for _ in 0..DUPLICATES {
        let request = ask("hot");
        let router = site.router.clone();
        asking.spawn(async move { router.oneshot(request).await.unwrap() });
    }
    site.effects.reach(1).await;

    // One leads, so many follow, and all others are told to come back, before anything is done.
    let crowded = DUPLICATES - 1 - FOLLOWERS_PER_KEY_MAX;
    let mut tally = BTreeMap::new();
    let mut count = |response: http::Response<Body>| {
        let replayed = response.headers().contains_key("idempotency-replayed");
        *tally.entry((response.status().as_u16(), replayed)).or_insert(0) += 1;
    };
    for _ in 0..crowded {
        count(asking.join_next().await.unwrap().unwrap());
    }
    assert_eq!((site.effects.count(), site.spy.asked().claims), (1, 1));

    // Another key flows by.
    let other = site.router.clone().oneshot(ask("cold")).await.unwrap();
    assert_eq!(other.status(), 201);

    site.effects.gate.open();
    while let Some(response) = asking.join_next().await {
        count(response.unwrap());
    }
    let expected =
        [((201, false), 1), ((201, true), FOLLOWERS_PER_KEY_MAX), ((409, false), crowded)];
    assert_eq!(tally, expected.into_iter().collect());
    assert_eq!(site.effects.count(), 2, "one run a key");
    let asked = site.spy.asked();
    assert_eq!((asked.claims, asked.completes), (2, 2), "one claim and one completion a key");
}
