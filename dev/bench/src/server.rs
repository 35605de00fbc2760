//! The server of one variant. It runs in a process of its own, so that its processor time is its
//! own, and on one worker, so that a request costs what it costs.

use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::Context as _;
use axum::{
    Extension, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use bytes::Bytes;
use clap::ValueEnum;
use tokio::net::TcpListener;

use hapax::{
    Effect, Hapax, Policy,
    http::{Caller, FromExtension, IdempotencyLayer},
    sql::SqliteStore,
    store::{MemoryStore, Store},
};

/// Orders that one run may place: above what a core serves in all rounds of a run.
pub(crate) const ORDERS_MAX: usize = 8_000_000;
/// Records of the memory store; the same bound.
const RECORDS_MAX: usize = ORDERS_MAX;
/// The header that numbers an order, so that the handler need not parse its body.
pub(crate) const ORDER: &str = "order";

/// What stands in front of the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum Variant {
    /// Nothing.
    Bare,
    /// The layer, on a store in memory.
    Memory,
    /// The layer, on a store in a SQLite file.
    Sqlite,
}

impl Variant {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::Memory, Self::Sqlite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
        }
    }
}

/// How often the handler ran for each order.
struct Executions {
    of: Vec<AtomicU32>,
    placed: AtomicU32,
    repeated: AtomicU32,
}

impl Executions {
    fn new() -> Self {
        Self {
            of: std::iter::repeat_with(AtomicU32::default).take(ORDERS_MAX).collect(),
            placed: AtomicU32::default(),
            repeated: AtomicU32::default(),
        }
    }

    fn one(&self, order: usize) -> Option<()> {
        let before = self.of.get(order)?.fetch_add(1, Ordering::Relaxed);
        let counter = if before == 0 { &self.placed } else { &self.repeated };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(())
    }
}

/// Serves until standard input ends, and says its port in its first line.
pub(crate) fn run(variant: Variant) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(variant))
}

async fn serve(variant: Variant) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let guarded = match variant {
        Variant::Bare => router(),
        Variant::Memory => {
            guard(Arc::new(MemoryStore::with(Arc::new(hapax::SystemClock), RECORDS_MAX)))?
        }
        Variant::Sqlite => {
            guard(Arc::new(SqliteStore::open(folder.path().join("bench.db")).await?))?
        }
    };
    let executions = Arc::new(Executions::new());
    // What an application's authentication leaves, guarded or not.
    let caller = Caller::parse("acme", "till-1")?;
    let app =
        guarded.layer(Extension(caller)).route("/executions", get(told)).with_state(executions);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    axum::serve(listener, app)
        .with_graceful_shutdown(async {
            drop(parent.await);
        })
        .await
        .context("serve")
}

fn router() -> Router<Arc<Executions>> {
    Router::new().route("/orders", post(place))
}

/// The layer.
fn guard(store: Arc<dyn Store>) -> anyhow::Result<Router<Arc<Executions>>> {
    let hapax = Hapax::new(store);
    let operation = hapax.declare("order.place", Policy::new(Effect::Opaque))?;
    Ok(router().layer(IdempotencyLayer::new(operation, FromExtension)))
}

/// As little as a handler can do: it counts itself.
async fn place(
    State(executions): State<Arc<Executions>>,
    headers: HeaderMap,
    _body: Bytes,
) -> Result<(StatusCode, [(&'static str, &'static str); 1], &'static str), StatusCode> {
    let order = headers.get(ORDER).and_then(|order| order.to_str().ok()?.parse().ok());
    order.and_then(|order| executions.one(order)).ok_or(StatusCode::BAD_REQUEST)?;
    let answer = r#"{"order":"placed","amount_minor":1999,"currency":"CNY"}"#;
    Ok((StatusCode::CREATED, [("content-type", "application/json")], answer))
}

async fn told(State(executions): State<Arc<Executions>>) -> Json<[u32; 2]> {
    let of = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    Json([of(&executions.placed), of(&executions.repeated)])
}
