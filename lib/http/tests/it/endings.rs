//! What an answer says about the work, end to end: which keys are freed, kept, held or asked about.

use std::time::Duration;

use axum::{Json, http::StatusCode, response::IntoResponse, routing::any};
use bytes::Bytes;
use http::Response;

use crate::{
    site::{Effects, Plan, Site, answer},
    wire::Ask,
};
use hapax_core::Effect;
use hapax_http::{Checked, Ended, Idempotent, Verdict};

#[derive(serde::Deserialize)]
struct Order {
    amount: u32,
}

fn ask(body: &str) -> Ask {
    Ask::post("/work").by("shop/ann").key("k-1").json(body)
}

/// Guards `idempotent.refuse()` in `Checked` and `Progress::Refused` in `judge`: without them the
/// corrected request gets 422 `key_reused`.
#[tokio::test]
async fn a_corrected_request_may_come_with_the_same_key() {
    let effects = Effects::default();
    let seen = effects.clone();
    let handler = any(async move |turn: Idempotent, Checked(Json(order)): Checked<Json<Order>>| {
        assert_eq!(turn.attempt(), 1);
        format!("run {} for {}", seen.happen(), order.amount)
    });
    let site = Plan::new(Effect::Opaque).serve_route(handler, effects).await;
    for (bad, status) in [("{", 400), (r#"{"amount":-1}"#, 422)] {
        assert_eq!(ask(bad).send(site.address).await.status, status, "{bad}");
    }
    let no_type = Ask::post("/work").by("shop/ann").key("k-1").body(b"{}");
    assert_eq!(no_type.send(site.address).await.status, 415);
    let good = ask(r#"{"amount":7}"#).send(site.address).await;
    assert_eq!(good.text(), "run 1 for 7");
    assert!(ask(r#"{"amount":7}"#).send(site.address).await.is_replay());
    assert_eq!(ask(r#"{"amount":8}"#).send(site.address).await.code(), "key_reused");
}

/// Guards `idempotent.enter()` in `Checked`: once begun, a 403 is an answer like any other.
#[tokio::test]
async fn a_4xx_of_a_handler_that_has_begun_is_final() {
    for (status, is_final) in [
        (400, true),
        (402, true),
        (403, true),
        (404, true),
        (422, true),
        (409, false),
        (429, false),
    ] {
        let effects = Effects::default();
        let seen = effects.clone();
        let handler = any(async move |Checked(Json(_)): Checked<Json<Order>>| {
            seen.happen();
            answer(status, "no")
        });
        let site = Plan::new(Effect::Opaque).serve_route(handler, effects).await;
        for round in 0..2 {
            let answer = ask(r#"{"amount":1}"#).send(site.address).await;
            assert_eq!((answer.status, answer.is_replay()), (status, is_final && round == 1));
        }
        assert_eq!(site.effects.count(), if is_final { 1 } else { 2 }, "{status}");
    }
}

/// Guards the line that reads `Ended` in `Turn::close`.
#[tokio::test]
async fn a_handler_can_say_what_its_answer_means() {
    for (ended, status, again, code) in [
        (Ended::Final, 409, 409, ""),
        (Ended::Final, 503, 503, ""),
        (Ended::NoEffect, 503, 503, ""),
        (Ended::NoEffect, 200, 200, ""),
        (Ended::Unknown, 200, 409, "outcome_unknown"),
    ] {
        let site = Plan::new(Effect::Opaque)
            .serve(move |effects, _| async move {
                effects.happen();
                (StatusCode::from_u16(status).unwrap(), ended, "said").into_response()
            })
            .await;
        assert_eq!(ask("1").send(site.address).await.status, status);
        let second = ask("1").send(site.address).await;
        assert_eq!((second.status, second.code().as_str()), (again, code), "{ended:?} {status}");
        assert_eq!(second.is_replay(), ended == Ended::Final);
        let runs = if ended == Ended::NoEffect { 2 } else { 1 };
        assert_eq!(site.effects.count(), runs, "{ended:?} {status}");
    }
}

/// Guards `settings.refusals` in `judge`.
#[tokio::test]
async fn a_declared_refusal_frees_the_key() {
    let site = Plan::new(Effect::Opaque)
        .layer(|layer| layer.refusals([StatusCode::UNPROCESSABLE_ENTITY]))
        .serve(|effects, _| async move {
            effects.happen();
            answer(422, "amount is missing")
        })
        .await;
    ask("1").send(site.address).await;
    assert_eq!(ask("2").send(site.address).await.text(), "amount is missing");
    assert_eq!(site.effects.count(), 2);
}

/// Guards `Closing::of`: a 5xx is never stored, and the class says what follows.
#[tokio::test]
async fn a_5xx_is_an_unknown_outcome_of_its_class() {
    let keyed = Effect::Keyed { window: Duration::from_secs(60) };
    for (effect, second, code) in [
        (Effect::Transactional, 201, ""),
        (keyed, 201, ""),
        (Effect::Queryable { quiet: Duration::ZERO }, 409, "outcome_unknown"),
        (Effect::Opaque, 409, "outcome_unknown"),
    ] {
        let site = Plan::new(effect)
            .serve(|effects, request| async move {
                let turn: Idempotent = request.extensions().get().cloned().unwrap();
                let key = turn.child_key("charge");
                answer(if effects.happen() == 1 { 503 } else { 201 }, key)
            })
            .await;
        let first = ask("1").send(site.address).await;
        assert_eq!((first.status, first.is_replay()), (503, false), "the answer itself");
        let again = ask("1").send(site.address).await;
        assert_eq!((again.status, again.code().as_str()), (second, code), "{effect:?}");
        if second == 201 {
            assert_eq!(first.text(), again.text(), "the same key goes downstream");
        }
    }
}

async fn asked_about(verdict: fn() -> Verdict) -> Site {
    Plan::new(Effect::Queryable { quiet: Duration::ZERO })
        .layer(move |layer| {
            layer.verify(move |work: hapax_core::Work, request: http::Request<Bytes>| {
                assert_eq!((work.attempt() > 1, &request.body()[..]), (true, &b"1"[..]));
                Box::pin(std::future::ready(verdict())) as futures_util::future::BoxFuture<'_, _>
            })
        })
        .serve(|effects, _| async move {
            let nth = effects.happen();
            answer(if nth == 1 { 500 } else { 201 }, format!("run {nth}"))
        })
        .await
}

/// Guards the arms of `Turn::verify`: the effect is asked about and not done again.
#[tokio::test]
async fn a_dead_attempt_is_asked_about_and_its_answer_given() {
    let happened = || {
        let answer = Response::builder().status(201).header("location", "/charges/7");
        Verdict::Happened(answer.body(Bytes::from("charged")).unwrap())
    };
    let site = asked_about(happened).await;
    assert_eq!(ask("1").send(site.address).await.status, 500);
    for _ in 0..2 {
        let found = ask("1").send(site.address).await;
        assert_eq!((found.status, found.text().as_str()), (201, "charged"));
        assert_eq!(found.line("location"), Some("/charges/7"));
        assert!(found.is_replay());
    }
    assert_eq!(site.effects.count(), 1);
}

#[tokio::test]
async fn a_sealed_attempt_is_done_again_and_an_unclear_one_is_not() {
    let sealed = asked_about(|| Verdict::Sealed).await;
    ask("1").send(sealed.address).await;
    assert_eq!(ask("1").send(sealed.address).await.text(), "run 2");

    for verdict in [(|| Verdict::Unclear) as fn() -> Verdict, || panic!("the receiver is gone")] {
        let unclear = asked_about(verdict).await;
        ask("1").send(unclear.address).await;
        let held = ask("1").send(unclear.address).await;
        assert_eq!((held.status, held.code().as_str()), (409, "outcome_unknown"));
        assert_eq!(unclear.effects.count(), 1);
    }
}

/// Guards the look in `service::begin`: without it each retry uses up an attempt, and after five
/// of them not even the completer may ask the receiver.
#[tokio::test]
async fn retries_leave_the_attempts_to_the_completer() {
    let site = Plan::new(Effect::Queryable { quiet: Duration::ZERO })
        .serve(|effects, _| async move {
            effects.happen();
            answer(500, "gone")
        })
        .await;
    for _ in 0..10 {
        ask("1").send(site.address).await;
    }
    let status = Ask::of("GET", "/v1/operations/work.do/k-1").by("shop/ann");
    let status = status.send(site.address).await.json();
    assert_eq!(status.get("attempts"), Some(&serde_json::json!(1)), "{status}");
    assert_eq!(site.effects.count(), 1);
}
