//! A service under test: a scripted handler behind the layer, on a real port, with a store that
//! counts and fails on demand.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{self, Next},
    response::Response,
    routing::any,
};
use futures_util::future::{BoxFuture, ready};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

use hapax_core::{
    Clock, Effect, Hapax, Id, Policy, SystemClock,
    store::{
        Answer, Capabilities, Entry, Fault, FaultKind, Found, MemoryStore, Page, Scan, Step, Store,
    },
};
use hapax_http::{Caller, FromExtension, IdempotencyLayer, STATUS_PATH, StatusRoutes};

type Script = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// A service on a port of its own.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) hapax: Hapax,
    pub(crate) spy: Arc<Spy>,
    pub(crate) effects: Effects,
    pub(crate) router: Router,
    _server: JoinSet<()>,
}

/// What the handler does besides answering.
#[derive(Clone, Default)]
pub(crate) struct Effects {
    count: Arc<AtomicUsize>,
    pub(crate) gate: Arc<Gate>,
}

impl Effects {
    pub(crate) fn happen(&self) -> usize {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until so many have happened.
    pub(crate) async fn reach(&self, count: usize) {
        until(|| self.count() >= count).await;
    }
}

/// Holds handlers back until it is opened.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: AtomicBool,
    opened: Notify,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
        self.opened.notify_waiters();
    }

    pub(crate) async fn pass(&self) {
        let opened = self.opened.notified();
        if !self.is_open.load(Ordering::SeqCst) {
            opened.await;
        }
    }
}

/// Waits until something holds, and fails loudly if it never does.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
    panic!("what was waited for did not come within 10 s");
}

/// Sets up a service.
pub(crate) struct Plan {
    pub(crate) policy: Policy,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spy: Option<Arc<Spy>>,
    pub(crate) layer: Box<dyn FnOnce(IdempotencyLayer) -> IdempotencyLayer>,
}

impl Plan {
    pub(crate) fn new(effect: Effect) -> Self {
        Self {
            policy: Policy::new(effect),
            clock: Arc::new(SystemClock),
            spy: None,
            layer: Box::new(|layer| layer),
        }
    }

    pub(crate) fn policy(self, change: impl FnOnce(Policy) -> Policy) -> Self {
        Self { policy: change(self.policy), ..self }
    }

    pub(crate) fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Another process on the same store.
    pub(crate) fn beside(self, site: &Site) -> Self {
        Self { spy: Some(Arc::clone(&site.spy)), ..self }
    }

    pub(crate) fn layer(
        self,
        change: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer + 'static,
    ) -> Self {
        Self { layer: Box::new(change), ..self }
    }

    /// Serves `script` at `/work`.
    pub(crate) async fn serve<F, W>(self, script: F) -> Site
    where
        F: Fn(Effects, Request) -> W + Send + Sync + 'static,
        W: Future<Output = Response> + Send + 'static,
    {
        let effects = Effects::default();
        let seen = effects.clone();
        let script: Script = Arc::new(move |request| Box::pin(script(seen.clone(), request)));
        let handler = any(move |request: Request| script(request));
        self.serve_route(handler, effects).await
    }

    /// Serves a handler of its own at `/work` and `/jobs/{*rest}`.
    pub(crate) async fn serve_route(
        self,
        handler: axum::routing::MethodRouter,
        effects: Effects,
    ) -> Site {
        let fresh = || Spy::before(MemoryStore::with(Arc::clone(&self.clock), 100_000));
        let spy = self.spy.unwrap_or_else(|| Arc::new(fresh()));
        let hapax = Hapax::on(spy.clone()).clock(self.clock).build();
        let operation = hapax.declare("work.do", self.policy).unwrap();
        let guard = (self.layer)(IdempotencyLayer::new(operation, FromExtension));
        let router = Router::new()
            .route("/work", handler.clone())
            .route("/jobs/{*rest}", handler)
            .layer(guard.status_at(STATUS_PATH))
            .merge(StatusRoutes::new(hapax.clone(), FromExtension).router())
            .layer(middleware::from_fn(authenticate));
        let (address, server) = listen(router.clone()).await;
        Site { address, hapax, spy, effects, router, _server: server }
    }
}

pub(crate) async fn listen(router: Router) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, server)
}

/// The application's own authentication: `Authorization: tenant/principal`.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    let claimed = request.headers().get("authorization").and_then(|it| it.to_str().ok());
    let caller = claimed.and_then(|claimed| claimed.split_once('/'));
    if let Some(Ok(caller)) = caller.map(|(tenant, principal)| Caller::parse(tenant, principal)) {
        request.extensions_mut().insert(caller);
    }
    next.run(request).await
}

pub(crate) fn answer(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).body(body.into()).unwrap()
}

/// A memory store that counts what it is asked and fails on demand.
pub(crate) struct Spy {
    inner: MemoryStore,
    asked: Mutex<Asked>,
    failing: Mutex<Option<fn(&Step) -> bool>>,
}

/// How often each step was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) claims: usize,
    pub(crate) completes: usize,
    pub(crate) others: usize,
}

impl Spy {
    fn before(inner: MemoryStore) -> Self {
        Self { inner, asked: Mutex::default(), failing: Mutex::default() }
    }

    pub(crate) fn asked(&self) -> Asked {
        *self.asked.lock().unwrap()
    }

    /// From now on such steps fail, surely undone.
    pub(crate) fn fail(&self, steps: fn(&Step) -> bool) {
        *self.failing.lock().unwrap() = Some(steps);
    }

    pub(crate) fn heal(&self) {
        *self.failing.lock().unwrap() = None;
    }
}

impl Store for Spy {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let failing = *self.failing.lock().unwrap();
        for step in &steps {
            let mut asked = self.asked.lock().unwrap();
            match step {
                Step::Claim(_) => asked.claims += 1,
                Step::Complete { .. } => asked.completes += 1,
                _ => asked.others += 1,
            }
        }
        if failing.is_some_and(|fails| steps.iter().any(fails)) {
            let away = |_| Answer::Away(Fault::new(FaultKind::Unavailable, "cut off"));
            return Box::pin(ready(steps.iter().map(away).collect()));
        }
        self.inner.apply(steps)
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.inner.look(ids)
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.inner.scan(scan)
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.inner.history(id)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.inner.purge(rows)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}
