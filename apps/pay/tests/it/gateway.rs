//! Faults of the transport: each leaves the outcome unknown, and nothing is sent twice.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::stage::{alipay_key, now, passes_with, payment_no, protocol, refund, signed_answer};
use hapax_pay::channel::{
    Call, Cause, Channel as _, Frozen, RefundTaken,
    alipay::{Alipay, Gateway, Patience},
};

const PATIENCE: Patience =
    Patience { connect: Duration::from_millis(300), answer: Duration::from_millis(600) };

/// How long a server keeps a connection that it will not answer; longer than our patience.
const NEVER: Duration = Duration::from_secs(3);

/// A server that does `act` to every connection, and the requests that it got.
struct Server {
    address: String,
    requests: mpsc::Receiver<String>,
}

impl Server {
    fn new(act: fn(&mut TcpStream)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/gateway.do", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = request(&mut stream);
                if sender.send(request).is_err() {
                    return;
                }
                act(&mut stream);
            }
        });
        Self { address, requests }
    }

    fn channel(&self) -> Alipay {
        Alipay::new(protocol(), Gateway::new(&self.address, PATIENCE).unwrap())
    }
}

/// Reads head and body of one request.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).unwrap();
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut piece).unwrap() {
            0 => return text,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// Writes as much as the client takes; it may have hung up, which is its right.
fn offer(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    offer(stream, format!("{head}{body}").as_bytes());
}

fn refunded() -> String {
    let content =
        r#"{"code":"10000","out_trade_no":"HPX_0001","fund_change":"Y","refund_fee":"8.03"}"#;
    signed_answer(&alipay_key(), "alipay_trade_refund_response", content)
}

fn frozen(channel: &Alipay) -> Frozen {
    channel.freeze_refund(&refund(), now()).unwrap()
}

/// The refund against `act` is unknown for `cause`, and went out exactly once.
async fn is_unknown(act: fn(&mut TcpStream), cause: Cause) {
    let server = Server::new(act);
    let channel = server.channel();
    assert_eq!(channel.refund(&frozen(&channel)).await, Call::Unknown(cause));
    assert_eq!(server.requests.try_iter().count(), 1);
}

#[tokio::test]
async fn the_frozen_bytes_go_out_as_they_are_and_the_answer_is_read() {
    let server = Server::new(|stream| answer(stream, "200 OK", &refunded()));
    let channel = server.channel();
    let frozen = frozen(&channel);
    for _ in 0..2 {
        let taken = channel.refund(&frozen).await;
        assert!(matches!(taken, Call::Done(RefundTaken::Moved { .. })), "{taken:?}");
        let request = server.requests.recv().unwrap();
        assert!(request.starts_with("POST /gateway.do?charset=utf-8 HTTP/1.1\r\n"), "{request}");
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/x-www-form-urlencoded;charset=utf-8"), "{head}");
        assert_eq!(body.as_bytes(), frozen.as_bytes());
    }
}

#[test]
fn a_proxy_of_the_environment_is_not_used() {
    passes_with(
        "gateway::the_frozen_bytes_go_out_as_they_are_and_the_answer_is_read",
        &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
            .map(|name| (name, "http://127.0.0.1:9")),
    );
}

#[tokio::test]
async fn a_gateway_that_is_not_there_was_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let channel = Alipay::new(protocol(), Gateway::new(&address, PATIENCE).unwrap());
    assert_eq!(channel.query(&payment_no(), now()).await, Call::Unknown(Cause::NotSent));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_unknown() {
    is_unknown(|_| thread::sleep(NEVER), Cause::TimedOut).await;
}

#[tokio::test]
async fn an_answer_that_drips_is_unknown() {
    let drip = |stream: &mut TcpStream| {
        offer(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(100));
            offer(stream, b" ");
        }
    };
    is_unknown(drip, Cause::TimedOut).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_unknown_and_not_tried_again() {
    is_unknown(|_| {}, Cause::Broken).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unknown() {
    let cut = |stream: &mut TcpStream| {
        let half = refunded().len() / 2;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", refunded().len());
        stream.write_all(format!("{head}{}", &refunded()[..half]).as_bytes()).unwrap();
    };
    is_unknown(cut, Cause::Broken).await;
}

#[tokio::test]
async fn an_error_page_is_unknown() {
    let page = |stream: &mut TcpStream| answer(stream, "502 Bad Gateway", "<html>502</html>");
    is_unknown(page, Cause::Status(502)).await;
}

#[tokio::test]
async fn an_error_page_with_status_200_is_unknown() {
    let page = |stream: &mut TcpStream| answer(stream, "200 OK", "<html>busy</html>");
    is_unknown(page, Cause::Unreadable("no JSON object")).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let redirect = |stream: &mut TcpStream| {
        answer(stream, "307 Temporary Redirect\r\nlocation: /gateway.do", "");
    };
    is_unknown(redirect, Cause::Status(307)).await;
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let flood = |stream: &mut TcpStream| {
        offer(stream, b"HTTP/1.1 200 OK\r\n\r\n");
        while offer(stream, &[b' '; 8192]) {}
    };
    is_unknown(flood, Cause::TooLong).await;
}

#[tokio::test]
async fn a_stored_request_that_cannot_be_read_is_unknown() {
    let server = Server::new(|stream| answer(stream, "200 OK", &refunded()));
    let broken = Frozen::from_bytes(b"method=alipay.trade.refund".to_vec());
    assert_eq!(server.channel().refund(&broken).await, Call::Unknown(Cause::Unsendable));
}
