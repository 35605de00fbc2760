//! The statements against the pure rule, on random lives of a dozen records.

use std::{
    any::Any,
    collections::BTreeMap,
    marker::PhantomData,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestError, TestRng, TestRunner},
};

use super::ground::{Ground, pass};
use crate::sql::{Dialect, MySql, Postgres, Sql, Sqlite};
use hapax_core::{
    Actor, BusinessKey, Effect, Epoch, Fence, Fingerprint, Id, Identity, Nonce, OperationName,
    Outcome, Prints, Record, Retention, Status, Tenant, Timestamp,
    store::{Answer, Claim, Entry, Ruling, Scan, Step, Store, apply},
};

const IDS: usize = 12;
const NONCES: u8 = 4;
/// Rows of a page, so that most answers have several.
const PAGE_ROWS: u16 = 3;
/// The longest span that fits into whole milliseconds.
const LONGEST: Duration = Duration::from_millis(i64::MAX.cast_unsigned());

/// A step before it is known which fence is current.
#[derive(Clone, Debug)]
enum Move {
    Claim { nonce: u8, request: u8, lease: u64, effect: Effect, attempts_max: u32 },
    Renew { whose: Whose, lease: u64 },
    Checkpoint { whose: Whose, point: u8 },
    Complete { whose: Whose, retention: Retention },
    Doubt { whose: Whose },
    Release { whose: Whose, memory: u64 },
    Settle { stale: bool, nonce: u8, retention: Option<Retention>, memory: u64 },
}

/// Whose fence a step carries.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Holder,
    /// The right nonce with an older epoch.
    Ghost,
    /// The right epoch with another nonce.
    Stranger,
}

#[derive(Clone, Debug)]
enum Act {
    Batch(BTreeMap<usize, Move>),
    Pass(u64),
    Purge,
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![6 => Just(Whose::Holder), 1 => Just(Whose::Ghost), 1 => Just(Whose::Stranger)]
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        Just(Effect::Transactional),
        (1..200_u64).prop_map(|window| Effect::Keyed { window: ms(window) }),
        (0..60_u64).prop_map(|quiet| Effect::Queryable { quiet: ms(quiet) }),
        Just(Effect::Keyed { window: LONGEST }),
        Just(Effect::Queryable { quiet: LONGEST }),
        Just(Effect::Opaque),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    let keep = prop_oneof![Just(None), (0..60_u64).prop_map(|keep| Some(ms(keep)))];
    (keep, 0..60_u64).prop_map(|(keep, grace)| Retention { keep, grace: ms(grace) })
}

fn step() -> impl Strategy<Value = Move> {
    let claim = (1..=NONCES, 0..5_u8, 0..50_u64, effect(), 1..4_u32).prop_map(
        |(nonce, request, lease, effect, attempts_max)| Move::Claim {
            nonce,
            request,
            lease,
            effect,
            attempts_max,
        },
    );
    let settle = (any::<bool>(), 1..=NONCES, prop::option::of(retention()), 0..50_u64).prop_map(
        |(stale, nonce, retention, memory)| Move::Settle { stale, nonce, retention, memory },
    );
    prop_oneof![
        8 => claim,
        2 => (whose(), 0..50_u64).prop_map(|(whose, lease)| Move::Renew { whose, lease }),
        2 => (whose(), any::<u8>()).prop_map(|(whose, point)| Move::Checkpoint { whose, point }),
        3 => (whose(), retention())
            .prop_map(|(whose, retention)| Move::Complete { whose, retention }),
        2 => whose().prop_map(|whose| Move::Doubt { whose }),
        2 => (whose(), 0..50_u64).prop_map(|(whose, memory)| Move::Release { whose, memory }),
        2 => settle,
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => prop::collection::btree_map(0..IDS, step(), 1..IDS).prop_map(Act::Batch),
        3 => (0..80_u64).prop_map(Act::Pass),
        1 => Just(Act::Purge),
    ]
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What the pure rule keeps.
#[derive(Default)]
struct Oracle {
    records: BTreeMap<Id, Arc<Record>>,
    journal: BTreeMap<Id, Vec<Entry>>,
}

impl Oracle {
    fn take(&mut self, step: &Step, now: Timestamp) -> Answer {
        let id = step.id();
        let (record, entry, answer) = apply(self.records.remove(&id), step, now);
        self.records.extend(record.map(|record| (id, record)));
        self.journal.entry(id).or_default().extend(entry);
        answer
    }

    fn fence(&self, id: Id, whose: Whose) -> Fence {
        let held = self.records.get(&id).map(|record| (record.epoch, record.nonce));
        let (epoch, nonce) = held.unwrap_or_else(|| (Epoch::from_stored(1), nonce_of(1)));
        match whose {
            Whose::Holder => Fence { id, epoch, nonce },
            Whose::Ghost => Fence { id, epoch: Epoch::from_stored(epoch.get() - 1), nonce },
            Whose::Stranger => Fence { id, epoch, nonce: nonce_of(99) },
        }
    }

    fn step(&self, identity: &Identity, step: &Move) -> Step {
        let id = identity.id();
        match step.clone() {
            Move::Claim { nonce, request, lease, effect, attempts_max } => {
                Step::Claim(Arc::new(Claim {
                    id,
                    identity: identity.clone(),
                    nonce: nonce_of(nonce),
                    prints: requested(request),
                    lease: ms(lease),
                    effect,
                    attempts_max,
                    caller: actor(&format!("worker {nonce} of {request}")),
                }))
            }
            Move::Renew { whose, lease } => {
                Step::Renew { fence: self.fence(id, whose), lease: ms(lease) }
            }
            Move::Checkpoint { whose, point } => Step::Checkpoint {
                fence: self.fence(id, whose),
                point: Bytes::from(vec![point; usize::from(point)]),
            },
            Move::Complete { whose, retention } => {
                Step::Complete { fence: self.fence(id, whose), outcome: value("ok"), retention }
            }
            Move::Doubt { whose } => {
                let why = format!("{}é", "x".repeat(254));
                Step::Doubt { fence: self.fence(id, whose), why }
            }
            Move::Release { whose, memory } => {
                Step::Release { fence: self.fence(id, whose), memory: ms(memory) }
            }
            Move::Settle { stale, nonce, retention, memory } => {
                let whose = if stale { Whose::Ghost } else { Whose::Holder };
                let Fence { epoch: seen, nonce: holder, .. } = self.fence(id, whose);
                let ruling = match retention {
                    Some(retention) => Ruling::Completed { outcome: value("seen"), retention },
                    None => Ruling::NothingHappened { memory: ms(memory) },
                };
                Step::Settle {
                    id,
                    seen,
                    // A judge may come with the nonce of the attempt that it judges.
                    nonce: if nonce == NONCES { holder } else { nonce_of(nonce) },
                    ruling,
                    by: actor("judge \"Ⅷ\" \\"),
                    reason: "seen at the bank: 'ok'".to_owned(),
                }
            }
        }
    }
}

/// Nothing is compared, one request, or another one under one or both versions of the rule.
fn requested(request: u8) -> Prints {
    let print = |text| Fingerprint::new().text("request", text).print();
    match request {
        0 => Prints::NONE,
        1 => Prints::new(print("a"), None),
        2 => Prints::new(print("b"), Some(print("a"))),
        3 => Prints::new(print("b"), None),
        _ => Prints::new(print("c"), Some(print("b"))),
    }
}

/// The answer in words; two answers that differ in anything differ here.
fn words(answer: &Answer) -> String {
    format!("{answer:?}")
}

fn nonce_of(serial: u8) -> Nonce {
    Nonce::from_bytes([serial; 16])
}

fn value(text: &'static str) -> Outcome {
    Outcome::Value(Bytes::from(text))
}

fn actor(name: &str) -> Actor {
    Actor::parse(name).unwrap()
}

/// A store whose clock stands still unless it is moved, so that both sides judge by one time.
pub(super) struct Site<G: Ground, D: Dialect> {
    _outlives: Box<dyn Any + Send + Sync>,
    sql: Sql<D>,
    ground: PhantomData<G>,
}

impl<G: Ground, D: Dialect<Db = <G as Dialect>::Db>> Site<G, D> {
    pub(super) async fn open() -> Self {
        let (outlives, sql) = G::open().await;
        Self { _outlives: outlives, sql: Sql::beside(&sql), ground: PhantomData }
    }

    async fn pass(&self, span: Duration) -> Timestamp {
        pass::<G, D>(&self.sql, span).await
    }
}

/// The words of one life: operations of its own, so that nobody else's records are in its pages.
struct Life {
    identities: Vec<Identity>,
    operations: [OperationName; 2],
}

impl Life {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let operations =
            ["a", "b"].map(|end| OperationName::parse(&format!("life.{serial}.{end}")).unwrap());
        let identity = |at: usize| {
            let key = BusinessKey::of(&[&at.to_string()]).unwrap();
            let operation = operations[at % 2].clone();
            Identity::business(Tenant::parse("shop").unwrap(), operation, key)
        };
        let mut identities: Vec<_> = (0..IDS).map(identity).collect();
        identities.sort_by_key(Identity::id);
        Self { identities, operations }
    }

    fn ids(&self) -> Vec<Id> {
        self.identities.iter().map(Identity::id).collect()
    }
}

async fn play<G: Ground, D: Dialect<Db = <G as Dialect>::Db>>(
    site: &Site<G, D>,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let (life, sql) = (Life::new(), &site.sql);
    let ids = life.ids();
    let mut oracle = Oracle::default();
    let mut now = site.pass(Duration::ZERO).await;
    for act in acts {
        match act {
            Act::Pass(span) => now = site.pass(ms(*span)).await,
            Act::Purge => {
                while sql.purge(1000).await.unwrap() > 0 {}
                oracle.records.retain(|_, record| !record.is_reusable(now));
            }
            Act::Batch(moves) => {
                let step = |(at, step): (&usize, &Move)| oracle.step(&life.identities[*at], step);
                let steps: Vec<_> = moves.iter().map(step).collect();
                let answers = sql.apply(steps.clone()).await;
                prop_assert_eq!(answers.len(), steps.len());
                for (step, answer) in steps.iter().zip(&answers) {
                    let expected = oracle.take(step, now);
                    prop_assert_eq!(words(answer), words(&expected), "to {:?}", step);
                }
            }
        }
        for (id, found) in ids.iter().zip(sql.look(ids.clone()).await) {
            let found = found.map_err(|fault| TestCaseError::fail(format!("{fault:?}")))?;
            prop_assert_eq!(found.now, now);
            prop_assert_eq!(&found.record, &oracle.records.get(id).cloned(), "after {:?}", act);
        }
    }
    read_pages(sql, &life, &oracle, now).await?;
    for id in ids {
        let expected = oracle.journal.remove(&id).unwrap_or_default();
        prop_assert_eq!(sql.history(id).await.unwrap(), expected);
    }
    Ok(())
}

/// Every page of every question, against the records that the pure rule kept.
async fn read_pages<D: Dialect>(
    sql: &Sql<D>,
    life: &Life,
    oracle: &Oracle,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    let statuses = [
        None,
        Some(Status::Running),
        Some(Status::Abandoned),
        Some(Status::Unknown),
        Some(Status::Open),
        Some(Status::Completed),
        Some(Status::Expired),
    ];
    let ours = |record: &Record| life.operations.contains(record.identity.operation());
    for status in statuses {
        for operation in [None, Some(&life.operations[0]), Some(&life.operations[1])] {
            let wanted = |record: &&Record| {
                status.is_none_or(|status| record.status(now) == status)
                    && operation.is_none_or(|name| record.identity.operation() == name)
            };
            let expected: Vec<&Record> =
                oracle.records.values().map(|record| &**record).filter(wanted).collect();
            // All operations are asked in one page: it holds the records of other lives too.
            let limit = if operation.is_some() { PAGE_ROWS } else { 1000 };
            let mut scan = Scan { operation: operation.cloned(), status, after: None, limit };
            let mut found = Vec::new();
            loop {
                let page = sql.scan(scan.clone()).await.unwrap();
                prop_assert!(page.records.len() <= usize::from(limit));
                found.extend(page.records.into_iter().filter(|record| ours(record)));
                let Some(next) = page.next else { break };
                prop_assert!(scan.after.is_none_or(|after| after < next), "a page goes forward");
                scan.after = Some(next);
            }
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{:?}", scan);
        }
    }
    Ok(())
}

/// Plays random lives until one parts from the pure rule; says how.
pub(super) fn search<G: Ground, D: Dialect<Db = <G as Dialect>::Db>>(
    lives: u32,
    shrinking: u32,
) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let site = runtime.block_on(Site::<G, D>::open());
    let config = ProptestConfig {
        cases: lives,
        max_shrink_iters: shrinking,
        failure_persistence: None,
        ..Default::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let acts = prop::collection::vec(act(), 1..40);
    runner.run(&acts, |acts| runtime.block_on(play(&site, &acts))).map_err(
        |parting| match parting {
            TestError::Fail(why, acts) => format!("{why}\nin {acts:#?}"),
            TestError::Abort(why) => why.to_string(),
        },
    )
}

fn agree<G: Ground>() {
    if let Err(parting) = search::<G, G>(64, 1000) {
        panic!("{parting}");
    }
}

#[test]
fn any_batch_does_what_the_pure_rule_does_on_sqlite() {
    agree::<Sqlite>();
}

#[test]
fn any_batch_does_what_the_pure_rule_does_on_postgres() {
    agree::<Postgres>();
}

#[test]
fn any_batch_does_what_the_pure_rule_does_on_mysql() {
    agree::<MySql>();
}
