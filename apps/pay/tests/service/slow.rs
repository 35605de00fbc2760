//! Clients that take their time, or stop half-way: told or hung up on, and nothing is done.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    shop::order,
    stage::{NORTH_KEY, Setup, Stage},
};

/// Far longer than any limit of these tests, far shorter than the defaults.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two bytes of a client that drips.
const DRIP: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "the client drips in real time")]
async fn pause() {
    tokio::time::sleep(DRIP).await;
}

/// Sends `begin` at once and `drips` byte by byte, and gives what came back until the service
/// hung up.
async fn drip(address: SocketAddr, begin: &str, drips: impl Iterator<Item = u8>) -> String {
    let (mut answers, mut requests) = TcpStream::connect(address).await.unwrap().into_split();
    requests.write_all(begin.as_bytes()).await.unwrap();
    let sending = async {
        for byte in drips {
            pause().await;
            if requests.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let mut answer = Vec::new();
        drop(answers.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let playing = async {
        // Whoever has the whole answer drips no more.
        match futures_util::future::select(Box::pin(reading), Box::pin(sending)).await {
            futures_util::future::Either::Left((answer, _)) => answer,
            futures_util::future::Either::Right(((), reading)) => reading.await,
        }
    };
    tokio::time::timeout(PATIENCE, playing).await.expect("the service hangs up in time")
}

/// Every route that reads a body, with what it needs to get so far.
const ROUTES: [(&str, &str); 5] = [
    ("/v1/payments", "idempotency-key: k1\r\n"),
    ("/v1/payments", "idempotent-token: t\r\n"),
    ("/v1/payments/P1/refunds", ""),
    ("/v1/tokens", ""),
    ("/v1/notify/alipay", ""),
];

fn head(path: &str, headers: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {NORTH_KEY}\r\n\
         content-type: application/json\r\n{headers}"
    )
}

async fn nothing_was_done(stage: &Stage) {
    for table in ["pay_orders", "pay_notices", "hapax_records"] {
        assert_eq!(stage.books.count(table, "1").await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_body_that_drips_is_refused_on_every_route() {
    let stage = Setup::new().period("body_timeout", "300ms").open().await;
    for (path, headers) in ROUTES {
        let begin = head(path, &format!("{headers}content-length: 100000\r\n\r\n"));
        let answer = drip(stage.service.address, &begin, std::iter::repeat(b' ')).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{path} {headers}: {answer}");
        assert!(answer.contains("\"body_too_slow\""), "{path} {headers}: {answer}");
    }
    nothing_was_done(&stage).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_told_as_what_it_is() {
    let stage = Stage::open().await;
    for (path, headers) in ROUTES {
        let chunked = format!("{headers}transfer-encoding: chunked\r\n\r\nno number\r\n");
        let answer = drip(stage.service.address, &head(path, &chunked), std::iter::empty()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path} {headers}: {answer}");
        assert!(answer.contains("\"body_broken\""), "{path} {headers}: {answer}");
    }
    nothing_was_done(&stage).await;
}

#[tokio::test]
async fn a_head_that_drips_is_hung_up_on() {
    let stage = Setup::new().period("head_timeout", "300ms").open().await;
    let address = stage.service.address;
    for begin in ["", "P", "PRI * HTTP/2.0\r\n", "POST /v1/payments HT", "GET /livez HTTP/1.1\r\n"]
    {
        let answer = drip(address, begin, std::iter::empty()).await;
        assert!(!answer.contains("200"), "{begin}: {answer}");
    }
    let answer =
        drip(address, "GET /livez HTTP/1.1\r\n", b"x: y\r\n".iter().copied().cycle()).await;
    assert!(!answer.contains("200"), "{answer}");
    // The next head of a connection that was served before.
    let whole = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = drip(address, &format!("{whole}GET /l"), std::iter::empty()).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
}

/// It is the client's time that is measured, not the service's.
#[tokio::test]
async fn an_answer_may_take_longer_than_a_head() {
    let setup = Setup::new().period("head_timeout", "200ms").period("wait", "5s");
    let stage = setup.period("body_timeout", "200ms").open().await;
    let slow = json!({"delay_answer": {"ms": 700}});
    stage.channel.break_calls("alipay.trade.precreate", slow, Some(1)).await;
    stage.shop().create("k1", &order("1001")).await.is(201);
}
