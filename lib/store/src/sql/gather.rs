//! Small jobs that meet at a busy lane share one piece of work.
//!
//! A free lane goes at once, so that a quiet store waits for nothing. While all lanes are busy,
//! jobs queue, and the next free lane takes the whole queue.
//!
//! Invariant: every job that was queued is answered, also when its caller is gone or a lane dies
//! (`a_lane_that_dies_tells_those_who_wait`).

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use hapax_core::store::{Fault, FaultKind};

/// Jobs that may wait. Beyond this the store is overloaded and says so at once.
const QUEUE_MAX: usize = 16_384;

type Answer<A> = Result<A, Fault>;
type Waiting<J, A> = (J, oneshot::Sender<Answer<A>>);

/// The jobs that wait for a lane.
pub(super) struct Gather<J, A> {
    queue: Mutex<Queue<J, A>>,
    lanes: usize,
    batch_max: usize,
}

struct Queue<J, A> {
    waiting: VecDeque<Waiting<J, A>>,
    /// Lanes that work.
    busy: usize,
}

/// What a job that was queued is to do.
pub(super) struct Ticket<A> {
    /// Where its answer comes.
    pub(super) answer: oneshot::Receiver<Answer<A>>,
    /// No lane was woken for it yet that could be: start one.
    pub(super) starts_lane: bool,
}

impl<J, A> Gather<J, A> {
    /// At most `batch_max` jobs share one piece of work, in at most `lanes` of them at once.
    pub(super) fn new(lanes: usize, batch_max: usize) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), busy: 0 });
        Self { queue, lanes, batch_max }
    }

    /// Every change under this lock is complete when it is let go.
    fn queue(&self) -> MutexGuard<'_, Queue<J, A>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job. Whoever is told to start a lane calls [`drive`](Self::drive) on a task.
    pub(super) fn enter(&self, job: J) -> Result<Ticket<A>, Fault> {
        let (caller, answer) = oneshot::channel();
        let mut queue = self.queue();
        if queue.waiting.len() >= QUEUE_MAX {
            return Err(Fault::new(FaultKind::Full, "too many jobs wait for the database"));
        }
        queue.waiting.push_back((job, caller));
        let starts_lane = queue.busy < self.lanes;
        queue.busy += usize::from(starts_lane);
        Ok(Ticket { answer, starts_lane })
    }

    /// Works until nothing waits.
    pub(super) async fn drive<W>(&self, work: impl Fn(Vec<J>) -> W)
    where
        W: Future<Output = Vec<Answer<A>>>,
    {
        let mut lane = Lane { gather: self, is_over: false };
        loop {
            let batch = lane.batch();
            if batch.is_empty() {
                return;
            }
            let (jobs, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let answers = work(jobs).await;
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that is gone needs no answer.
                drop(caller.send(answer));
            }
        }
    }
}

/// A lane at work.
struct Lane<'a, J, A> {
    gather: &'a Gather<J, A>,
    is_over: bool,
}

impl<J, A> Lane<'_, J, A> {
    /// The next jobs. Without any the lane is over, which is said under the same lock.
    fn batch(&mut self) -> Vec<Waiting<J, A>> {
        let mut queue = self.gather.queue();
        let count = std::cmp::min(queue.waiting.len(), self.gather.batch_max);
        if count == 0 {
            queue.busy -= 1;
            self.is_over = true;
        }
        queue.waiting.drain(..count).collect()
    }
}

impl<J, A> Drop for Lane<'_, J, A> {
    /// A lane that died tells those who wait: a caller hears of it as its sender is dropped.
    fn drop(&mut self) {
        if !self.is_over {
            let mut queue = self.gather.queue();
            queue.busy -= 1;
            queue.waiting.clear();
        }
    }
}

/// The answer to a job; a lane that died has none.
pub(super) async fn answered<A>(answer: oneshot::Receiver<Answer<A>>) -> Answer<A> {
    let died = || Err(Fault::new(FaultKind::Unavailable, "the lane died that had the job"));
    answer.await.unwrap_or_else(|_| died())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{sync::Semaphore, task::JoinSet};

    use super::*;

    #[tokio::test]
    async fn jobs_that_meet_at_a_busy_lane_share_the_next_one() {
        let gather = Arc::new(Gather::<u32, usize>::new(1, 256));
        let (go, mut lanes) = (Arc::new(Semaphore::new(0)), JoinSet::new());
        let mut tickets = Vec::new();
        for job in 0..9 {
            let ticket = gather.enter(job).unwrap();
            assert_eq!(ticket.starts_lane, job == 0);
            tickets.push(ticket.answer);
            if job == 0 {
                let (gather, go) = (Arc::clone(&gather), Arc::clone(&go));
                lanes.spawn(async move {
                    let work = async |jobs: Vec<u32>| {
                        go.acquire().await.unwrap().forget();
                        vec![Ok(jobs.len()); jobs.len()]
                    };
                    gather.drive(work).await;
                });
                tokio::task::yield_now().await;
            }
        }
        go.add_permits(2);
        let mut sizes = Vec::new();
        for answer in tickets {
            sizes.push(answered(answer).await.unwrap());
        }
        assert_eq!(sizes, [1, 8, 8, 8, 8, 8, 8, 8, 8]);
        lanes.join_next().await.unwrap().unwrap();
        assert!(gather.enter(9).unwrap().starts_lane, "the lane is free again");
    }

    #[tokio::test]
    async fn a_lane_that_dies_tells_those_who_wait() {
        let gather = Arc::new(Gather::<u32, ()>::new(1, 256));
        let first = gather.enter(1).unwrap();
        let second = gather.enter(2).unwrap();
        let died = {
            let gather = Arc::clone(&gather);
            let mut lanes = JoinSet::new();
            lanes.spawn(async move {
                gather.drive(|_| async { panic!("the lane dies") }).await;
            });
            lanes.join_next().await.unwrap()
        };
        assert!(died.unwrap_err().is_panic());
        for answer in [first.answer, second.answer] {
            assert_eq!(answered(answer).await.unwrap_err().kind(), FaultKind::Unavailable);
        }
        assert!(gather.enter(3).unwrap().starts_lane, "another lane may start");
    }
}
