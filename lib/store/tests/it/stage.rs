//! What the tests share: a store in a directory of its own, and its clock.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};
use tempfile::TempDir;
use tokio::sync::Mutex;

use hapax_core::{
    Actor, BusinessKey, Effect, Fence, Fingerprint, Grant, Hapax, Identity, Nonce, Operation,
    OperationName, Outcome, Policy, Prints, Tenant, Timestamp,
    store::{Answer, Claim, Step, Store},
};
use hapax_store::SqliteStore;

/// A store in a fresh file.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) sql: SqliteStore,
    /// Moves the clock. What it writes need not outlive the machine.
    hand: Mutex<SqliteConnection>,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sql = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
        let options = SqliteConnectOptions::new()
            .filename(dir.path().join("hapax.db"))
            .synchronous(SqliteSynchronous::Off);
        let hand = SqliteConnection::connect_with(&options).await.unwrap();
        Self { dir, sql, hand: Mutex::new(hand) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("hapax.db")
    }

    /// The file of a transaction log that is not yet part of the database.
    pub(crate) fn wal_bytes(&self) -> u64 {
        std::fs::metadata(self.dir.path().join("hapax.db-wal")).map_or(0, |meta| meta.len())
    }

    /// Another store on the same file, as another process has it.
    pub(crate) async fn other(&self) -> SqliteStore {
        SqliteStore::open(self.path()).await.unwrap()
    }

    /// A connection of the caller's own.
    pub(crate) async fn connect(&self) -> SqliteConnection {
        let options =
            SqliteConnectOptions::new().filename(self.path()).busy_timeout(Duration::from_secs(5));
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// An engine with one operation.
    pub(crate) fn operation(&self, policy: Policy) -> Operation {
        hapax(&self.sql).declare("shop.order", policy).unwrap()
    }

    /// Makes the table of the business.
    pub(crate) async fn with_orders(self) -> Self {
        let mut conn = self.connect().await;
        sqlx::raw_sql("CREATE TABLE orders (item TEXT NOT NULL) STRICT")
            .execute(&mut conn)
            .await
            .unwrap();
        conn.close().await.unwrap();
        self
    }

    /// The rows of the business.
    pub(crate) async fn orders(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT item FROM orders ORDER BY rowid")
            .fetch_all(self.sql.readers())
            .await
            .unwrap()
    }

    /// Moves the store's clock forward; once it is in the future it stands still by itself.
    pub(crate) async fn pass(&self, span: Duration) -> Timestamp {
        let now = sqlx::query_scalar(
            "UPDATE hapax_clock SET latest = (SELECT now FROM hapax_now) + ?1 RETURNING latest",
        )
        .bind(hapax_core::millis(span))
        .fetch_one(&mut *self.hand.lock().await)
        .await
        .unwrap();
        Timestamp::from_millis(now)
    }
}

/// The engine around a store.
pub(crate) fn hapax(sql: &SqliteStore) -> Hapax {
    Hapax::new(Arc::new(sql.clone()))
}

pub(crate) fn tenant() -> Tenant {
    Tenant::parse("shop").unwrap()
}

pub(crate) fn key(text: &str) -> BusinessKey {
    BusinessKey::parse(text).unwrap()
}

pub(crate) fn actor(name: &str) -> Actor {
    Actor::parse(name).unwrap()
}

pub(crate) fn nonce(serial: u8) -> Nonce {
    Nonce::from_bytes([serial; 16])
}

pub(crate) fn value(text: &str) -> Outcome {
    Outcome::Value(Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn prints(request: &str) -> Prints {
    Prints::new(Fingerprint::new().text("request", request).print(), None)
}

pub(crate) fn identity(text: &str) -> Identity {
    Identity::business(tenant(), OperationName::parse("shop.order").unwrap(), key(text))
}

/// A claim on a business key, with a lease of ten seconds.
pub(crate) fn claim(text: &str, serial: u8) -> Claim {
    let identity = identity(text);
    Claim {
        id: identity.id(),
        identity,
        nonce: nonce(serial),
        prints: prints("request"),
        lease: Duration::from_secs(10),
        effect: Effect::Transactional,
        attempts_max: 5,
        caller: actor("worker"),
    }
}

pub(crate) async fn send(store: &impl Store, step: Step) -> Answer {
    let mut answers = store.apply(vec![step]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

pub(crate) async fn grant(store: &impl Store, claim: &Claim) -> (Grant, Fence) {
    match send(store, Step::Claim(Arc::new(claim.clone()))).await {
        Answer::Granted(grant) => {
            let fence = Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce };
            (grant, fence)
        }
        answer => panic!("not granted: {answer:?}"),
    }
}
