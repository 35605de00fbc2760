//! Request bodies that are too large, too slow, broken or too many.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinSet,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    site::{Plan, Site, answer},
    wire::{Answer, Ask},
};
use hapax_core::{Clock, Effect, Hapax, Policy, SystemClock, store::MemoryStore};
use hapax_http::{Caller, IdempotencyLayer, Refusal};

const MIB: usize = 1024 * 1024;

async fn site() -> Site {
    Plan::new(Effect::Opaque)
        .layer(|layer| layer.body_time_max(Duration::from_millis(100)))
        .serve(|effects, request| async move {
            let read = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
            answer(201, format!("run {} of {} bytes", effects.happen(), read.len()))
        })
        .await
}

fn ask() -> Ask {
    Ask::post("/work").by("shop/ann").key("k-1")
}

/// Guards the comparison in `Limits::collect` and the one in `Limits::read`.
#[tokio::test]
async fn a_body_at_the_bound_is_read_and_one_byte_more_is_refused() {
    let site = site().await;
    for (nth, length) in [1, MIB - 1, MIB].into_iter().enumerate() {
        let ask = Ask::post("/work").by("shop/ann").key(&format!("k-{nth}"));
        let answer = ask.body(&vec![b'x'; length]).send(site.address).await;
        assert_eq!(answer.text(), format!("run {} of {length} bytes", nth + 1));
    }
    let refused = ask().body(&vec![b'x'; MIB + 1]).send(site.address).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_large"));
    assert!(refused.text().contains("1048576 bytes"), "{}", refused.text());
    assert_eq!(site.effects.count(), 3);
}

/// The length is known: refused before a byte of it is read, and without asking for it.
#[tokio::test]
async fn a_declared_gibibyte_is_refused_before_it_is_sent() {
    let site = site().await;
    for expect in ["", "\r\nexpect: 100-continue"] {
        let mut socket = TcpStream::connect(site.address).await.unwrap();
        let framing = format!("content-length: 1073741824{expect}");
        socket.write_all(&ask().head(&framing)).await.unwrap();
        let refused = Answer::read(&mut BufReader::new(socket)).await;
        assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_large"));
        assert_eq!(refused.line("connection"), Some("close"));
    }
    assert_eq!(site.effects.count(), 0);
}

/// A gibibyte in chunks, as a client sends it that does not listen while it sends.
///
/// Guards the bounds in `collect` and `drain`: without either the whole of it is taken.
#[tokio::test]
async fn a_chunked_gibibyte_is_refused_and_the_connection_closed() {
    let site = site().await;
    let socket = TcpStream::connect(site.address).await.unwrap();
    let (reader, mut writer) = socket.into_split();
    writer.write_all(&ask().head("transfer-encoding: chunked")).await.unwrap();
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 65536], b"\r\n"].concat();
        let mut sent = 0;
        while sent < 1024 * MIB && writer.write_all(&chunk).await.is_ok() {
            sent += 65536;
        }
        sent
    });
    let mut reader = BufReader::new(reader);
    let refused = Answer::read(&mut reader).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_large"));
    assert_eq!(refused.line("connection"), Some("close"));
    let sent = sending.join_next().await.unwrap().unwrap();
    // What was read by us and what the buffers of the two sockets hold.
    assert!(sent < 64 * MIB, "{sent} bytes were taken");
    assert_eq!(site.effects.count(), 0);
}

/// A body that counts what was read of it.
struct Counted {
    chunks: usize,
    read: Arc<AtomicUsize>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.chunks == 0 {
            return Poll::Ready(None);
        }
        self.chunks -= 1;
        self.read.fetch_add(65536, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; 65536])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl From<Bytes> for Counted {
    fn from(_: Bytes) -> Self {
        Self { chunks: 0, read: Arc::default() }
    }
}

fn layer(bodies_bytes_max: usize) -> IdempotencyLayer {
    let hapax = Hapax::new(Arc::new(MemoryStore::new()));
    let operation = hapax.declare("work.do", Policy::new(Effect::Opaque)).unwrap();
    let caller = |_: &Parts| Caller::parse("shop", "ann").map_err(|_| Refusal::ScopeMissing);
    IdempotencyLayer::new(operation, caller).bodies_bytes_max(bodies_bytes_max)
}

/// Guards the same bounds, counted byte by byte.
#[tokio::test]
async fn a_body_of_a_gibibyte_is_refused_after_a_mebibyte() {
    let read = Arc::new(AtomicUsize::new(0));
    let handler = service_fn(|_: Request<Counted>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let body = Counted { chunks: 16384, read: Arc::clone(&read) };
    let request = Request::post("/").header("idempotency-key", "k-1").body(body).unwrap();
    let refused = layer(64 * MIB).layer(handler).oneshot(request).await.unwrap();
    assert_eq!(refused.status(), 413);
    let read = read.load(Ordering::SeqCst);
    // One bound, one drain, and the frame that was over each.
    assert!(read <= MIB + 256 * 1024 + 2 * 65536, "{read} bytes were read");
}

/// Guards `Held::grow` and its give-back: the second body does not fit while the first is held,
/// and fits again afterwards.
#[tokio::test]
async fn bodies_beyond_the_budget_are_refused() {
    let gate = crate::site::Effects::default();
    let seen = gate.clone();
    let handler = service_fn(move |_: Request<Full<Bytes>>| {
        let effects = seen.clone();
        async move {
            effects.happen();
            effects.gate.pass().await;
            Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    let guarded = layer(1000).layer(handler);
    let request = |key: &str| {
        let body = Full::from(vec![b'x'; 600]);
        Request::post("/").header("idempotency-key", key).body(body).unwrap()
    };
    let mut first = JoinSet::new();
    first.spawn(guarded.clone().oneshot(request("k-1")));
    gate.reach(1).await;
    let second = guarded.clone().oneshot(request("k-2")).await.unwrap();
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers().get("retry-after").unwrap(), "1");
    gate.gate.open();
    first.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(guarded.oneshot(request("k-2")).await.unwrap().status(), 200);
}

/// Guards `Limits::in_time`: a body that trickles is refused by the clock, and frees everything.
#[tokio::test]
async fn a_slow_body_is_refused() {
    let site = site().await;
    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask().head("content-length: 100")).await.unwrap();
    let (reader, mut writer) = socket.into_split();
    let mut trickle = JoinSet::new();
    trickle.spawn(async move {
        while writer.write_all(b"x").await.is_ok() {
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
    });
    let mut reader = BufReader::new(reader);
    let refused = Answer::read(&mut reader).await;
    assert_eq!((refused.status, refused.code().as_str()), (408, "body_too_slow"));
    assert_eq!((site.effects.count(), site.spy.asked().claims), (0, 0));
    assert_eq!(ask().body(b"x").send(site.address).await.status, 201, "the key is free");
}

/// A body that ends before its length: nothing begins.
#[tokio::test]
async fn a_body_that_breaks_off_begins_nothing() {
    let site = site().await;
    let mut socket = TcpStream::connect(site.address).await.unwrap();
    socket.write_all(&ask().head("content-length: 100")).await.unwrap();
    socket.write_all(b"half").await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answered = String::new();
    // The server may answer 400 or just close: the client is gone either way.
    drop(socket.read_to_string(&mut answered).await);
    assert!(answered.is_empty() || answered.contains("body_broken"), "{answered}");
    assert_eq!((site.effects.count(), site.spy.asked().claims), (0, 0));
}

/// Guards `drain` in `service::refuse`: the refused body is read, and the connection goes on.
#[tokio::test]
async fn a_connection_goes_on_after_a_refusal() {
    let site = site().await;
    let mut socket = BufReader::new(TcpStream::connect(site.address).await.unwrap());
    for _ in 0..3 {
        let keyless = Ask::post("/work").by("shop/ann").body(&[b'x'; 100_000]);
        socket.write_all(&keyless.bytes()).await.unwrap();
        let refused = Answer::read(&mut socket).await;
        assert_eq!((refused.code().as_str(), refused.line("connection")), ("key_missing", None));
    }
    socket.write_all(&ask().body(b"x").bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut socket).await.status, 201);
}
