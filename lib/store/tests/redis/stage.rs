//! What the tests share: servers, stores on them, and claims.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use hapax_core::{
    Actor, BusinessKey, Clock, Effect, Fence, Fingerprint, Grant, Id, Identity, Nonce,
    OperationName, Outcome, Record, Retention, SystemClock, Tenant,
    store::{Answer, Claim, FaultKind, Found, Step, Store},
};
use hapax_store::redis::RedisStore;
use hapax_testkit::Redis;

/// The lease of a claim that names no other.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// What is waited for comes within this, also on a loaded machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A server as the store wants it, without the price of the disk.
pub(crate) async fn server() -> Redis {
    Redis::with(&[("appendfsync", "no")]).await.unwrap()
}

/// A store on a server of its own.
pub(crate) async fn store() -> (Redis, RedisStore) {
    let server = server().await;
    let store = RedisStore::open(&server.url()).await.unwrap();
    (server, store)
}

/// A namespace that no other store of this process has.
pub(crate) fn namespace() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("store{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// Sends one command to a server, as words.
pub(crate) async fn tell(server: &Redis, words: &str) -> String {
    server.ask(&words.split(' ').collect::<Vec<_>>()).await.unwrap()
}

pub(crate) async fn pass(span: Duration) {
    SystemClock.sleep(span).await;
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let patience = SystemClock.now() + SOON;
    while !is_so().await {
        assert!(SystemClock.now() < patience, "it never came: {what}");
        pass(Duration::from_millis(20)).await;
    }
}

pub(crate) fn nonce(serial: u8) -> Nonce {
    Nonce::from_bytes([serial; 16])
}

pub(crate) fn tenant() -> Tenant {
    Tenant::parse("shop").unwrap()
}

pub(crate) fn value(text: &str) -> Outcome {
    Outcome::Value(Bytes::copy_from_slice(text.as_bytes()))
}

/// A claim on a business key, of an opaque effect.
pub(crate) fn claim(key: &str, serial: u8) -> Claim {
    let key = BusinessKey::of(&[key]).unwrap();
    let operation = OperationName::parse("shop.order").unwrap();
    let identity = Identity::business(tenant(), operation, key);
    Claim {
        id: identity.id(),
        identity,
        nonce: nonce(serial),
        prints: Fingerprint::new().text("request", "request").prints(),
        lease: LEASE,
        effect: Effect::Opaque,
        attempts_max: 5,
        caller: Actor::parse("worker").unwrap(),
    }
}

pub(crate) fn complete(fence: Fence, answer: &str) -> Step {
    Step::Complete { fence, outcome: value(answer), retention: Retention::FOREVER }
}

pub(crate) async fn ask(store: &RedisStore, step: Step) -> Answer {
    let mut answers = store.apply(vec![step]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

pub(crate) async fn try_claim(store: &RedisStore, claim: &Claim) -> Answer {
    ask(store, Step::Claim(Arc::new(claim.clone()))).await
}

pub(crate) async fn grant(store: &RedisStore, claim: &Claim) -> Grant {
    match try_claim(store, claim).await {
        Answer::Granted(grant) => grant,
        answer => panic!("not granted: {answer:?}"),
    }
}

/// Claims; the fence.
pub(crate) async fn hold(store: &RedisStore, claim: &Claim) -> Fence {
    let grant = grant(store, claim).await;
    Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce }
}

pub(crate) async fn look(store: &RedisStore, id: Id) -> Found {
    store.look(vec![id]).await.remove(0).unwrap()
}

pub(crate) async fn record(store: &RedisStore, id: Id) -> Record {
    Arc::unwrap_or_clone(look(store, id).await.record.expect("a record"))
}

/// The words of an answer that is no answer: what kind of fault, and why.
pub(crate) fn fault(answer: &Answer) -> (&'static str, FaultKind, String) {
    let (word, fault) = match answer {
        Answer::Away(fault) => ("away", fault),
        Answer::Unsure(fault) => ("unsure", fault),
        answer => panic!("it was answered: {answer:?}"),
    };
    (word, fault.kind(), chain(fault))
}

/// An error and all its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The key under which a store of the default namespace keeps a record.
pub(crate) fn key_of(id: Id) -> String {
    format!("hapax:{{{}}}", id.hex())
}
