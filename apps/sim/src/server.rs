//! The sockets.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use reqwest::redirect::Policy;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::channel::{Channel, Parts};
use crate::clock::Clock;
use crate::config::Config;
use crate::control;
use crate::error::{Error, Kind};
use crate::gateway;
use crate::keys::Signer;
use crate::page;
use crate::world::{Numbers, World};

/// Open connections; a storm with a thousand clients fits.
const CONNECTIONS_MAX: usize = 2_048;

/// How long a client may take for its head, or keep an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long requests may still run after the simulator was told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Rest after a failed accept: the usual cause is that the process is out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A simulator that listens but does not answer yet.
#[derive(Debug)]
pub struct Simulator {
    listener: TcpListener,
    local_addr: SocketAddr,
    channel: Channel,
}

/// Checks the configuration, reads the keys and listens.
///
/// # Errors
/// `Kind::Config` or `Kind::Key` if the configuration is wrong, `Kind::Listen` if the address
/// can't be had.
pub async fn bind(config: Config) -> Result<Simulator, Error> {
    let signer = Signer::from_pem(&config.alipay_private_key_pem)?;
    let gaps = config.gaps()?;
    let merchants = config.merchants(&signer)?;
    config.faults.check().map_err(|problem| {
        Error::new(Kind::Config, format!("use the configuration: faults: {problem}"))
    })?;
    let listen =
        |error| Error::new(Kind::Listen, format!("listen on {}", config.listen)).because(error);
    let listener = TcpListener::bind(config.listen).await.map_err(listen)?;
    let local_addr = listener.local_addr().map_err(listen)?;

    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret)
        .map_err(|_| Error::new(Kind::Key, "ask the system for randomness"))?;
    let numbers = Numbers::new(Clock.now(), secret);
    let page_base = config.public_url.map(|url| url.trim_end_matches('/').to_owned());
    let page_base = page_base.unwrap_or_else(|| format!("http://{local_addr}"));
    let world = World::new(config.seed, config.faults, numbers, page_base);
    let parts = Parts {
        merchants,
        signer,
        stranger: Signer::stranger()?,
        gaps,
        notify_timeout: config.notify_timeout,
        timestamp_tolerance: config.timestamp_tolerance,
        http: http_client()?,
        in_flight: Channel::in_flight(),
        clock: Clock,
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
        cut: CancellationToken::new(),
    };
    Ok(Simulator { listener, local_addr, channel: Channel::new(world, parts) })
}

impl Simulator {
    /// The address that is listened on, with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Answers until `shutdown` completes; then requests get five seconds to end.
    ///
    /// # Errors
    /// None at present: a failed accept is logged and tried again.
    ///
    /// # Cancellation
    /// Dropping the future stops the simulator; running requests and deliveries are cut off.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let Self { listener, channel, .. } = self;
        let stop = channel.parts().stop.clone();
        let tasks = channel.parts().tasks.clone();
        let cut = channel.parts().cut.clone();
        // If this future is dropped, the tasks end too.
        let _stop_on_drop = stop.clone().drop_guard();
        let _cut_on_drop = cut.clone().drop_guard();

        let told = stop.clone();
        tasks.spawn(async move {
            told.run_until_cancelled(shutdown).await;
            told.cancel();
        });
        tasks.spawn(channel.clone().keep_time());

        let app = app(channel.clone());
        let connections = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Accept and acquire are cancel-safe: a connection that was not taken stays in the queue.
        while let Some((place, stream, peer)) =
            stop.run_until_cancelled(next(&listener, &places)).await
        {
            let connection = connection(app.clone(), stream, peer, connections.watcher(), place);
            // A connection is cut only when nobody waits for it any more.
            tasks.spawn(cut.clone().run_until_cancelled_owned(connection));
        }
        drop(listener);
        tasks.close();
        let clock = channel.parts().clock;
        if clock.within(DRAIN, connections.shutdown()).await.is_none() {
            tracing::warn!("requests were still running when the simulator stopped");
        }
        cut.cancel();
        clock.within(DRAIN, tasks.wait()).await;
        Ok(())
    }
}

/// Marks a response that is never sent: the connection closes instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HangUp;

impl HangUp {
    pub(crate) fn response() -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(Self);
        response
    }
}

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulator hangs up, as a fault demands")
    }
}

impl std::error::Error for HangUp {}

fn app(channel: Channel) -> Router {
    Router::new()
        .route("/gateway.do", get(gateway::serve).post(gateway::serve))
        .merge(page::routes())
        .merge(control::routes())
        .fallback(|| {
            let hint = "the simulator has /gateway.do, /qr/{token} and /_sim/truth, among others\n";
            ready((StatusCode::NOT_FOUND, hint).into_response())
        })
        .with_state(channel)
}

/// Waits for a place and then for somebody to take it.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, TcpStream, SocketAddr) {
    // Fails only when the semaphore is closed, which nobody does.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (place, stream, peer),
            Err(error) => {
                tracing::warn!(error = %error, "a connection could not be accepted");
                Clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(
    app: Router,
    stream: TcpStream,
    peer: SocketAddr,
    watcher: Watcher,
    place: Option<OwnedSemaphorePermit>,
) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        let app = app.clone();
        request.extensions_mut().insert(ConnectInfo(peer));
        async move {
            let response =
                app.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
            match response.extensions().get::<HangUp>() {
                Some(hang_up) => Err(*hang_up),
                None => Ok(response),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error = %error, peer = %peer, "a connection ended early");
    }
    drop(place);
}

/// The client that makes deliveries: no redirects, no proxies, a fresh connection each time, as
/// the channel's own fleet has it.
fn http_client() -> Result<reqwest::Client, Error> {
    reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .user_agent("Mozilla/4.0")
        .build()
        .map_err(|error| Error::new(Kind::Config, "make the HTTP client").because(error))
}
