//! The sockets: connections are accepted, served, and let go.
//!
//! Invariant: a client that sends no head, or one without end, is hung up on in time
//! (`a_head_that_drips_is_hung_up_on`), and a stop lets every request that has begun get its
//! answer (`a_drained_service_leaves_no_running_request`).

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use futures_util::future::{Either, select};
use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use hapax::Clock;

/// Rest after a failed accept: the usual cause is that the process is out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is served on every connection.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) router: Router,
    /// The head of a request must have come within this time, the first one and each later one.
    pub(crate) head_timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Serves until `stop` completes, then until every request that has begun is answered.
///
/// # Cancellation
/// Dropped, it hangs up on everybody.
pub(crate) async fn serve(listener: TcpListener, house: House, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while open.try_join_next().is_some() {}
        // A connection that was not accepted stays in the queue of the system.
        match select(pin!(listener.accept()), stop.as_mut()).await {
            Either::Right(_) => break,
            Either::Left((Ok((stream, _)), _)) => {
                open.spawn(house.clone().receive(stream, connections.watcher()));
            }
            Either::Left((Err(why), _)) => {
                tracing::warn!(error = %why, "a connection could not be accepted");
                house.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

impl House {
    /// Serves one connection to its end.
    async fn receive(self, stream: TcpStream, watcher: Watcher) {
        let Self { router, head_timeout, clock } = self;
        let (heard, inner) = (CancellationToken::new(), TowerToHyperService::new(router));
        let hears = heard.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            hears.cancel();
            inner.call(request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(head_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(head_timeout)
            .keep_alive_timeout(head_timeout);
        let serving = watcher.watch(builder.serve_connection(TokioIo::new(stream), service));
        // The library's own timer begins only when it is known which version is spoken.
        let silent = async {
            // A flag and a timer: dropping either loses nothing.
            if let Either::Left(_) =
                select(pin!(heard.cancelled()), clock.sleep(head_timeout)).await
            {
                std::future::pending::<()>().await;
            }
        };
        // Nothing has begun on a connection on which nothing was heard.
        match select(pin!(serving), pin!(silent)).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(why), _)) => {
                tracing::debug!(error = %why, "a connection ended early");
            }
            Either::Right(_) => tracing::debug!("a connection on which nothing was heard is cut"),
        }
    }
}
