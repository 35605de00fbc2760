//! The statements against the pure rule, on random batches.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use bytes::Bytes;
use proptest::prelude::*;

use crate::stage::{Stage, actor, identity, nonce, value};
use hapax_core::{
    Effect, Epoch, Fence, Fingerprint, Id, Identity, Prints, Record, Retention, Timestamp,
    store::{Answer, Claim, Entry, Ruling, Step, Store, apply},
};

const IDS: usize = 12;
const NONCES: u8 = 4;
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
    records: BTreeMap<Id, Box<Record>>,
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
        let (epoch, nonce) = held.unwrap_or_else(|| (Epoch::from_stored(1), nonce(1)));
        match whose {
            Whose::Holder => Fence { id, epoch, nonce },
            Whose::Ghost => Fence { id, epoch: Epoch::from_stored(epoch.get() - 1), nonce },
            Whose::Stranger => Fence { id, epoch, nonce: crate::stage::nonce(99) },
        }
    }

    fn step(&self, identity: &Identity, step: &Move) -> Step {
        let id = identity.id();
        match step.clone() {
            Move::Claim { nonce, request, lease, effect, attempts_max } => {
                Step::Claim(Box::new(Claim {
                    id,
                    identity: identity.clone(),
                    nonce: crate::stage::nonce(nonce),
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
                let ruling = match retention {
                    Some(retention) => Ruling::Completed { outcome: value("seen"), retention },
                    None => Ruling::NothingHappened { memory: ms(memory) },
                };
                Step::Settle {
                    id,
                    seen: self.fence(id, whose).epoch,
                    nonce: crate::stage::nonce(nonce),
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

async fn play(stage: &Stage, acts: &[Act]) -> Result<(), TestCaseError> {
    static CASE: AtomicU32 = AtomicU32::new(0);
    let case = CASE.fetch_add(1, Ordering::Relaxed);
    let mut identities: Vec<_> = (0..IDS).map(|at| identity(&format!("{case}/{at}"))).collect();
    identities.sort_by_key(Identity::id);
    let ids: Vec<Id> = identities.iter().map(Identity::id).collect();
    let mut oracle = Oracle::default();
    let mut now = stage.pass(Duration::ZERO).await;
    for act in acts {
        match act {
            Act::Pass(span) => now = stage.pass(ms(*span)).await,
            Act::Purge => {
                while stage.sql.purge(1000).await.unwrap() > 0 {}
                oracle.records.retain(|_, record| !record.is_reusable(now));
            }
            Act::Batch(moves) => {
                let steps: Vec<_> =
                    moves.iter().map(|(at, step)| oracle.step(&identities[*at], step)).collect();
                let answers = stage.sql.apply(steps.clone()).await;
                prop_assert_eq!(answers.len(), steps.len());
                for (step, answer) in steps.iter().zip(&answers) {
                    let expected = oracle.take(step, now);
                    prop_assert_eq!(words(answer), words(&expected), "to {:?}", step);
                }
            }
        }
        for (id, found) in ids.iter().zip(stage.sql.look(ids.clone()).await) {
            let found = found.unwrap();
            prop_assert_eq!(found.now, now);
            prop_assert_eq!(&found.record, &oracle.records.get(id).cloned(), "after {:?}", act);
        }
    }
    for id in ids {
        let expected = oracle.journal.remove(&id).unwrap_or_default();
        prop_assert_eq!(stage.sql.history(id).await.unwrap(), expected);
    }
    Ok(())
}

#[test]
fn any_batch_does_what_the_pure_rule_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = runtime.block_on(Stage::set());
    // A clock in the future stands still, so that both sides judge by one time.
    runtime.block_on(stage.pass(Duration::from_secs(1_000_000)));
    let config = ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&prop::collection::vec(act(), 1..40), |acts| runtime.block_on(play(&stage, &acts)))
        .unwrap();
}
