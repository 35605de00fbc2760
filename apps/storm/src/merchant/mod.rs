//! The merchant's endpoint: takes the service's notices, some of them only the second time.
//!
//! Invariant: a notice is acknowledged only if its signature is good
//! (`a_notice_without_a_good_signature_is_not_acknowledged`).

mod desk;
mod journal;
mod signature;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub(crate) use self::desk::Complaint;
#[cfg(test)]
pub(crate) use self::signature::sign;

use self::desk::Desk;
use crate::clock::Clock;
use crate::error::{Error, Kind};
use crate::plan::Tenant;
use crate::report::NoticeCounts;

/// A notice has less than a kilobyte.
const BODY_MAX: usize = 64 * 1024;

/// How the merchant treats the first delivery of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manner {
    /// Share of the events whose first delivery fails: one half is refused, the other is held.
    pub failures: f64,
    /// How long a held delivery waits for its answer.
    pub hold: Duration,
}

impl Default for Manner {
    fn default() -> Self {
        Self { failures: 0.2, hold: Duration::from_secs(1) }
    }
}

/// The merchant's endpoint, listening on a free loopback port until it is dropped.
pub struct Merchant {
    address: SocketAddr,
    desk: Arc<Desk>,
    /// Owns the server.
    _server: JoinSet<()>,
}

impl Merchant {
    /// Listens. The addresses for notices are known from here on; the tenants' secrets come with
    /// the plan, and until then every notice is refused.
    ///
    /// # Errors
    /// `Kind::Listen` if no port can be had.
    pub async fn open(seed: u64, manner: Manner) -> Result<Self, Error> {
        let listen = |error| Error::new(Kind::Listen, "listen for notices").because(error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let desk = Arc::new(Desk::new(seed, manner));
        let app = Router::new()
            .route("/notices/{tenant}", post(take))
            .layer(DefaultBodyLimit::max(BODY_MAX))
            .with_state(Arc::clone(&desk));
        let mut server = JoinSet::new();
        server.spawn(async move {
            // Ends only with the merchant: a failed accept is tried again inside.
            let ended = axum::serve(listener, app).await;
            debug_assert!(ended.is_ok(), "the server has no way to fail");
        });
        Ok(Self { address, desk, _server: server })
    }

    /// Where the service is to send the notices of a tenant.
    #[must_use]
    pub fn address(&self, tenant: &str) -> String {
        format!("http://{}/notices/{tenant}", self.address)
    }

    /// What was seen so far.
    #[must_use]
    pub fn counts(&self) -> NoticeCounts {
        self.desk.counts()
    }

    pub(crate) fn expect(&self, tenants: &[Tenant]) {
        self.desk.expect(tenants);
    }

    /// What stories may look at.
    pub(crate) fn view(&self) -> View {
        View(Arc::clone(&self.desk))
    }
}

/// What arrived at the merchant's endpoint.
pub(crate) struct View(Arc<Desk>);

impl View {
    /// Whether the tenant is to be sent notices.
    pub(crate) fn serves(&self, tenant: &str) -> bool {
        self.0.serves(tenant)
    }

    /// Whether an event about a payment was acknowledged.
    pub(crate) fn knows(&self, tenant: &str, payment_no: &str, kinds: &[&str]) -> bool {
        self.0.knows(tenant, payment_no, kinds)
    }

    /// Takes what was found wrong since the last call.
    pub(crate) fn take_complaints(&self) -> Vec<Complaint> {
        self.0.take_complaints()
    }

    pub(crate) fn counts(&self) -> NoticeCounts {
        self.0.counts()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl fmt::Debug for Merchant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What is done with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    Taken,
    Refused(StatusCode),
    /// No answer for a while, then a refusal.
    Held(Duration),
}

async fn take(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    match desk.receive(&tenant, &headers, &body, Clock.unix_s()) {
        Reception::Taken => StatusCode::NO_CONTENT,
        Reception::Refused(status) => status,
        Reception::Held(span) => {
            Clock.sleep(span).await;
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
