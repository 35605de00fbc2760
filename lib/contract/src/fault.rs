//! Faults in pairs: the request is lost, or the answer is.
//!
//! Invariant: what the caller is told is true. `Away` means surely not done; after `Unsure` it
//! may have been done, and asking again with the same nonce tells
//! (`lost_messages_change_nothing`).

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;

use hapax_core::{
    Id,
    store::{Answer, Capabilities, Entry, Fault, FaultKind, Found, Page, Scan, Step, Store},
};

/// What becomes of one request and of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// Both arrive.
    #[default]
    Normal,
    /// The store refuses: surely not done.
    Refused,
    /// The request is lost: not done, but the caller cannot know.
    RequestLost,
    /// The answer is lost: done, but the caller cannot know.
    AnswerLost,
    /// The request arrives twice; the second answer counts.
    Twice,
    /// The caller gives up on it; it arrives at the next
    /// [`deliver_late`](FaultStore::deliver_late).
    Late,
}

/// What is asked of the store.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Asked<'a> {
    /// A step.
    Step(&'a Step),
    /// A look at one record.
    Look(Id),
    /// A page of records.
    Scan(&'a Scan),
    /// The journal of one record.
    History(Id),
    /// A purge.
    Purge,
}

/// How many messages went astray, so that a test whose faults did not happen is seen to be void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Requests that the store refused.
    pub refused: usize,
    /// Requests that never arrived.
    pub requests: usize,
    /// Answers that never arrived.
    pub answers: usize,
    /// Requests that arrived twice.
    pub doubled: usize,
    /// Requests that were held back.
    pub held_back: usize,
}

/// A store behind a bad line.
///
/// Each step of a batch has its own fate. Reads have no answer that could be in doubt: every
/// fault fails them.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    line: Arc<Mutex<Line>>,
}

struct Line {
    script: Box<dyn FnMut(Asked<'_>) -> Delivery + Send>,
    losses: Losses,
    late: Vec<Step>,
}

impl FaultStore {
    /// Puts a line before `inner` whose every message fares as `script` says.
    pub fn new(
        inner: Arc<dyn Store>,
        script: impl FnMut(Asked<'_>) -> Delivery + Send + 'static,
    ) -> Self {
        let script = Box::new(script);
        let line = Line { script, losses: Losses::default(), late: Vec::new() };
        Self { inner, line: Arc::new(Mutex::new(line)) }
    }

    /// Puts a line before `inner` on which the first steps fare as listed; then it is healed.
    pub fn listed(inner: Arc<dyn Store>, fates: impl IntoIterator<Item = Delivery>) -> Self {
        let mut fates: VecDeque<_> = fates.into_iter().collect();
        Self::new(inner, move |asked| match asked {
            Asked::Step(_) => fates.pop_front().unwrap_or_default(),
            Asked::Look(_) | Asked::Scan(_) | Asked::History(_) | Asked::Purge => Delivery::Normal,
        })
    }

    /// What went astray so far.
    pub fn losses(&self) -> Losses {
        self.line().losses
    }

    /// Lets the requests arrive that were held back, in the order in which they were sent.
    pub async fn deliver_late(&self) -> Vec<Answer> {
        let late = std::mem::take(&mut self.line().late);
        let mut answers = Vec::with_capacity(late.len());
        for step in late {
            answers.extend(self.inner.apply(vec![step]).await);
        }
        answers
    }

    /// Every change under this lock is complete when it is let go.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, asked: Asked<'_>) -> Result<(), Fault> {
        let mut line = self.line();
        match (line.script)(asked) {
            Delivery::Normal | Delivery::Twice => Ok(()),
            Delivery::Refused | Delivery::RequestLost | Delivery::AnswerLost | Delivery::Late => {
                line.losses.refused += 1;
                Err(lost())
            }
        }
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore").field("losses", &self.losses()).finish_non_exhaustive()
    }
}

impl Line {
    fn fate(&mut self, step: &Step) -> Delivery {
        let fate = (self.script)(Asked::Step(step));
        let counter = match fate {
            Delivery::Normal => return fate,
            Delivery::Refused => &mut self.losses.refused,
            Delivery::RequestLost => &mut self.losses.requests,
            Delivery::AnswerLost => &mut self.losses.answers,
            Delivery::Twice => &mut self.losses.doubled,
            Delivery::Late => &mut self.losses.held_back,
        };
        *counter += 1;
        if fate == Delivery::Late {
            self.late.push(step.clone());
        }
        fate
    }
}

fn lost() -> Fault {
    Fault::new(FaultKind::Unavailable, "the line lost it")
}

/// Whether a request of this fate reaches the store now.
fn arrives(fate: Delivery) -> bool {
    match fate {
        Delivery::Normal | Delivery::AnswerLost | Delivery::Twice => true,
        Delivery::Refused | Delivery::RequestLost | Delivery::Late => false,
    }
}

impl Store for FaultStore {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let mut line = self.line();
        let fates: Vec<_> = steps.iter().map(|step| line.fate(step)).collect();
        drop(line);
        let pairs = || fates.iter().zip(&steps);
        let again: Vec<_> = pairs()
            .filter(|(fate, _)| **fate == Delivery::Twice)
            .map(|(_, step)| step.clone())
            .collect();
        let arriving =
            pairs().filter(|(fate, _)| arrives(**fate)).map(|(_, step)| step.clone()).collect();
        // The work begins with the call, also on a bad line.
        let (first, inner) = (self.inner.apply(arriving), Arc::clone(&self.inner));
        Box::pin(async move {
            let mut first = first.await.into_iter();
            let mut second = match again.is_empty() {
                true => Vec::new().into_iter(),
                false => inner.apply(again).await.into_iter(),
            };
            let short = || Answer::Unsure(lost());
            fates
                .into_iter()
                .map(|fate| {
                    let answer = if arrives(fate) { first.next() } else { None };
                    match fate {
                        Delivery::Normal => answer.unwrap_or_else(short),
                        Delivery::Twice => second.next().unwrap_or_else(short),
                        Delivery::Refused => Answer::Away(lost()),
                        Delivery::RequestLost | Delivery::AnswerLost | Delivery::Late => short(),
                    }
                })
                .collect()
        })
    }

    fn look(&self, ids: Vec<Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        let fates: Vec<_> = ids.iter().map(|id| self.read(Asked::Look(*id))).collect();
        let seen = self.inner.look(ids);
        Box::pin(async move {
            let seen = seen.await.into_iter().zip(fates);
            seen.map(|(found, fate)| fate.and(found)).collect()
        })
    }

    fn changed(&self, id: Id) -> BoxFuture<'static, ()> {
        self.inner.changed(id)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        match self.read(Asked::Scan(&scan)) {
            Ok(()) => self.inner.scan(scan),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn history(&self, id: Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        match self.read(Asked::History(id)) {
            Ok(()) => self.inner.history(id),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        match self.read(Asked::Purge) {
            Ok(()) => self.inner.purge(rows),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

/// Sends `step` until the store says what became of it, at most `tries` times.
///
/// The nonce stays the same, as the engine keeps it, so that a step whose answer was lost is not
/// taken twice.
pub async fn insist(store: &dyn Store, step: &Step, tries: usize) -> Answer {
    let mut answer = Answer::Unsure(lost());
    for _ in 0..tries {
        answer = store.apply(vec![step.clone()]).await.pop().unwrap_or(answer);
        if !matches!(answer, Answer::Away(_) | Answer::Unsure(_)) {
            break;
        }
    }
    answer
}
