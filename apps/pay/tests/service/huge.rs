//! Bodies without end: refused early, and with bounded memory.

use std::net::SocketAddr;

use http::Method;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    parts::{self, Scene},
    shop::order,
    stage::{NORTH_KEY, Setup, Stage},
};

const GIB: usize = 1 << 30;
const CHUNK: usize = 64 * 1024;

/// What came of sending a gibibyte.
struct Sent {
    bytes: usize,
    answer: String,
}

impl Sent {
    fn status(&self) -> &str {
        self.answer.split(' ').nth(1).unwrap_or_default()
    }
}

/// Sends chunks until the server has answered or hung up.
async fn send_a_gibibyte(address: SocketAddr, path: &str) -> Sent {
    let line = TcpStream::connect(address).await.unwrap();
    let (mut answers, mut requests) = line.into_split();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {NORTH_KEY}\r\n\
         idempotency-key: k1\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    requests.write_all(head.as_bytes()).await.unwrap();
    let chunk = [format!("{CHUNK:x}\r\n").as_bytes(), &[b' '; CHUNK], b"\r\n"].concat();
    let sending = async {
        let mut bytes = 0;
        while bytes < GIB && requests.write_all(&chunk).await.is_ok() {
            bytes += CHUNK;
        }
        bytes
    };
    let reading = async {
        let mut answer = Vec::new();
        // Whatever came before the connection was cut.
        drop(answers.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (bytes, answer) = tokio::join!(sending, reading);
    Sent { bytes, answer }
}

#[test]
fn a_body_of_a_gibibyte_is_refused_early_and_with_bounded_memory() {
    if let Some(config) = parts::part() {
        return parts::serve(&config);
    }
    parts::play(async {
        let test = "huge::a_body_of_a_gibibyte_is_refused_early_and_with_bounded_memory";
        let scene = Scene::open(test, Setup::new()).await;
        let address = scene.stage.service.address;
        let before = scene.memory("VmRSS");
        for path in ["/v1/payments", "/v1/tokens", "/v1/payments/P1/refunds", "/v1/notify/alipay"] {
            let sent = send_a_gibibyte(address, path).await;
            assert!(sent.bytes < 64 * 1024 * 1024, "{path}: {} bytes were taken", sent.bytes);
            assert!(matches!(sent.status(), "413" | "404"), "{path}: {}", sent.answer);
            assert!(sent.answer.contains("application/problem+json"), "{path}: {}", sent.answer);
        }
        let grown = scene.memory("VmHWM").saturating_sub(before);
        assert!(grown < 64 * 1024 * 1024, "{grown} bytes more were held");
        let stage = scene.kill_for_good().await;
        assert_eq!(stage.books.count("pay_orders", "1").await, 0);
        stage.shop().buy("1001").await;
    });
}

/// Length announced: refused before a byte of it was read.
#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let body = format!("{}{}", order("1001"), " ".repeat(1 << 20));
    let headers = [("idempotency-key", "k1"), ("content-type", "application/json")];
    for path in ["/v1/payments", "/v1/tokens"] {
        let answer = shop.send(Method::POST, path, &headers, body.clone()).await;
        answer.refused(413, "body_too_large");
    }
    let headers = [("idempotent-token", "t"), ("content-type", "application/json")];
    let answer = shop.send(Method::POST, "/v1/payments", &headers, body.clone()).await;
    answer.refused(413, "body_too_large");
    stage.notify(body).await.refused(413, "body_too_large");
    assert_eq!(stage.books.count("hapax_records", "1").await, 0);
    // A body just within the bound is read to its end.
    let filled =
        format!("{}{}", order("1001"), " ".repeat((1 << 20) - order("1001").to_string().len()));
    let headers = [("idempotency-key", "k2"), ("content-type", "application/json")];
    shop.send(Method::POST, "/v1/payments", &headers, filled).await.is(201);
}
