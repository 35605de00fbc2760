//! Small writes of the store's own: those that meet at the busy writer share a transaction.
//!
//! Invariant: every errand that was queued is answered, also when its caller is gone or a
//! transaction fails (`an_errand_that_fails_harms_no_other`).

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use hapax_core::{
    Actor, Nonce, Timestamp,
    lock::{Hold, LockName},
    message::{Burial, Delivery, MessageId},
    store::{Fault, FaultKind},
};
use tokio::sync::oneshot;

use super::{
    clock,
    dialect::{Conn, Dialect},
    locks, outbox,
    store::Sql,
};
use crate::error::Error;

/// Errands of one transaction: each is a statement or two.
const BATCH_MAX: usize = 256;
/// Errands that may wait. Beyond this the writer is overloaded and says so at once.
const QUEUE_MAX: usize = 16_384;

/// A small write.
#[derive(Clone, Debug)]
pub(super) enum Errand {
    ClaimLetters { rows: u16, lease: Duration, token: Nonce },
    Ack { id: MessageId, token: Nonce },
    Retry { id: MessageId, token: Nonce, pause: Duration, attempts: u32 },
    Bury { id: MessageId, token: Nonce, burial: Burial },
    Replay { id: MessageId, by: Actor, reason: String },
    Acquire { name: LockName, owner: Nonce, lease: Duration },
    Renew { name: LockName, owner: Nonce, lease: Duration },
    Release { name: LockName, owner: Nonce },
}

/// What became of it.
#[derive(Clone, Debug)]
pub(super) enum Done {
    /// These letters are ours.
    Letters(Vec<Delivery>),
    /// It changed something.
    Changed,
    /// It changed nothing: what it was about is gone or somebody else's.
    Nothing,
    /// The lock, and whether the row was written.
    Lock(Hold),
}

impl Done {
    fn wrote(&self) -> bool {
        match self {
            Self::Letters(letters) => !letters.is_empty(),
            Self::Changed | Self::Lock(Hold::Mine { .. }) => true,
            Self::Nothing | Self::Lock(Hold::Taken { .. }) => false,
        }
    }
}

type Caller = oneshot::Sender<Result<Done, Fault>>;

/// The errands that wait for the writer.
#[derive(Default)]
pub(super) struct Errands(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Errand, Caller)>,
    /// A task works on them.
    is_driven: bool,
}

impl Errands {
    /// Every change under this lock is complete when it is let go.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next errands; without any the task is over.
    fn batch(&self) -> Vec<(Errand, Caller)> {
        let mut queue = self.queue();
        let count = std::cmp::min(queue.waiting.len(), BATCH_MAX);
        queue.is_driven = count > 0;
        queue.waiting.drain(..count).collect()
    }
}

/// The task that works on the errands. If it dies, those that wait are told, and the next errand
/// starts another.
struct Driving<'a> {
    errands: &'a Errands,
    is_over: bool,
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut queue = self.errands.queue();
            queue.is_driven = false;
            // A caller hears of it as its end of the answer is dropped.
            queue.waiting.clear();
        }
    }
}

impl<D: Dialect> Sql<D> {
    /// Queues an errand; a writer that is free takes it at once.
    pub(super) fn errand(&self, errand: Errand) -> BoxFuture<'static, Result<Done, Fault>> {
        let (caller, answer) = oneshot::channel();
        let mut queue = self.shared().errands.queue();
        if queue.waiting.len() >= QUEUE_MAX {
            let fault = Fault::new(FaultKind::Full, "too many errands wait for the writer");
            return Box::pin(std::future::ready(Err(fault)));
        }
        queue.waiting.push_back((errand, caller));
        let starts = !std::mem::replace(&mut queue.is_driven, true);
        drop(queue);
        if starts {
            let sql = self.clone();
            self.owned(async move { drive(&sql).await });
        }
        Box::pin(async move {
            let died = || Err(Fault::new(FaultKind::Unavailable, "the errand's task died"));
            answer.await.unwrap_or_else(|_| died())
        })
    }
}

async fn drive<D: Dialect>(sql: &Sql<D>) {
    let mut driving = Driving { errands: &sql.shared().errands, is_over: false };
    loop {
        let batch = driving.errands.batch();
        if batch.is_empty() {
            // The queue has said so under its lock: another task may drive already.
            driving.is_over = true;
            return;
        }
        let (errands, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let answers = run(sql, &errands).await;
        for (caller, answer) in callers.into_iter().zip(answers) {
            // A caller that is gone needs no answer.
            drop(caller.send(answer));
        }
    }
}

/// All together; if that fails, each in a transaction of its own.
async fn run<D: Dialect>(sql: &Sql<D>, errands: &[Errand]) -> Vec<Result<Done, Fault>> {
    let error = match together(sql, errands).await {
        Ok(done) => return done.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    if errands.len() == 1 || error.is_retryable() {
        return vec![Err(error.into_fault()); errands.len()];
    }
    let mut answers = Vec::with_capacity(errands.len());
    for errand in errands {
        let done = together(sql, std::slice::from_ref(errand)).await;
        let done = done.map(|done| done.into_iter().next().unwrap_or(Done::Nothing));
        answers.push(done.map_err(Error::into_fault));
    }
    answers
}

async fn together<D: Dialect>(sql: &Sql<D>, errands: &[Errand]) -> Result<Vec<Done>, Error> {
    let mut tx = sql.begin("errands").await?;
    let done = match all::<D>(&mut tx, errands).await {
        Ok(done) => done,
        Err(error) => {
            sql.rollback(tx).await;
            return Err(error);
        }
    };
    if done.iter().any(Done::wrote) {
        sql.commit(tx).await?;
        tell(sql, errands, &done);
    } else {
        sql.rollback(tx).await;
    }
    Ok(done)
}

async fn all<D: Dialect>(conn: &mut Conn<D>, errands: &[Errand]) -> Result<Vec<Done>, Error> {
    let now = clock::tick::<D>(conn).await?;
    let mut done = Vec::with_capacity(errands.len());
    for errand in errands {
        done.push(one::<D>(conn, errand, now).await?);
    }
    Ok(done)
}

async fn one<D: Dialect>(
    conn: &mut Conn<D>,
    errand: &Errand,
    now: Timestamp,
) -> Result<Done, Error> {
    match errand {
        Errand::ClaimLetters { rows, lease, token } => {
            outbox::claim::<D>(conn, *rows, *lease, *token, now).await
        }
        Errand::Ack { id, token } => outbox::ack::<D>(conn, *id, *token, now).await,
        Errand::Retry { id, token, pause, attempts } => {
            outbox::retry::<D>(conn, *id, *token, now.plus(*pause), *attempts).await
        }
        Errand::Bury { id, token, burial } => {
            outbox::bury::<D>(conn, *id, *token, burial, now).await
        }
        Errand::Replay { id, by, reason } => outbox::replay::<D>(conn, *id, by, reason, now).await,
        Errand::Acquire { name, owner, lease } => {
            locks::acquire::<D>(conn, *name, *owner, *lease, now).await
        }
        Errand::Renew { name, owner, lease } => {
            locks::renew::<D>(conn, *name, *owner, *lease, now).await
        }
        Errand::Release { name, owner } => locks::release::<D>(conn, *name, *owner, now).await,
    }
}

/// Wakes whoever waits for what has changed.
fn tell<D: Dialect>(sql: &Sql<D>, errands: &[Errand], done: &[Done]) {
    for (errand, _) in errands.iter().zip(done).filter(|(_, done)| done.wrote()) {
        match errand {
            Errand::Release { .. } => {
                sql.shared().freed.send_replace(());
            }
            // The next message of the same key may be due now.
            Errand::Ack { .. } | Errand::Bury { .. } | Errand::Replay { .. } => sql.announce(),
            Errand::ClaimLetters { .. }
            | Errand::Retry { .. }
            | Errand::Acquire { .. }
            | Errand::Renew { .. } => {}
        }
    }
}
