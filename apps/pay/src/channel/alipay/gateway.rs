//! Bytes there, bytes back, within bounds. Knows nothing of what they mean.
//!
//! Nothing is sent twice here, no redirect is followed and no proxy of the environment is used.

use std::{net::IpAddr, time::Duration};

use reqwest::{Client, StatusCode, Url, header::CONTENT_TYPE, redirect, retry};

use crate::channel::{Cause, Frozen};

/// Real answers have a few KiB; this bounds what one call may cost us.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Shorter than any gateway keeps a connection, so that a request seldom meets a dead one.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// How long one call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until the connection stands.
    pub connect: Duration,
    /// Until the answer is complete, the connection included.
    pub answer: Duration,
}

impl Default for Patience {
    /// 3 s and 10 s: the gateway answers within one, and a call that fails is asked about anyway.
    fn default() -> Self {
        Self { connect: Duration::from_secs(3), answer: Duration::from_secs(10) }
    }
}

/// The gateway of Alipay, or of the simulator.
#[derive(Clone, Debug)]
pub struct Gateway {
    client: Client,
    base: Url,
}

impl Gateway {
    /// Goes to `address`, which must be https, or http on this very machine.
    pub fn new(address: &str, patience: Patience) -> Result<Self, GatewayFault> {
        let base = Url::parse(address).map_err(|_| GatewayFault::Address)?;
        let bare = base.query().is_none()
            && base.fragment().is_none()
            && base.username().is_empty()
            && base.password().is_none();
        match base.scheme() {
            _ if !bare => return Err(GatewayFault::Address),
            "https" => {}
            "http" if is_loopback(&base) => {}
            "http" => return Err(GatewayFault::Plain),
            _ => return Err(GatewayFault::Address),
        }
        let client = client(base.scheme(), patience).map_err(|_| GatewayFault::Client)?;
        Ok(Self { client, base })
    }

    /// The address at which a browser makes the request itself.
    pub(super) fn page(&self, frozen: &Frozen) -> String {
        let mut page = self.base.clone();
        page.set_query(Some(&String::from_utf8_lossy(frozen.as_bytes())));
        page.into()
    }

    /// Sends a request once and returns the whole answer.
    pub(super) async fn send(&self, frozen: &Frozen) -> Result<Vec<u8>, Cause> {
        let mut url = self.base.clone();
        // Said in the body alone, the charset is overlooked by some entries, which then read GBK.
        url.set_query(Some("charset=utf-8"));
        let mut response = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded;charset=utf-8")
            .body(frozen.as_bytes().to_vec())
            .send()
            .await
            .map_err(|error| cause(&error))?;
        if response.status() != StatusCode::OK {
            return Err(Cause::Status(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| cause(&error))? {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Cause::TooLong);
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

fn client(scheme: &str, patience: Patience) -> reqwest::Result<Client> {
    let client = Client::builder()
        .connect_timeout(patience.connect)
        .timeout(patience.answer)
        .pool_idle_timeout(IDLE_MAX)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false);
    match scheme {
        // Without TLS no root certificates are needed, and the machine may have none.
        "http" => client.tls_certs_only([]),
        _ => client,
    }
    .build()
}

fn cause(error: &reqwest::Error) -> Cause {
    // A connection that timed out is both; that nothing was sent says more.
    if error.is_connect() {
        Cause::NotSent
    } else if error.is_timeout() {
        Cause::TimedOut
    } else {
        Cause::Broken
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Why a gateway cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayFault {
    /// Not an address, or one with parts that do not belong.
    #[error(
        "the gateway must be an address like https://openapi.alipay.com/gateway.do, without \
         user, query or fragment"
    )]
    Address,
    /// Unencrypted to another machine.
    #[error("the gateway must be reached by https unless it is on this machine")]
    Plain,
    /// TLS could not be set up on this machine.
    #[error("TLS cannot be set up: install the machine's root certificates")]
    Client,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(address: &str) -> Option<GatewayFault> {
        Gateway::new(address, Patience::default()).err()
    }

    #[test]
    fn only_encrypted_or_local_gateways_are_taken() {
        for address in [
            "https://openapi.alipay.com/gateway.do",
            "http://127.0.0.1:8080/gateway.do",
            "http://[::1]:8080/gateway.do",
            "http://localhost/gateway.do",
        ] {
            assert_eq!(fault(address), None, "{address}");
        }
        for address in ["http://openapi.alipay.com/gateway.do", "http://127.0.0.1.example/"] {
            assert_eq!(fault(address), Some(GatewayFault::Plain), "{address}");
        }
        for address in
            ["", "gateway.do", "ftp://127.0.0.1/", "https://a/?b=1", "https://a/#b", "https://u@a/"]
        {
            assert_eq!(fault(address), Some(GatewayFault::Address), "{address}");
        }
    }
}
