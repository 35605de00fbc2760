//! Random lives of records, played on a store and on the reference.
//!
//! Both must say the same, if epochs are read as ranks, times as beats, and records that count
//! as absent as absent.

mod canon;
mod op;
mod play;

use std::{collections::BTreeMap, fmt, sync::Arc};

use proptest::{
    collection,
    prelude::*,
    test_runner::{Config, TestCaseError, TestError, TestRunner},
};

pub use self::op::{Effects, Fences, Flaw, Op, Seen, lives};
use self::{canon::Said, play::Player};
use crate::{
    fault::{Delivery, FaultStore},
    subject::{Memory, Subject},
};

/// Lives that the suite plays on each store.
pub const CASES: u32 = 64;
/// Ops of the longest life: enough for two generations of each key.
pub const LIFE_OPS_MAX: usize = 40;
/// Messages of one life that may go astray.
const LOSSES_MAX: usize = 60;
/// Tries of one step: no more messages than this go astray in a row.
const TRIES: usize = 64;

/// What a store said through one life.
pub struct Trace {
    ops: Vec<Op>,
    said: Vec<Vec<Said>>,
    tally: BTreeMap<&'static str, usize>,
}

/// Plays `ops` on a fresh store of `subject`.
pub async fn trace(subject: &dyn Subject, ops: &[Op]) -> Trace {
    let store = subject.open().await;
    let played = Player::new(subject, store, 1).await.play(ops).await;
    Trace { ops: ops.to_vec(), said: played.said, tally: played.tally }
}

/// Plays `ops` on a fresh store of `subject` whose messages fare as `fates` say, until it heals.
pub async fn trace_losses(subject: &dyn Subject, ops: &[Op], fates: &[Delivery]) -> Trace {
    let store = Arc::new(FaultStore::listed(subject.open().await, fates.iter().copied()));
    let played = Player::new(subject, store, TRIES).await.play(ops).await;
    Trace { ops: ops.to_vec(), said: played.said, tally: played.tally }
}

/// Plays `ops` on `subject` and on the reference.
///
/// # Errors
/// The first op at which they part.
pub async fn compare(subject: &dyn Subject, ops: &[Op]) -> Result<(), Parting> {
    let reference = trace(&Memory::with_beat(subject.beat()), ops).await;
    let subject = trace(subject, ops).await;
    reference.parts_from(&subject).map_or(Ok(()), Err)
}

/// Plays `ops` on `subject` with a bad line before it, and on the reference without.
///
/// # Errors
/// The first op at which they part: something was done twice, or got lost.
pub async fn compare_losses(
    subject: &dyn Subject,
    ops: &[Op],
    fates: &[Delivery],
) -> Result<(), Parting> {
    let reference = trace(&Memory::with_beat(subject.beat()), ops).await;
    let subject = trace_losses(subject, ops, fates).await;
    reference.parts_from(&subject).map_or(Ok(()), Err)
}

/// Plays `ops` twice on `subject`: with a purge after each of them, and without any.
///
/// # Errors
/// The first op whose answer depends on the purges.
pub async fn compare_purges(subject: &dyn Subject, ops: &[Op]) -> Result<(), Parting> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for op in ops.iter().filter(|op| !matches!(op, Op::Purge { .. })) {
        with.extend([op.clone(), Op::Purge { rows: 1000 }]);
        without.push(op.clone());
    }
    let without = trace(subject, &without).await;
    let with = trace(subject, &with).await;
    without.compare(&with, Trace::answers).map_or(Ok(()), Err)
}

/// Plays `cases` random lives on `subject` and on the reference.
///
/// # Errors
/// The smallest life that was found in which they part.
pub fn search(subject: &dyn Subject, cases: u32) -> Result<(), Counterexample> {
    let lives = lives(LIFE_OPS_MAX).prop_map(|ops| (ops, Vec::new()));
    hunt(cases, lives, &async |ops: &[Op], _: &[Delivery]| compare(subject, ops).await)
}

/// Plays `cases` random lives on `subject` in which requests and answers are lost, and on the
/// reference where none are.
///
/// # Errors
/// The smallest life that was found in which they part.
pub fn search_losses(subject: &dyn Subject, cases: u32) -> Result<(), Counterexample> {
    let lives = (lives(LIFE_OPS_MAX), fates());
    hunt(cases, lives, &async |ops: &[Op], fates: &[Delivery]| {
        compare_losses(subject, ops, fates).await
    })
}

/// Fates of the first messages of a life; a third of them go astray.
pub fn fates() -> impl Strategy<Value = Vec<Delivery>> {
    let fate = prop_oneof![
        8 => Just(Delivery::Normal),
        1 => Just(Delivery::Refused),
        1 => Just(Delivery::RequestLost),
        1 => Just(Delivery::AnswerLost),
        1 => Just(Delivery::Twice),
    ];
    collection::vec(fate, 0..=LOSSES_MAX)
}

fn hunt(
    cases: u32,
    lives: impl Strategy<Value = (Vec<Op>, Vec<Delivery>)>,
    try_out: &impl AsyncFn(&[Op], &[Delivery]) -> Result<(), Parting>,
) -> Result<(), Counterexample> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|cause| Counterexample::without_a_life(format!("no runtime: {cause}")))?;
    // What was found is pinned by hand, with its ops; no file is written into the caller's crate.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config).run(&lives, |(ops, fates)| {
        let parted = runtime.block_on(try_out(&ops, &fates));
        parted.map_err(|parting| TestCaseError::fail(parting.to_string()))
    });
    match found {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, (ops, fates))) => {
            Err(Counterexample { ops, fates, parting: why.message().to_owned() })
        }
        Err(TestError::Abort(why)) => Err(Counterexample::without_a_life(why.to_string())),
    }
}

impl Trace {
    /// How often each kind of thing happened, so that a search that tried nothing is seen.
    pub fn tally(&self) -> &BTreeMap<&'static str, usize> {
        &self.tally
    }

    /// The first op at which `other` says something else.
    pub fn parts_from(&self, other: &Self) -> Option<Parting> {
        self.compare(other, Self::everything)
    }

    fn compare<'a>(
        &'a self,
        other: &'a Self,
        view: fn(&'a Self) -> Vec<(Option<&'a Op>, &'a Said)>,
    ) -> Option<Parting> {
        let (mine, theirs) = (view(self), view(other));
        let part = |at: usize| {
            let show = |said: Option<&(Option<&Op>, &Said)>| match said {
                Some((_, said)) => format!("{said:?}"),
                None => "nothing".to_owned(),
            };
            let op = mine.get(at).and_then(|(op, _)| *op).cloned();
            Parting { at, op, expected: show(mine.get(at)), actual: show(theirs.get(at)) }
        };
        let longest = std::cmp::max(mine.len(), theirs.len());
        (0..longest)
            .find(|at| mine.get(*at).map(|(_, said)| said) != theirs.get(*at).map(|(_, s)| s))
            .map(part)
    }

    fn everything(&self) -> Vec<(Option<&Op>, &Said)> {
        let ops = self.ops.iter().map(Some).chain([None]);
        ops.zip(&self.said).flat_map(|(op, said)| said.iter().map(move |s| (op, s))).collect()
    }

    /// What callers are told: a journal may be shorter after a purge.
    fn answers(&self) -> Vec<(Option<&Op>, &Said)> {
        let all = self.everything().into_iter();
        all.filter(|(_, said)| !matches!(said, Said::Silent | Said::History(_))).collect()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.everything()).finish()
    }
}

/// Where a store and the reference part.
#[derive(Debug)]
pub struct Parting {
    at: usize,
    op: Option<Op>,
    expected: String,
    actual: String,
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.op {
            Some(op) => write!(f, "answer {} (to {op:?}):", self.at)?,
            None => write!(f, "what is left in the end:")?,
        }
        write!(f, "\n  expected {}\n  but got  {}", self.expected, self.actual)
    }
}

impl std::error::Error for Parting {}

/// A life in which a store and the reference part.
pub struct Counterexample {
    ops: Vec<Op>,
    fates: Vec<Delivery>,
    parting: String,
}

impl Counterexample {
    fn without_a_life(parting: String) -> Self {
        Self { ops: Vec::new(), fates: Vec::new(), parting }
    }

    /// The life, to be pinned as a case of its own.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// What became of its messages.
    pub fn fates(&self) -> &[Delivery] {
        &self.fates
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store parts from the reference in this life:")?;
        for op in &self.ops {
            writeln!(f, "  {op:?}")?;
        }
        if !self.fates.is_empty() {
            writeln!(f, "while its messages fare as {:?}", self.fates)?;
        }
        f.write_str(&self.parting)
    }
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Counterexample {}
