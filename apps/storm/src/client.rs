//! One request, one answer or none. Retries are the business of `attack::persist`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Method, Url};
use tokio::sync::Semaphore;

use crate::answer::Answer;
use crate::clock::Clock;
use crate::error::{Error, Kind};

/// Bytes of an answer that are read; no answer of the contract comes near.
const ANSWER_MAX: usize = 1024 * 1024;

/// How long a connection may take: the servers are on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Marks an answer as a replay.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A request that may be sent many times, always the same.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What the answers' times are booked under.
    pub(crate) kind: &'static str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// Why there was no answer.
#[derive(Clone, Debug)]
pub(crate) enum Silence {
    /// No connection, or it broke.
    Unreachable(String),
    Timeout,
    /// The caller itself had enough.
    HungUp,
}

/// Sends requests, this many at once.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    places: Semaphore,
    timeout: Duration,
}

impl Client {
    pub(crate) fn new(requests: u32, timeout: Duration) -> Result<Self, Error> {
        let places = usize::try_from(requests).unwrap_or(1);
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(places)
            .user_agent("hapax-storm")
            .build()
            .map_err(|error| Error::new(Kind::Broken, "make the HTTP client").because(error))?;
        Ok(Self { http, places: Semaphore::new(places), timeout })
    }

    /// Sends once. With `hang_up`, drops the request after that time.
    ///
    /// # Cancellation
    /// Dropping the future drops the connection, as a caller that hangs up does.
    pub(crate) async fn send(
        &self,
        call: &Call,
        hang_up: Option<Duration>,
    ) -> Result<Answer, Silence> {
        // Fails only when the semaphore is closed, which nobody does.
        let _place = self.places.acquire().await;
        match hang_up {
            None => self.exchange(call).await,
            Some(patience) => match Clock.within(patience, self.exchange(call)).await {
                Some(answer) => answer,
                None => Err(Silence::HungUp),
            },
        }
    }

    async fn exchange(&self, call: &Call) -> Result<Answer, Silence> {
        let mut request = self
            .http
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone())
            .timeout(self.timeout);
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = request.send().await.map_err(|error| silence(&error))?;
        read(response).await.map_err(|error| silence(&error))
    }
}

async fn read(mut response: reqwest::Response) -> reqwest::Result<Answer> {
    let headers = response.headers();
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let seconds = text(&RETRY_AFTER).and_then(|value| value.trim().parse().ok());
    let mut answer = Answer {
        status: response.status().as_u16(),
        body: Bytes::new(),
        replayed: text(&REPLAYED) == Some("true"),
        retry_after: seconds.map(Duration::from_secs),
        location: text(&LOCATION).map(str::to_owned),
    };
    let mut body = BytesMut::new();
    while body.len() < ANSWER_MAX
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    answer.body = body.freeze();
    Ok(answer)
}

fn silence(error: &reqwest::Error) -> Silence {
    if error.is_timeout() {
        return Silence::Timeout;
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Silence::Unreachable(cause.to_string())
}

impl Silence {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Unreachable(cause) => format!("no connection: {cause}"),
            Self::Timeout => "no answer in time".to_owned(),
            Self::HungUp => "the caller hung up".to_owned(),
        }
    }
}
