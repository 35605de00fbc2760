//! A replay is the first answer: status, bytes, header lines.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::HeaderName;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::{
    site::{Plan, Site, answer},
    wire::{Answer, Ask},
};
use hapax_core::{Clock, Effect, TestClock, Timestamp};

/// gzip of `{"ok":true}`.
const GZIP: [u8; 31] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab, 0x56, 0xca, 0xcf, 0x56, 0xb2,
    0x2a, 0x29, 0x2a, 0x4d, 0xad, 0x05, 0x00, 0x90, 0x5f, 0xd4, 0xa7, 0x0b, 0x00, 0x00, 0x00,
];

fn built(status: u16, lines: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in lines {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

fn chunked(chunks: &'static [&'static str]) -> Body {
    let chunks = chunks.iter().map(|chunk| Ok::<_, std::convert::Infallible>(*chunk));
    Body::from_stream(stream::iter(chunks))
}

/// What the handler answers below `/jobs/…`.
fn answers(path: &str) -> Response {
    match path {
        "/jobs/binary" => built(
            200,
            &[("content-type", "application/octet-stream")],
            Bytes::from_static(&[0xff, 0xfe, 0x00, 0x80, 0x41, 0x0d, 0x0a]),
        ),
        "/jobs/empty" => built(204, &[("etag", "\"v1\"")], Body::empty()),
        "/jobs/see-other" => built(303, &[("location", "/orders/7")], Body::empty()),
        "/jobs/links" => built(
            201,
            &[
                ("link", "</a>; rel=\"next\", </b>; rel=\"prev\""),
                ("link", "</c>; rel=\"last\""),
                ("location", "/orders/7"),
                ("content-location", "/orders/7?v=1"),
                ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ],
            "two lines",
        ),
        "/jobs/comma" => built(
            200,
            &[
                ("content-disposition", "attachment; filename=\"a, b; c.csv\""),
                ("content-language", "de, en"),
            ],
            "1,2",
        ),
        "/jobs/gzip" => built(
            200,
            &[("content-type", "application/json"), ("content-encoding", "gzip")],
            Bytes::from_static(&GZIP),
        ),
        "/jobs/chunked" => {
            built(200, &[("content-type", "text/plain")], chunked(&["one ", "", "two"]))
        }
        "/jobs/latin" => {
            let mut response = built(200, &[], "x");
            let value = http::HeaderValue::from_bytes(b"attachment; filename=\"caf\xe9\"").unwrap();
            response.headers_mut().insert("content-disposition", value);
            response
        }
        _ => built(
            200,
            &[
                ("set-cookie", "session=secret"),
                ("set-cookie", "other=secret"),
                ("authorization", "secret"),
                ("www-authenticate", "secret"),
                ("server", "one instance"),
                ("ratelimit-remaining", "3"),
                ("x-request-id", "trace-1"),
                ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                ("cache-control", "max-age=60"),
                ("retry-after", "9"),
                ("x-price-list", "2026-11"),
                ("content-type", "text/plain"),
            ],
            "whole",
        ),
    }
}

async fn site() -> Site {
    let clock = TestClock::at(Timestamp::from_millis(784_111_777_000));
    Plan::new(Effect::Opaque)
        .clock(std::sync::Arc::new(clock) as std::sync::Arc<dyn Clock>)
        .layer(|layer| layer.keep_headers([HeaderName::from_static("x-price-list")]).unwrap())
        .serve(|effects, request| async move {
            effects.happen();
            answers(request.uri().path())
        })
        .await
}

const CASES: [&str; 9] =
    ["binary", "empty", "see-other", "links", "comma", "gzip", "chunked", "latin", "secrets"];

fn shown(answer: &Answer) -> String {
    let mut lines: Vec<_> = answer.lines.iter().map(|(n, v)| format!("  {n}: {v}\n")).collect();
    // The server's own clock.
    lines.retain(|line| !line.starts_with("  date: "));
    format!("{}\n{}  {:?}\n", answer.status, lines.concat(), Bytes::from(answer.body.clone()))
}

/// Guards `Stored::read`, `KEPT` and `NEVER`, and that the first answer is not touched: both are
/// in the golden file, one below the other.
#[tokio::test]
async fn a_replay_is_the_first_answer() {
    let site = site().await;
    let mut golden = Vec::new();
    for case in CASES {
        if case == "latin" {
            continue; // not text: compared below
        }
        let ask = Ask::post(&format!("/jobs/{case}")).by("shop/ann").key(case);
        let ask = ask.line("x-request-id", "req-1");
        let (first, replay) = (ask.send(site.address).await, ask.send(site.address).await);
        assert_eq!((first.status, &first.body), (replay.status, &replay.body), "{case}");
        assert!(replay.is_replay() && !first.is_replay(), "{case}");
        let (first, replay) = (shown(&first), shown(&replay));
        golden.push(format!("{case}: first {first}{case}: again {replay}"));
    }
    assert_eq!(site.effects.count(), CASES.len() - 1);
    insta::assert_snapshot!(golden.concat());
}

/// Guards `HeaderValue::from_maybe_shared` in `Stored::read` against text decoding.
#[tokio::test]
async fn a_header_that_is_not_utf8_is_given_again_as_it_was() {
    use tower::ServiceExt;
    let site = site().await;
    for _ in 0..2 {
        let request = http::Request::post("/jobs/latin")
            .header("authorization", "shop/ann")
            .header("idempotency-key", "latin")
            .body(Body::empty())
            .unwrap();
        let response = site.router.clone().oneshot(request).await.unwrap();
        let value = response.headers().get("content-disposition").unwrap();
        assert_eq!(value.as_bytes(), b"attachment; filename=\"caf\xe9\"");
    }
    assert_eq!(site.effects.count(), 1);
}

/// Guards that nothing of the framing is stored: an answer of HTTP/1.1 is replayed over HTTP/2.
#[tokio::test]
async fn a_replay_over_http2_is_the_same_answer() {
    let site = site().await;
    let first = Ask::post("/jobs/chunked").by("shop/ann").key("k-1").send(site.address).await;
    assert_eq!((first.text().as_str(), first.line("content-length")), ("one two", Some("7")));

    let socket = tokio::net::TcpStream::connect(site.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(async move { drop(connection.await) });
    let request = http::Request::post(format!("http://{}/jobs/chunked", site.address))
        .header("authorization", "shop/ann")
        .header("idempotency-key", "k-1")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let replay = client.send_request(request).await.unwrap();
    assert_eq!(replay.status(), 200);
    assert_eq!(replay.headers().get("idempotency-replayed").unwrap(), "true");
    assert_eq!(replay.headers().get("content-type").unwrap(), "text/plain");
    assert_eq!(replay.into_body().collect().await.unwrap().to_bytes(), "one two");
    assert_eq!(site.effects.count(), 1);
}

/// Guards `may_keep` in `keep_headers`.
#[tokio::test]
async fn a_secret_cannot_be_declared_as_kept() {
    for name in ["set-cookie", "authorization", "proxy-authorization", "connection", "date"] {
        let hapax =
            hapax_core::Hapax::new(std::sync::Arc::new(hapax_core::store::MemoryStore::new()));
        let operation = hapax.declare("op", hapax_core::Policy::new(Effect::Opaque)).unwrap();
        let layer = hapax_http::IdempotencyLayer::new(operation, hapax_http::FromExtension);
        let name = HeaderName::from_static(name);
        let refused = layer.keep_headers([name]).unwrap_err();
        assert!(refused.to_string().contains("never given again"), "{refused}");
    }
}

/// Guards the arm for `Outcome::Value` in `Turn::stored`: what cannot be read is never run again.
#[tokio::test]
async fn an_answer_of_a_newer_build_is_not_run_again() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, request| async move {
            effects.happen();
            let turn: hapax_http::Idempotent = request.extensions().get().cloned().unwrap();
            let newer = Bytes::from_static(&[9, 0, 1, 2]);
            let lease = turn.take_lease().unwrap();
            lease.complete(hapax_core::Outcome::Value(newer)).await.unwrap();
            answer(201, "first")
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1");
    assert_eq!(ask.send(site.address).await.text(), "first");
    let again = ask.send(site.address).await;
    assert_eq!((again.status, again.code().as_str()), (503, "answer_unreadable"));
    assert_eq!(site.effects.count(), 1);
}
