//! What the tests share: a store in a database of its own, and its clock.

use std::{any::Any, sync::Arc, time::Duration};

use bytes::Bytes;
use sqlx::Pool;
use tokio::sync::Mutex;

use crate::engine::{Conn, Engine, connect, pool};
use hapax_core::{
    Actor, BusinessKey, Effect, Fence, Fingerprint, Grant, Hapax, Identity, Nonce, Operation,
    OperationName, Outcome, Policy, Prints, Tenant, Timestamp,
    store::{Answer, Claim, Step, Store},
};
use hapax_store::{Dialect, Sql};

/// All tables of the store.
const TABLES: [&str; 7] =
    ["records", "journal", "outbox", "outbox_journal", "inbox", "locks", "transitions"];

/// A store in a fresh database.
pub(crate) struct Stage<E: Engine> {
    pub(crate) sql: Sql<E>,
    place: String,
    /// Moves the clock.
    hand: Mutex<Option<Conn<E>>>,
    _site: Box<dyn Any + Send + Sync>,
}

impl<E: Engine> Stage<E> {
    pub(crate) async fn set() -> Self {
        let site = E::site().await;
        let place = E::place(&site);
        Self::on(place, Box::new(site)).await
    }

    /// A store at a place, and what must outlive it.
    pub(crate) async fn on(place: String, site: Box<dyn Any + Send + Sync>) -> Self {
        let sql = E::open(&E::at(&place)).await.unwrap();
        Self { sql, place, hand: Mutex::new(None), _site: site }
    }

    /// The same database, emptied, on connections of this runtime.
    pub(crate) async fn again(self) -> Self {
        let Self { place, _site: site, .. } = self;
        let sql = E::open(&E::at(&place)).await.unwrap();
        let mut hand = hand::<E>(&place).await;
        for table in TABLES {
            E::execute(&mut hand, &format!("DELETE FROM hapax_{table}")).await.unwrap();
        }
        Self { sql, place, hand: Mutex::new(Some(hand)), _site: site }
    }

    /// A path or a URL.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Another store on the same database, as another process has it.
    pub(crate) async fn other(&self) -> Sql<E> {
        E::open(&E::at(&self.place)).await.unwrap()
    }

    /// A connection of the caller's own.
    pub(crate) async fn connect(&self) -> Conn<E> {
        connect::<E>(&self.place).await
    }

    /// Connections of the caller's own.
    pub(crate) async fn pool(&self) -> Pool<<E as Dialect>::Db> {
        pool::<E>(&self.place).await
    }

    /// Sends a text on a connection of the caller's own.
    pub(crate) async fn execute(&self, text: &str) {
        E::execute(&mut self.connect().await, text).await.unwrap();
    }

    /// An engine with one operation.
    pub(crate) fn operation(&self, policy: Policy) -> Operation {
        hapax(&self.sql).declare("shop.order", policy).unwrap()
    }

    /// Makes the table of the business.
    pub(crate) async fn with_orders(self) -> Self {
        self.execute(E::ORDERS).await;
        self
    }

    /// The rows of the business.
    pub(crate) async fn orders(&self) -> Vec<String> {
        let mut conn = self.sql.readers().acquire().await.unwrap();
        E::texts(&mut conn, "SELECT item FROM orders ORDER BY number").await.unwrap()
    }

    /// Takes the clock into its hands: it can [move](Self::pass) it.
    pub(crate) async fn with_clock(self) -> Self {
        let mut hand = hand::<E>(&self.place).await;
        E::execute(&mut hand, E::TAKE_CLOCK).await.unwrap();
        *self.hand.lock().await = Some(hand);
        self
    }

    /// Moves the store's clock forward; once it is in the future it stands still by itself.
    pub(crate) async fn pass(&self, span: Duration) -> Timestamp {
        let text = E::MOVE_CLOCK.replace("{span}", &hapax_core::millis(span).to_string());
        let mut hand = self.hand.lock().await;
        let hand = hand.as_mut().expect("a stage with a clock");
        Timestamp::from_millis(E::number(hand, &text).await.unwrap())
    }
}

async fn hand<E: Engine>(place: &str) -> Conn<E> {
    let mut hand = connect::<E>(place).await;
    E::execute(&mut hand, E::HASTE).await.unwrap();
    hand
}

/// The engine around a store.
pub(crate) fn hapax<E: Engine>(sql: &Sql<E>) -> Hapax {
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
