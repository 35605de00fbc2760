//! How far an attack has come.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Something that a driver may want to show or to act on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// One more order has gone through a phase.
    Moved {
        /// Which phase.
        phase: Phase,
        /// Orders that have gone through it.
        done: u32,
        /// Orders in all.
        total: u32,
    },
    /// This share of the orders was submitted, while the next are on their way: the moment to kill
    /// the service. Sent once for each of `Plan::marks`.
    Mark {
        /// The mark, as it stands in the plan.
        fraction: f64,
    },
    /// A rule was found broken for the first time.
    Broken {
        /// Which rule.
        rule: crate::rule::Rule,
    },
}

/// What an order goes through, in this sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Its submits are answered.
    Submit,
    /// Its buyer, its closes and its refunds have done their part.
    Act,
    /// It is at rest, here and at the channel.
    Settle,
    /// Everything was repeated.
    Repeat,
}

/// Counts the orders through the phases and tells the driver.
pub(crate) struct Meter {
    total: u32,
    done: [AtomicU32; 4],
    marks: Mutex<Vec<f64>>,
    marked: AtomicU64,
    events: Box<dyn Fn(Progress) + Send + Sync>,
}

impl Meter {
    pub(crate) fn new(
        total: u32,
        marks: &[f64],
        events: impl Fn(Progress) + Send + Sync + 'static,
    ) -> Self {
        let mut marks = marks.to_vec();
        // The next mark is at the end.
        marks.sort_by(|left, right| right.total_cmp(left));
        let (marks, marked, events) = (Mutex::new(marks), AtomicU64::new(0), Box::new(events));
        Self { total, done: Default::default(), marks, marked, events }
    }

    pub(crate) fn moved(&self, phase: Phase) {
        let [submit, act, settle, repeat] = &self.done;
        let counter = match phase {
            Phase::Submit => submit,
            Phase::Act => act,
            Phase::Settle => settle,
            Phase::Repeat => repeat,
        };
        let done = counter.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        (self.events)(Progress::Moved { phase, done, total: self.total });
        if phase == Phase::Submit {
            let reached = f64::from(done) / f64::from(std::cmp::max(self.total, 1));
            while let Some(fraction) = self.next_mark(reached) {
                self.marked.fetch_add(1, Ordering::Relaxed);
                (self.events)(Progress::Mark { fraction });
            }
        }
    }

    pub(crate) fn broken(&self, rule: crate::rule::Rule) {
        (self.events)(Progress::Broken { rule });
    }

    /// Marks that were told.
    pub(crate) fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> u32 {
        let [_, _, _, repeat] = &self.done;
        repeat.load(Ordering::Relaxed)
    }

    fn next_mark(&self, reached: f64) -> Option<f64> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.pop_if(|mark| *mark <= reached)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("total", &self.total)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_mark_is_told_once_when_its_share_was_submitted() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let meter = Meter::new(4, &[0.75, 0.5], move |event| sink.lock().unwrap().push(event));
        for _ in 0..4 {
            meter.moved(Phase::Submit);
            meter.moved(Phase::Act);
        }
        let seen = seen.lock().unwrap();
        let told: Vec<(usize, f64)> = seen
            .iter()
            .enumerate()
            .filter_map(|(at, event)| match event {
                Progress::Mark { fraction } => Some((at, *fraction)),
                _ => None,
            })
            .collect();
        assert_eq!(told, [(3, 0.5), (6, 0.75)]);
        let last = seen.iter().rev().find(|e| matches!(e, Progress::Moved { .. })).unwrap();
        assert_eq!(*last, Progress::Moved { phase: Phase::Act, done: 4, total: 4 });
    }
}
