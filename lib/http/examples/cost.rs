use std::{sync::Arc, time::Instant};

use axum::{Router, body::Body, routing::post};
use http::{Request, request::Parts};
use http_body_util::BodyExt;
use tower::ServiceExt;

use hapax_core::{Effect, Hapax, Policy, store::MemoryStore};
use hapax_http::*;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<_> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
async fn handler(
    b: bytes::Bytes,
) -> (http::StatusCode, [(&'static str, &'static str); 1], bytes::Bytes) {
    let _ = b;
    (
        http::StatusCode::CREATED,
        [("content-type", "application/json")],
        bytes::Bytes::from_static(br#"{"id":7,"status":"created","amount":"12.34"}"#),
    )
}
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    let op = hapax.declare("o", Policy::new(Effect::Opaque)).unwrap();
    let caller = Caller::parse("shop", "ann").unwrap();
    let guard = IdempotencyLayer::new(op, move |_: &Parts| Ok::<_, Refusal>(caller.clone()));
    let bare = Router::new().route("/o", post(handler));
    let guarded = Router::new().route("/o", post(handler).layer(guard));
    let n = 60000;
    let req = |k: &str| {
        Request::post("/o")
            .header("content-type", "application/json")
            .header("host", "x")
            .header("user-agent", "b")
            .header("idempotency-key", k)
            .body(Body::from(r#"{"order":"1001","amount":"12.34","currency":"CNY"}"#))
            .unwrap()
    };
    for round in 0..3 {
        for mode in ["bare", "fresh", "replay", "get"] {
            let t = Instant::now();
            let c = cpu();
            for i in 0..n {
                let k =
                    if mode == "fresh" { format!("k-{round}-{i}") } else { "k-same".to_string() };
                let mut r = req(&k);
                if mode == "get" {
                    *r.method_mut() = http::Method::GET;
                }
                let app = if mode == "bare" { bare.clone() } else { guarded.clone() };
                let resp = app.oneshot(r).await.unwrap();
                let _ = resp.into_body().collect().await.unwrap();
            }
            println!(
                "{mode}: {:.2} us wall {:.2} us cpu",
                t.elapsed().as_secs_f64() * 1e6 / n as f64,
                (cpu() - c) * 1e6 / n as f64
            );
        }
    }
}
