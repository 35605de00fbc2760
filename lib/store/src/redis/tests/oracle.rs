//! The scripts against the pure rule, on random lives and on the server's own clock: each answer
//! names the moment by which it was judged, and the rule is asked for the same moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestError, TestRng, TestRunner},
};

use crate::redis::{RedisStore, script::Scripts};
use hapax_core::{
    Actor, BusinessKey, Clock, Effect, Epoch, Fence, Fingerprint, Id, Identity, Nonce,
    OperationName, Outcome, Prints, Record, Retention, SystemClock, Tenant, Timestamp,
    store::{Answer, Claim, Entry, Ruling, Step, Store, apply},
};
use hapax_testkit::Redis;

const IDS: usize = 6;
const NONCES: u8 = 4;
/// A step before it is known which fence is current.
#[derive(Clone, Debug)]
enum Move {
    Claim { nonce: u8, request: u8, lease: Duration, effect: Effect, attempts_max: u32 },
    Renew { whose: Whose, lease: Duration },
    Checkpoint { whose: Whose, point: u8 },
    Complete { whose: Whose, retention: Retention },
    Doubt { whose: Whose },
    Release { whose: Whose, memory: Duration },
    Settle { stale: bool, nonce: u8, retention: Option<Retention>, memory: Duration },
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
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![6 => Just(Whose::Holder), 1 => Just(Whose::Ghost), 1 => Just(Whose::Stranger)]
}

/// Mostly some milliseconds, sometimes for ever.
fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        24 => (0..12_u64).prop_map(Duration::from_millis),
        2 => Just(Duration::MAX),
    ]
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        2 => Just(Effect::Transactional),
        3 => span().prop_map(|window| Effect::Keyed { window }),
        3 => span().prop_map(|quiet| Effect::Queryable { quiet }),
        1 => Just(Effect::Opaque),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    (prop::option::of(span()), span()).prop_map(|(keep, grace)| Retention { keep, grace })
}

fn step() -> impl Strategy<Value = Move> {
    let claim = (1..=NONCES, 0..5_u8, span(), effect(), 1..4_u32).prop_map(
        |(nonce, request, lease, effect, attempts_max)| Move::Claim {
            nonce,
            request,
            lease,
            effect,
            attempts_max,
        },
    );
    let settle =
        (prop::bool::weighted(0.2), 1..=NONCES, prop::option::of(retention()), span()).prop_map(
            |(stale, nonce, retention, memory)| Move::Settle { stale, nonce, retention, memory },
        );
    prop_oneof![
        8 => claim,
        2 => (whose(), span()).prop_map(|(whose, lease)| Move::Renew { whose, lease }),
        2 => (whose(), any::<u8>()).prop_map(|(whose, point)| Move::Checkpoint { whose, point }),
        3 => (whose(), retention())
            .prop_map(|(whose, retention)| Move::Complete { whose, retention }),
        2 => whose().prop_map(|whose| Move::Doubt { whose }),
        2 => (whose(), span()).prop_map(|(whose, memory)| Move::Release { whose, memory }),
        3 => settle,
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => prop::collection::btree_map(0..IDS, step(), 1..IDS).prop_map(Act::Batch),
        1 => (1..16_u64).prop_map(Act::Pass),
    ]
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
        // What counts as absent is not shown.
        let before = self.records.remove(&id).filter(|record| !record.is_reusable(now));
        let (record, entry, answer) = apply(before, step, now);
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
                    lease,
                    effect,
                    attempts_max,
                    caller: actor(&format!("worker {nonce} of {request}")),
                }))
            }
            Move::Renew { whose, lease } => Step::Renew { fence: self.fence(id, whose), lease },
            Move::Checkpoint { whose, point } => Step::Checkpoint {
                fence: self.fence(id, whose),
                point: Bytes::from(vec![point; usize::from(point)]),
            },
            Move::Complete { whose, retention } => {
                Step::Complete { fence: self.fence(id, whose), outcome: value("ok"), retention }
            }
            Move::Doubt { whose } => {
                let why = format!("{}é", "x\n".repeat(127));
                Step::Doubt { fence: self.fence(id, whose), why }
            }
            Move::Release { whose, memory } => {
                Step::Release { fence: self.fence(id, whose), memory }
            }
            Move::Settle { stale, nonce, retention, memory } => {
                let whose = if stale { Whose::Ghost } else { Whose::Holder };
                let Fence { epoch: seen, nonce: holder, .. } = self.fence(id, whose);
                let ruling = match retention {
                    Some(retention) => Ruling::Completed { outcome: value("seen"), retention },
                    None => Ruling::NothingHappened { memory },
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

/// The moment by which a step was judged.
fn moment(answer: &Answer) -> Option<Timestamp> {
    match answer {
        Answer::Granted(grant) => Some(grant.now),
        Answer::Applied { now, .. } => Some(*now),
        Answer::Found(found) => Some(found.now),
        Answer::Away(_) | Answer::Unsure(_) => None,
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

/// The records of one life.
fn identities() -> Vec<Identity> {
    let identity = |at: usize| {
        let key = BusinessKey::of(&[&at.to_string()]).unwrap();
        let operation = OperationName::parse("life").unwrap();
        Identity::business(Tenant::parse("shop").unwrap(), operation, key)
    };
    let mut identities: Vec<_> = (0..IDS).map(identity).collect();
    identities.sort_by_key(Identity::id);
    identities
}

async fn play(store: &RedisStore, acts: &[Act]) -> Result<(), TestCaseError> {
    let identities = identities();
    let ids: Vec<Id> = identities.iter().map(Identity::id).collect();
    let mut oracle = Oracle::default();
    for act in acts {
        match act {
            Act::Pass(span) => SystemClock.sleep(Duration::from_millis(*span)).await,
            Act::Batch(moves) => {
                let step = |(at, step): (&usize, &Move)| oracle.step(&identities[*at], step);
                let steps: Vec<_> = moves.iter().map(step).collect();
                let answers = store.apply(steps.clone()).await;
                prop_assert_eq!(answers.len(), steps.len());
                for (step, answer) in steps.iter().zip(&answers) {
                    let Some(now) = moment(answer) else {
                        return Err(TestCaseError::fail(words(answer)));
                    };
                    let expected = oracle.take(step, now);
                    prop_assert_eq!(words(answer), words(&expected), "to {:?}", step);
                }
            }
        }
        for (id, found) in ids.iter().zip(store.look(ids.clone()).await) {
            let found = found.map_err(|fault| TestCaseError::fail(format!("{fault:?}")))?;
            let kept = oracle.records.get(id).filter(|record| !record.is_reusable(found.now));
            prop_assert_eq!(&found.record, &kept.cloned(), "after {:?}", act);
        }
    }
    for id in ids {
        let expected = oracle.journal.remove(&id).unwrap_or_default();
        prop_assert_eq!(store.history(id).await.unwrap(), expected);
    }
    Ok(())
}

/// Plays random lives until one parts from the pure rule; says how.
pub(super) fn search(
    server: &Redis,
    scripts: &'static Scripts,
    lives: u32,
    shrinking: u32,
) -> Result<(), String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fleet = runtime.block_on(RedisStore::at(&server.url()).fleet()).unwrap();
    let config = ProptestConfig {
        cases: lives,
        max_shrink_iters: shrinking,
        failure_persistence: None,
        ..Default::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let acts = prop::collection::vec(act(), 1..60);
    let serial = std::cell::Cell::new(0);
    let live = |acts: Vec<Act>| {
        serial.set(serial.get() + 1);
        let namespace = format!("life{}:{}", std::process::id(), serial.get());
        let store = RedisStore::with(Arc::clone(&fleet), namespace, scripts);
        runtime.block_on(play(&store, &acts))
    };
    runner.run(&acts, live).map_err(|parting| match parting {
        TestError::Fail(why, acts) => format!("{why}\nin {acts:#?}"),
        TestError::Abort(why) => why.to_string(),
    })
}

#[test]
fn any_step_does_what_the_pure_rule_does() {
    let server = super::server();
    if let Err(parting) = search(&server, &crate::redis::script::SHIPPED, 96, 200) {
        panic!("{parting}");
    }
}
