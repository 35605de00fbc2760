//! Asks about what is overdue until it is settled: the last net under lost callbacks, lost
//! answers and crashes.
//!
//! Invariant: an item is never asked about twice at once in a process, and one that panics or
//! hangs delays no other (`an_item_is_never_asked_twice_at_once`,
//! `an_item_that_panics_or_hangs_delays_no_other`).

use std::{
    cmp,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    hash::Hash,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::Unobserved,
    rest::{PERIOD_MIN, stopped_within, within},
    store::Fault,
    time::{Clock, SystemClock},
    witness::Witness,
};

/// Pauses between two questions about one item: soon at first, when an answer is likely, then
/// ever more seldom; the last one repeats.
pub const STEPS: [Duration; 8] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(3 * 60 * 60),
    Duration::from_secs(6 * 60 * 60),
];

/// Questions at the same time: a backlog after an outage must not flood who is asked.
pub const AT_ONCE: u16 = 16;
/// How long one question may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Items that are remembered as resting. Beyond this the one that is due next is forgotten, which
/// costs one early question.
const RESTING_MAX: usize = 65_536;

/// Items that nobody asks about for so long after their rest are settled elsewhere.
const SETTLED_ELSEWHERE: Duration = Duration::from_secs(60 * 60);

/// The pause after `asked` questions by these steps. Pure.
pub fn pause(steps: &[Duration], asked: u32) -> Duration {
    let at = usize::try_from(asked.saturating_sub(1)).unwrap_or(usize::MAX);
    let step = steps.get(at).or_else(|| steps.last());
    step.copied().unwrap_or(Duration::from_secs(60))
}

/// Something whose end is overdue, and how to find out about it.
pub trait Reconcile: Send + Sync + 'static {
    /// Names one item, such as a payment number.
    type Item: Clone + Eq + Hash + Send + Sync + 'static;

    /// At most `limit` items that are overdue, longest first.
    ///
    /// Each call leases them: an item that was handed out, to this instance or to another, is
    /// left out until its next check. One that comes again too early is passed over, but takes
    /// the place of another.
    fn due(&self, limit: u16) -> BoxFuture<'static, Result<Vec<Self::Item>, Fault>>;

    /// Asks about one item and acts on the answer. Any instance may do so at any time, so it
    /// must be safe to repeat.
    ///
    /// # Cancellation
    /// Dropped when it takes too long, and asked again later.
    fn settle(&self, item: Self::Item) -> BoxFuture<'static, Verdict>;
}

/// What the question brought.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "over, not over, or beyond us")]
pub enum Verdict {
    /// It is over.
    Settled,
    /// Not yet: ask again after so long. Keep that with the item, if it shall outlive the process.
    Later(Duration),
    /// Something is wrong that a person must see; asked again by the steps all the same.
    Alarm(String),
}

/// What happened, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// An item is over.
    Settled,
    /// An item is not over.
    Later,
    /// A person must look.
    Alarm(String),
    /// A question panicked.
    Panicked,
    /// A question took too long.
    TimedOut,
    /// The overdue items could not be read.
    DueFailed,
}

/// Sweeps for overdue items and asks about them.
#[must_use = "a reconciler does nothing until it runs"]
pub struct Reconciler<R: Reconcile> {
    what: Arc<R>,
    clock: Arc<dyn Clock>,
    witness: Arc<dyn Witness<Happening>>,
    period: Duration,
    patience: Duration,
    at_once: u16,
    steps: Vec<Duration>,
}

impl<R: Reconcile> Reconciler<R> {
    /// A reconciler that sweeps every `period`.
    pub fn new(what: R, period: Duration) -> Self {
        Self {
            what: Arc::new(what),
            clock: Arc::new(SystemClock),
            witness: Arc::new(Unobserved),
            period: cmp::max(period, PERIOD_MIN),
            patience: PATIENCE,
            at_once: AT_ONCE,
            steps: STEPS.to_vec(),
        }
    }

    /// The clock of this process.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Who counts.
    pub fn witness(self, witness: impl Witness<Happening>) -> Self {
        Self { witness: Arc::new(witness), ..self }
    }

    /// How long one question may take.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How many questions go on at the same time; at least one.
    pub fn at_once(self, at_once: u16) -> Self {
        Self { at_once: cmp::max(at_once, 1), ..self }
    }

    /// Pauses after questions that failed.
    pub fn steps(self, steps: Vec<Duration>) -> Self {
        Self { steps, ..self }
    }

    /// Sweeps until `stop` is cancelled, then waits for the questions that are out.
    pub async fn run(self, stop: CancellationToken) {
        let mut sweep = Sweep {
            asking: JoinSet::new(),
            asked: HashSet::new(),
            resting: Resting::default(),
            by: self,
        };
        while !stop.is_cancelled() {
            let wait = sweep.ask().await;
            if sweep.wait(wait, &stop).await {
                break;
            }
        }
        while let Some(answer) = sweep.asking.join_next().await {
            sweep.answered(answer.ok());
        }
    }
}

impl<R: Reconcile> fmt::Debug for Reconciler<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler").field("period", &self.period).finish_non_exhaustive()
    }
}

/// The reconciler at work.
struct Sweep<R: Reconcile> {
    by: Reconciler<R>,
    asking: JoinSet<(R::Item, Answer)>,
    asked: HashSet<R::Item>,
    resting: Resting<R::Item>,
}

enum Answer {
    Verdict(Verdict),
    Panicked,
    TimedOut,
}

/// When to sweep again.
enum Wait {
    /// When a place is free: there may be more.
    ForAPlace,
    /// After the period.
    ForThePeriod,
}

impl<R: Reconcile> Sweep<R> {
    /// Fills the free places with items that are due.
    async fn ask(&mut self) -> Wait {
        let free = usize::from(self.by.at_once).saturating_sub(self.asking.len());
        let Some(limit) = u16::try_from(free).ok().filter(|limit| *limit > 0) else {
            return Wait::ForAPlace;
        };
        let items = match self.by.what.due(limit).await {
            Ok(items) => items,
            Err(fault) => {
                tracing::warn!(
                    error = &fault as &dyn std::error::Error,
                    "overdue items could not be read"
                );
                self.by.witness.see(&Happening::DueFailed);
                return Wait::ForThePeriod;
            }
        };
        let (is_full, mut begun) = (items.len() >= free, false);
        let now = self.by.clock.now();
        self.resting.forget_settled(now);
        for item in items.into_iter().take(free) {
            if self.resting.holds(&item, now) || !self.asked.insert(item.clone()) {
                continue;
            }
            begun = true;
            let (what, clock, patience) =
                (Arc::clone(&self.by.what), Arc::clone(&self.by.clock), self.by.patience);
            self.asking.spawn(async move {
                let question = async { what.settle(item.clone()).await };
                // Nothing of a question that panicked is looked at again.
                let question = AssertUnwindSafe(question).catch_unwind();
                let answer = match within(clock.as_ref(), patience, question).await {
                    Some(Ok(verdict)) => Answer::Verdict(verdict),
                    Some(Err(_)) => Answer::Panicked,
                    None => Answer::TimedOut,
                };
                (item, answer)
            });
        }
        if is_full && begun { Wait::ForAPlace } else { Wait::ForThePeriod }
    }

    /// Takes answers until it is time to sweep again. `true`: told to stop.
    async fn wait(&mut self, wait: Wait, stop: &CancellationToken) -> bool {
        let clock = Arc::clone(&self.by.clock);
        let mut over = pin!(stopped_within(stop, clock.as_ref(), self.by.period));
        loop {
            if self.asking.is_empty() {
                return over.await;
            }
            // A joined answer is handled before the next await; a timer loses nothing.
            let answer = match select(pin!(self.asking.join_next()), &mut over).await {
                Either::Left((answer, _)) => answer.and_then(Result::ok),
                Either::Right((stopped, _)) => return stopped,
            };
            self.answered(answer);
            if let Wait::ForAPlace = wait {
                return stop.is_cancelled();
            }
        }
    }

    fn answered(&mut self, answer: Option<(R::Item, Answer)>) {
        let Some((item, answer)) = answer else { return };
        self.asked.remove(&item);
        let now = self.by.clock.now();
        let (event, rest) = match answer {
            Answer::Verdict(Verdict::Settled) => {
                self.resting.forget(&item);
                self.by.witness.see(&Happening::Settled);
                return;
            }
            Answer::Verdict(Verdict::Later(pause)) => (Happening::Later, Some(pause)),
            Answer::Verdict(Verdict::Alarm(why)) => {
                tracing::error!(why, "an item cannot be reconciled");
                (Happening::Alarm(why), None)
            }
            Answer::Panicked => (Happening::Panicked, None),
            Answer::TimedOut => (Happening::TimedOut, None),
        };
        self.by.witness.see(&event);
        match rest {
            Some(pause) => self.resting.rest(item, now + pause, 0),
            None => {
                let failures = self.resting.failures(&item).saturating_add(1);
                self.resting.rest(item, now + pause(&self.by.steps, failures), failures);
            }
        }
    }
}

/// Items that were asked about a moment ago. The source may not know, if the question failed.
struct Resting<I> {
    items: HashMap<I, Rest>,
    order: BTreeMap<(Instant, u64), I>,
    serial: u64,
}

#[derive(Clone, Copy)]
struct Rest {
    until: Instant,
    serial: u64,
    /// Questions in a row that failed; remembered when the rest is over.
    failures: u32,
}

impl<I> Default for Resting<I> {
    fn default() -> Self {
        Self { items: HashMap::new(), order: BTreeMap::new(), serial: 0 }
    }
}

impl<I: Clone + Eq + Hash> Resting<I> {
    fn holds(&self, item: &I, now: Instant) -> bool {
        self.items.get(item).is_some_and(|rest| rest.until > now)
    }

    fn failures(&self, item: &I) -> u32 {
        self.items.get(item).map_or(0, |rest| rest.failures)
    }

    fn rest(&mut self, item: I, until: Instant, failures: u32) {
        self.forget(&item);
        self.serial += 1;
        let rest = Rest { until, serial: self.serial, failures };
        self.order.insert((until, rest.serial), item.clone());
        self.items.insert(item, rest);
        if self.order.len() > RESTING_MAX
            && let Some((_, next)) = self.order.pop_first()
        {
            self.items.remove(&next);
        }
    }

    fn forget(&mut self, item: &I) {
        if let Some(rest) = self.items.remove(item) {
            self.order.remove(&(rest.until, rest.serial));
        }
    }

    /// Forgets what was not asked for since its rest was over: somebody else has settled it.
    fn forget_settled(&mut self, now: Instant) {
        while let Some((&(until, _), _)) = self.order.first_key_value()
            && now.saturating_duration_since(until) > SETTLED_ELSEWHERE
            && let Some((_, item)) = self.order.pop_first()
        {
            self.items.remove(&item);
        }
    }
}

#[cfg(test)]
mod tests;
