//! A merchant that takes notices, or does not.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use http::StatusCode;
use serde_json::Value;
use tokio::task::JoinSet;

use hapax::transport::sign;

/// One delivery as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What it was answered.
    pub(crate) status: u16,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.header("hapax-sequence").parse().unwrap()
    }

    /// Whether it was signed with this secret, over this body.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        let given = self.header("hapax-signature");
        let time = given.strip_prefix("t=").unwrap().split(',').next().unwrap();
        sign(&secret.to_owned().into(), time.parse().unwrap(), &self.body).as_str() == given
    }
}

#[derive(Default)]
struct Inner {
    deliveries: Vec<Delivery>,
    /// Answers to give first; then all are 200.
    answers: VecDeque<u16>,
}

type Shared = Arc<Mutex<Inner>>;

/// A merchant's own server.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Shared,
    _tasks: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn open() -> Self {
        let shared = Shared::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/notices", post(take)).with_state(Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, _tasks: tasks }
    }

    /// Answers the next deliveries like this, and all others with 200.
    pub(crate) fn will_answer(&self, statuses: &[u16]) {
        self.shared.lock().unwrap().answers = statuses.iter().copied().collect();
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.shared.lock().unwrap().deliveries.clone()
    }

    /// The kinds of what was told about an order and taken, in the order in which it came.
    pub(crate) fn told(&self, order_id: &str) -> Vec<String> {
        self.deliveries()
            .iter()
            .filter(|it| it.status == 200 && it.json()["order_id"] == order_id)
            .map(Delivery::kind)
            .collect()
    }
}

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut inner = shared.lock().unwrap();
    let status = inner.answers.pop_front().unwrap_or(200);
    inner.deliveries.push(Delivery { headers, body, status });
    StatusCode::from_u16(status).unwrap()
}
