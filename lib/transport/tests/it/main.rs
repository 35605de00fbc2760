//! A webhook against a real server on this machine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes as Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
    routing::post,
};
use bytes::Bytes;
use tokio::task::JoinSet;

use hapax_core::{
    Nonce, Timestamp,
    message::{Delivery, Message, MessageId, SendError, Topic, Transport},
};
use hapax_transport::{Address, Target, Webhook, sign};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<(HeaderMap, Body)>>>);

async fn hear(State(receiver): State<Receiver>, headers: HeaderMap, body: Body) -> StatusCode {
    receiver.0.lock().unwrap().push((headers, body));
    StatusCode::NO_CONTENT
}

async fn sends_away() -> Response {
    Redirect::temporary("/hear").into_response()
}

/// Serves until the set is dropped.
async fn start() -> (String, Receiver, JoinSet<()>) {
    let receiver = Receiver::default();
    let app = Router::new()
        .route("/hear", post(hear))
        .route("/away", post(sends_away))
        .route("/broken", post(async || StatusCode::SERVICE_UNAVAILABLE))
        .with_state(receiver.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async { axum::serve(listener, app).await.unwrap() });
    (base, receiver, server)
}

fn delivery() -> Delivery {
    Delivery {
        message: Message {
            id: MessageId::of(&["payment.paid", "P1"]),
            topic: Topic::parse("merchant.notice").unwrap(),
            key: String::new(),
            payload: Bytes::from_static(b"{\"a\":1}"),
        },
        sequence: 7,
        attempts: 0,
        token: Nonce::from_bytes([1; 16]),
        created_at: Timestamp::from_millis(0),
    }
}

fn webhook(url: &str) -> Webhook {
    let address = Address::parse(url).unwrap();
    Webhook::new(Duration::from_secs(5), move |_| {
        Some(Target { address: address.clone(), secret: SECRET.into() })
    })
    .unwrap()
}

#[tokio::test]
async fn a_message_arrives_signed_over_the_bytes_that_were_received() {
    let (base, receiver, _server) = start().await;
    webhook(&format!("{base}/hear")).send(&delivery()).await.unwrap();
    let heard = receiver.0.lock().unwrap();
    let [(headers, body)] = heard.as_slice() else { panic!("one request") };
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap();
    assert_eq!(header("hapax-event-id"), delivery().message.id.to_string());
    assert_eq!(header("hapax-sequence"), "7");
    let signature = header("hapax-signature");
    let time = signature.split_once(',').unwrap().0.strip_prefix("t=").unwrap();
    assert_eq!(signature, sign(&SECRET.into(), time.parse().unwrap(), body).as_str());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (base, receiver, _server) = start().await;
    let sent = webhook(&format!("{base}/away")).send(&delivery()).await;
    assert!(matches!(sent, Err(SendError::Rejected { .. })), "{sent:?}");
    assert!(receiver.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_receiver_that_is_down_is_away_and_not_the_fault_of_the_message() {
    let (base, _, server) = start().await;
    let broken = webhook(&format!("{base}/broken")).send(&delivery()).await;
    assert!(matches!(broken, Err(SendError::Away { .. })), "{broken:?}");
    drop(server);
    let refused = webhook(&format!("{base}/hear")).send(&delivery()).await;
    assert!(matches!(refused, Err(SendError::Away { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_message_without_a_receiver_counts_as_delivered() {
    let nowhere = Webhook::new(Duration::from_secs(5), |_| None).unwrap();
    nowhere.send(&delivery()).await.unwrap();
}
