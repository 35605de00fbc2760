//! Nothing that a client sent as a key is ever logged.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

use crate::{
    site::{Plan, answer},
    wire::Ask,
};
use hapax_core::{Effect, store::Step};

const SECRET: &str = "s3cr3t-k3y-0f-ann";

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Paper {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Guards every log line of the crate and of what is below it, at the lowest level: all ways
/// through the layer, with everything on paper.
#[tokio::test]
async fn no_log_line_holds_a_key_at_any_level() {
    let paper = Paper::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(paper.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let short = Duration::from_millis(60);
    let site = Plan::new(Effect::Opaque)
        .policy(|policy| policy.lease(short))
        .serve(|effects, request| async move {
            let amount = axum::body::to_bytes(request.into_body(), 100).await.unwrap();
            assert_ne!(&amount[..], b"13", "unlucky");
            let status = if &amount[..] == b"5" { 500 } else { 201 };
            answer(status, format!("run {}", effects.happen()))
        })
        .await;
    let ask = |key: &str, amount: &str| Ask::post("/work").by("shop/ann").key(key).json(amount);
    let key = |nth: u8| format!("{SECRET}-{nth}");
    for (nth, amount) in [(1, "1"), (1, "1"), (1, "2"), (2, "5"), (2, "5"), (3, "13"), (3, "13")] {
        ask(&key(nth), amount).send(site.address).await;
    }
    for bad in [format!("\"{SECRET}"), format!("{SECRET},x"), SECRET.repeat(20)] {
        ask(&bad, "1").send(site.address).await;
    }
    let path = format!("/v1/operations/work.do/{}", key(1));
    assert_eq!(Ask::of("GET", &path).by("shop/ann").send(site.address).await.status, 200);
    site.spy.fail(|step| matches!(step, Step::Complete { .. }));
    ask(&key(4), "1").send(site.address).await;
    site.spy.fail(|_| true);
    ask(&key(5), "1").send(site.address).await;

    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    for sentence in ["a handler panicked or", "could not be stored", "could not be recorded"] {
        assert!(text.contains(sentence), "the paper is in use: {text}");
    }
    assert!(!text.contains(SECRET), "{text}");
    assert!(!text.contains("s3cr3t"), "not even a part of it");
}
