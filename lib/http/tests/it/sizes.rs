//! Answers around the bound of what is stored, and answers that stream.

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::{
    site::{Plan, Site, answer},
    wire::{Ask, read_chunk, read_head},
};
use hapax_core::{Clock, Effect, SystemClock};
use hapax_http::Streamed;

const CAP: usize = 4096;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|nth| u8::try_from(nth % 251).unwrap()).collect()
}

/// `length` bytes in chunks of a thousand, with no length declared.
fn in_chunks(length: usize) -> Body {
    let chunks: Vec<_> = pattern(length).chunks(1000).map(Bytes::copy_from_slice).collect();
    let chunks = chunks.into_iter().map(Ok::<_, std::convert::Infallible>);
    Body::from_stream(stream::iter(chunks))
}

async fn site() -> Site {
    Plan::new(Effect::Opaque)
        .policy(|policy| policy.outcome_bytes_max(CAP))
        .serve(|effects, request| async move {
            effects.happen();
            let path = request.uri().path().to_owned();
            let mut parts = path.split('/').skip(2);
            let shape = parts.next().unwrap().to_owned();
            let length: usize = parts.next().unwrap().parse().unwrap();
            let body = match shape.as_str() {
                "whole" => Body::from(pattern(length)),
                _ => in_chunks(length),
            };
            Response::builder().status(201).header("location", "/big/1").body(body).unwrap()
        })
        .await
}

/// Guards the bound and `resume` in `gather`: a byte lost, doubled or stored above the bound shows.
#[tokio::test]
async fn answers_around_the_bound_arrive_whole() {
    let site = site().await;
    let mut runs = 0;
    for shape in ["whole", "chunks"] {
        for length in [0, 1, CAP - 1, CAP, CAP + 1, 3 * CAP, 1024 * 1024] {
            let ask = Ask::post(&format!("/jobs/{shape}/{length}")).by("shop/ann");
            let ask = ask.key(&format!("{shape}-{length}"));
            let first = ask.send(site.address).await;
            runs += 1;
            assert_eq!((first.status, first.body.len()), (201, length), "{shape}");
            assert_eq!(first.body, pattern(length), "{shape} {length}");

            let again = ask.send(site.address).await;
            if length <= CAP {
                assert!(again.is_replay() && again.body == first.body, "{shape} {length}");
            } else {
                assert_eq!(again.code(), "result_not_retained", "{shape} {length}");
                assert_eq!((again.status, again.line("location")), (409, Some("/big/1")));
            }
            assert_eq!(site.effects.count(), runs, "never a second run: {shape} {length}");
        }
    }
}

/// Guards that the bound is a bound: what the layer has read ahead of its client is counted.
#[tokio::test]
async fn a_large_answer_is_not_held_in_memory() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let site = Plan::new(Effect::Opaque)
        .policy(|policy| policy.outcome_bytes_max(CAP))
        .serve(move |_, _| {
            let made = Arc::clone(&counter);
            async move {
                // A gibibyte, made as it is read.
                let chunks = stream::unfold(0_usize, move |nth| {
                    made.fetch_add(1024, Ordering::SeqCst);
                    let chunk = Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; 1024]));
                    std::future::ready((nth < 1024 * 1024).then_some((chunk, nth + 1)))
                });
                answer(200, Body::from_stream(chunks))
            }
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1");
    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask.bytes()).await.unwrap();
    let mut socket = BufReader::new(socket);
    assert!(read_head(&mut socket).await.starts_with("HTTP/1.1 200"));
    SystemClock.sleep(Duration::from_millis(100)).await;
    // The rest is in the buffers of the two sockets: the kernel's, not ours.
    assert!(made.load(Ordering::SeqCst) < 32 * 1024 * 1024, "{}", made.load(Ordering::SeqCst));
    assert_eq!(ask.send(site.address).await.code(), "result_not_retained");
}

fn events(effects: crate::site::Effects) -> Body {
    let frames = stream::unfold(0, move |nth| {
        let effects = effects.clone();
        async move {
            if nth == 1 {
                effects.gate.pass().await;
            }
            (nth < 2)
                .then(|| (Ok::<_, std::convert::Infallible>(format!("data: {nth}\n\n")), nth + 1))
        }
    });
    Body::from_stream(frames)
}

/// Guards `is_stream` and `Streamed` in `gather`: held back, the first event never comes.
#[tokio::test]
async fn a_stream_passes_through_and_leaves_a_tombstone() {
    for declared in [false, true] {
        let site = Plan::new(Effect::Opaque)
            .serve(move |effects, _| async move {
                effects.happen();
                let body = events(effects);
                if declared {
                    return (Streamed, body).into_response();
                }
                let kind = "Text/Event-Stream; charset=utf-8";
                Response::builder().header("content-type", kind).body(body).unwrap()
            })
            .await;
        let ask = Ask::post("/work").by("shop/ann").key("k-1");
        let mut socket = TcpStream::connect(site.address).await.unwrap();
        socket.write_all(&ask.bytes()).await.unwrap();
        let mut socket = BufReader::new(socket);
        assert!(read_head(&mut socket).await.starts_with("HTTP/1.1 200"));
        assert_eq!(read_chunk(&mut socket).await.unwrap(), b"data: 0\n\n");

        // Half of it is not even made, and it counts as done.
        let again = ask.send(site.address).await;
        assert_eq!((again.status, again.code().as_str()), (409, "result_not_retained"));
        site.effects.gate.open();
        assert_eq!(read_chunk(&mut socket).await.unwrap(), b"data: 1\n\n");
        assert_eq!(read_chunk(&mut socket).await, None);
        assert_eq!(site.effects.count(), 1);
    }
}

/// Guards the arm for trailers in `gather`: a replay could not have them.
#[tokio::test]
async fn an_answer_with_trailers_keeps_them_and_leaves_a_tombstone() {
    let site = Plan::new(Effect::Opaque)
        .serve(|effects, _| async move {
            effects.happen();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("x-checksum", "abc".parse().unwrap());
            let frames = [Frame::data(Bytes::from("body")), Frame::trailers(trailers)];
            let frames = frames.map(Ok::<_, std::convert::Infallible>);
            let body = Body::new(StreamBody::new(stream::iter(frames)));
            Response::builder().header("trailer", "x-checksum").body(body).unwrap()
        })
        .await;
    let ask = Ask::post("/work").by("shop/ann").key("k-1").line("te", "trailers");
    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask.bytes()).await.unwrap();
    let mut socket = BufReader::new(socket);
    read_head(&mut socket).await;
    assert_eq!(read_chunk(&mut socket).await.unwrap(), b"body");
    let mut rest = [0; 64];
    let read = tokio::io::AsyncReadExt::read(&mut socket, &mut rest).await.unwrap();
    let rest = String::from_utf8_lossy(&rest[..read]).into_owned();
    assert!(rest.contains("x-checksum: abc"), "{rest:?}");
    assert_eq!(ask.send(site.address).await.code(), "result_not_retained");
    assert_eq!(site.effects.count(), 1);
}
