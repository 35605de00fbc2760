//! A merchant's notice endpoint: keeps what it gets, answers as it is told to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::client::is_from_alipay;
use crate::stage::{pause, soon};

/// What the shop answers.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    Success,
    Body(u16, &'static str),
    Redirect(String),
    /// Nothing for this long.
    Silence(Duration),
}

#[derive(Default)]
struct Desk {
    got: Vec<Notice>,
    /// Answers still to be given; then `Success`.
    script: Vec<Says>,
    here: usize,
    most_at_once: usize,
    redirected: usize,
}

pub(crate) struct Shop {
    addr: SocketAddr,
    desk: Arc<Mutex<Desk>>,
    _tasks: JoinSet<()>,
}

/// One received body.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) raw: Vec<u8>,
}

impl Shop {
    pub(crate) async fn open(script: Vec<Says>) -> Self {
        let desk = Arc::new(Mutex::new(Desk { script, ..Desk::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/notify", any(receive))
            .route("/elsewhere", any(elsewhere))
            .with_state(Arc::clone(&desk));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { addr, desk, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/notify", self.addr)
    }

    pub(crate) fn elsewhere(&self) -> String {
        format!("http://{}/elsewhere", self.addr)
    }

    pub(crate) fn say(&self, script: Vec<Says>) {
        self.desk.lock().unwrap().script = script;
    }

    pub(crate) fn got(&self) -> Vec<Notice> {
        self.desk.lock().unwrap().got.clone()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.desk.lock().unwrap().most_at_once
    }

    pub(crate) fn redirected(&self) -> usize {
        self.desk.lock().unwrap().redirected
    }

    /// Waits until this many bodies came.
    pub(crate) async fn received(&self, count: usize) -> Vec<Notice> {
        soon(&format!("{count} notices"), || self.got().len() >= count).await;
        self.got()
    }
}

async fn receive(State(desk): State<Arc<Mutex<Desk>>>, body: Bytes) -> Response {
    let says = {
        let mut desk = desk.lock().unwrap();
        desk.got.push(Notice { raw: body.to_vec() });
        desk.here += 1;
        desk.most_at_once = std::cmp::max(desk.most_at_once, desk.here);
        if desk.script.is_empty() { Says::Success } else { desk.script.remove(0) }
    };
    // Long enough that copies sent together are here together.
    pause(Duration::from_millis(20)).await;
    let response = match says {
        Says::Success => "success".into_response(),
        Says::Body(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Says::Redirect(to) => (StatusCode::FOUND, [("location", to)]).into_response(),
        Says::Silence(time) => {
            pause(time).await;
            "success".into_response()
        }
    };
    desk.lock().unwrap().here -= 1;
    response
}

async fn elsewhere(State(desk): State<Arc<Mutex<Desk>>>) -> &'static str {
    desk.lock().unwrap().redirected += 1;
    "success"
}

impl Notice {
    /// Every parameter as decoded bytes, in the order received.
    pub(crate) fn pairs(&self) -> Vec<(String, Vec<u8>)> {
        let decode = |text: &[u8]| {
            let mut bytes = Vec::new();
            let mut at = 0;
            while at < text.len() {
                match text[at] {
                    b'+' => bytes.push(b' '),
                    b'%' => {
                        let hex = std::str::from_utf8(&text[at + 1..at + 3]).unwrap();
                        bytes.push(u8::from_str_radix(hex, 16).unwrap());
                        at += 2;
                    }
                    byte => bytes.push(byte),
                }
                at += 1;
            }
            bytes
        };
        let pair = |text: &[u8]| {
            let at = text.iter().position(|byte| *byte == b'=').unwrap();
            (String::from_utf8(decode(&text[..at])).unwrap(), decode(&text[at + 1..]))
        };
        self.raw.split(|byte| *byte == b'&').map(pair).collect()
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let found = self.pairs().into_iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value).unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Whether it is signed, leaving out `sign` and whatever else is named.
    pub(crate) fn is_signed(&self, left_out: &[&str]) -> bool {
        let mut kept = BTreeMap::new();
        for (name, value) in self.pairs() {
            if name != "sign" && !left_out.contains(&name.as_str()) {
                kept.insert(name, value);
            }
        }
        let pairs: Vec<Vec<u8>> =
            kept.iter().map(|(name, value)| [name.as_bytes(), b"=", value].concat()).collect();
        is_from_alipay(&pairs.join(&b'&'), &self.text("sign"))
    }

    /// As trade notices are signed.
    pub(crate) fn is_genuine(&self) -> bool {
        self.is_signed(&["sign_type"])
    }

    /// The names of the parameters, in the order received.
    pub(crate) fn names(&self) -> Vec<String> {
        self.pairs().into_iter().map(|(name, _)| name).collect()
    }
}
