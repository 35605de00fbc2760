//! Posts messages to the addresses of their receivers.
//!
//! Invariant: only a 2xx answer is a delivery; no redirect is followed and no proxy of the
//! environment is used, so that a message goes to its address and nowhere else
//! (`only_a_2xx_answer_is_a_delivery`, `a_redirect_is_not_followed`).

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use reqwest::{Client, StatusCode, Url, header::CONTENT_TYPE, redirect, retry};
use secrecy::SecretString;

use crate::signature::sign;
use hapax_core::{
    Clock, SystemClock,
    message::{Delivery, SendError, Transport},
};

/// What the receiver knows the event by.
const EVENT_ID: &str = "hapax-event-id";
/// Which of two events is newer.
const SEQUENCE: &str = "hapax-sequence";
/// Who sent it.
const SIGNATURE: &str = "hapax-signature";
/// A connection that was idle for longer may be dead already.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Where one receiver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Url);

impl Address {
    /// Reads an `https` address, or an `http` one on this very machine.
    ///
    /// # Errors
    /// [`Unfit`] says what to do.
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let url = Url::parse(text).map_err(|_| Unfit::Malformed)?;
        let is_bare = url.username().is_empty() && url.password().is_none();
        match url.scheme() {
            _ if !is_bare || url.host_str().is_none() => Err(Unfit::Malformed),
            "https" => Ok(Self(url)),
            "http" if is_loopback(&url) => Ok(Self(url)),
            "http" => Err(Unfit::Plain),
            _ => Err(Unfit::Malformed),
        }
    }

    fn host(&self) -> String {
        let (host, port) = (self.0.host_str().unwrap_or_default(), self.0.port_or_known_default());
        format!("{host}:{}", port.unwrap_or_default())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_loopback()),
        None => false,
    }
}

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Not an address of a web server, or one with a password in it.
    #[error("the address must be an https URL without user name and password")]
    Malformed,
    /// Unencrypted to another machine.
    #[error("the address must be https: http is allowed to this very machine only")]
    Plain,
}

/// A receiver and the secret that it checks signatures with.
#[derive(Clone)]
pub struct Target {
    /// Where it is.
    pub address: Address,
    /// What signatures are made with.
    pub secret: SecretString,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Finds the receiver of a message; `None` if it has none, which counts as delivered.
type Directory = dyn Fn(&Delivery) -> Option<Target> + Send + Sync;

/// Sends messages as signed POST requests.
pub struct Webhook {
    client: Client,
    directory: Arc<Directory>,
    clock: Arc<dyn Clock>,
}

impl Webhook {
    /// A webhook whose receivers must answer within `patience`; `directory` finds them.
    ///
    /// # Errors
    /// Those of the TLS set-up of the system.
    pub fn new(
        patience: Duration,
        directory: impl Fn(&Delivery) -> Option<Target> + Send + Sync + 'static,
    ) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .timeout(patience)
            .pool_idle_timeout(IDLE_MAX)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .build()?;
        Ok(Self { client, directory: Arc::new(directory), clock: Arc::new(SystemClock) })
    }

    async fn post(&self, delivery: &Delivery) -> Result<(), SendError> {
        let Some(target) = (self.directory)(delivery) else { return Ok(()) };
        let message = &delivery.message;
        let signature =
            sign(&target.secret, self.clock.wall().as_millis() / 1000, &message.payload);
        let answer = self
            .client
            .post(target.address.0.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(EVENT_ID, message.id.to_string())
            .header(SEQUENCE, delivery.sequence)
            .header(SIGNATURE, signature.as_str())
            .body(message.payload.clone())
            .send()
            .await
            // The address is no secret of ours to log; the kind of failure is enough.
            .map_err(|failure| SendError::Away { why: failure.without_url().to_string() })?;
        judge(answer.status())
    }
}

/// What a status says: a receiver that is overloaded or behind a broken proxy is away, one that
/// refuses this very message is not. How long a refusal is borne is for the relay to say.
fn judge(status: StatusCode) -> Result<(), SendError> {
    let why = format!("it answered with status {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Ok(()),
        408 | 425 | 429 | 500..=599 => Err(SendError::Away { why }),
        _ => Err(SendError::Rejected { why }),
    }
}

impl Transport for Webhook {
    fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(self.post(delivery))
    }

    fn receiver(&self, delivery: &Delivery) -> Option<String> {
        (self.directory)(delivery).map(|target| target.address.host())
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_encrypted_or_on_this_machine() {
        for text in ["https://shop.example/n", "http://127.0.0.1:9/n", "http://localhost/n"] {
            assert!(Address::parse(text).is_ok(), "{text}");
        }
        for (text, why) in [
            ("http://shop.example/n", Unfit::Plain),
            ("http://10.0.0.1/n", Unfit::Plain),
            ("https://user:pw@shop.example/n", Unfit::Malformed),
            ("ftp://shop.example/n", Unfit::Malformed),
            ("shop", Unfit::Malformed),
        ] {
            assert_eq!(Address::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn only_a_2xx_answer_is_a_delivery() {
        for status in 100..600 {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(judge(status).is_ok(), status.is_success(), "{status}");
        }
        assert!(matches!(judge(StatusCode::BAD_GATEWAY), Err(SendError::Away { .. })));
        assert!(matches!(judge(StatusCode::FOUND), Err(SendError::Rejected { .. })));
    }
}
