//! Requests as fast as 32 connections carry them: each sends its next one after its answer.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

use crate::{clock::Stopwatch, server};

/// Connections, as in the figures that the goals were set by.
const CONNECTIONS: usize = 32;
const BODY: &[u8] = br#"{"order_id":"20261130-000417","amount_minor":1999,"currency":"CNY"}"#;

/// Connections to one server.
pub(crate) struct Load {
    senders: Vec<SendRequest<Full<Bytes>>>,
    drivers: JoinSet<hyper::Result<()>>,
}

/// Which keys are sent.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// New ones, from this number on.
    Fresh(usize),
    /// These again, round and round.
    Again(Range<usize>),
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    pub(crate) done: u64,
    pub(crate) replayed: u64,
    pub(crate) took: Duration,
}

impl Load {
    /// Connects to the server at `port`.
    pub(crate) async fn connect(port: u16) -> anyhow::Result<Self> {
        let mut load = Self { senders: Vec::new(), drivers: JoinSet::new() };
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.set_nodelay(true)?;
            let (sender, driver) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            load.senders.push(sender);
            load.drivers.spawn(driver);
        }
        Ok(load)
    }

    /// Sends for as long as `span`. Every answer must be a 201.
    pub(crate) async fn send(&mut self, keys: Keys, span: Duration) -> anyhow::Result<Answers> {
        let next = Arc::new(AtomicUsize::new(0));
        let watch = Stopwatch::start();
        let mut callers = JoinSet::new();
        for mut sender in self.senders.drain(..) {
            let (next, keys) = (Arc::clone(&next), keys.clone());
            callers.spawn(async move {
                let (mut done, mut replayed) = (0_u64, 0_u64);
                while watch.elapsed() < span {
                    let number = keys.number(next.fetch_add(1, Ordering::Relaxed));
                    let answer = sender.send_request(order(number)?).await?;
                    if answer.status() != StatusCode::CREATED {
                        bail!("order {number} was answered with {}", answer.status());
                    }
                    done += 1;
                    replayed += u64::from(answer.headers().contains_key("idempotency-replayed"));
                    read(answer).await?;
                }
                Ok((sender, done, replayed))
            });
        }
        let mut answers = Answers { done: 0, replayed: 0, took: Duration::ZERO };
        while let Some(caller) = callers.join_next().await {
            let (sender, done, replayed) = caller??;
            self.senders.push(sender);
            answers.done += done;
            answers.replayed += replayed;
        }
        answers.took = watch.elapsed();
        Ok(answers)
    }

    /// How many orders the server placed, and how often it ran for one that it had placed.
    pub(crate) async fn executions(&mut self) -> anyhow::Result<[u32; 2]> {
        let sender = self.senders.first_mut().context("no connection is left")?;
        let question = Request::get("/executions").header("host", "bench").body(Full::default())?;
        let answer = read(sender.send_request(question).await?).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Keys {
    fn number(&self, nth: usize) -> usize {
        match self {
            Self::Fresh(first) => first + nth,
            Self::Again(range) => range.start + nth % range.len(),
        }
    }
}

fn order(number: usize) -> anyhow::Result<Request<Full<Bytes>>> {
    Request::post("/orders")
        .header("host", "bench")
        .header("content-type", "application/json")
        .header("idempotency-key", format!("0c2f4f3e-8b9a-4d1e-9f00-{number:012}"))
        .header(server::ORDER, number)
        .body(Full::new(Bytes::from_static(BODY)))
        .context("a request")
}

async fn read(answer: Response<Incoming>) -> anyhow::Result<Bytes> {
    Ok(answer.into_body().collect().await?.to_bytes())
}
