//! Small writes of the store's own. Where there is one writer, those that meet at it share a
//! transaction.
//!
//! Invariant: an errand that the database refuses harms no other in its transaction
//! (`an_errand_that_fails_harms_no_other`).

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{dialect::Dialect, gather::answered, line::Line, locks, outbox, store::Sql};
use crate::error::Error;
use hapax_core::{
    Actor, Nonce,
    lock::{Hold, LockName},
    message::{Burial, Delivery, MessageId},
    store::Fault,
};

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

impl<D: Dialect> Sql<D> {
    /// Sends an errand; one that meets others at a busy writer may share their transaction.
    pub(super) fn errand(&self, errand: Errand) -> BoxFuture<'static, Result<Done, Fault>> {
        let ticket = match self.shared().errands.enter(errand) {
            Ok(ticket) => ticket,
            Err(fault) => return Box::pin(std::future::ready(Err(fault))),
        };
        if ticket.starts_lane {
            let sql = self.clone();
            self.owned(async move {
                let work = async |errands: Vec<Errand>| run(&sql, &errands).await;
                sql.shared().errands.drive(work).await;
            });
        }
        Box::pin(answered(ticket.answer))
    }
}

async fn run<D: Dialect>(sql: &Sql<D>, errands: &[Errand]) -> Vec<Result<Done, Fault>> {
    if D::COMMITS_EACH { each(sql, errands).await } else { all(sql, errands).await }
}

/// Each by itself: its change is a transaction.
async fn each<D: Dialect>(sql: &Sql<D>, errands: &[Errand]) -> Vec<Result<Done, Fault>> {
    let mut answers = Vec::with_capacity(errands.len());
    for errand in errands {
        let done = one(&mut Line::Each(sql), errand).await;
        if let Ok(done) = &done {
            tell(sql, errand, done);
        }
        answers.push(done.map_err(Error::into_fault));
    }
    answers
}

/// All together; if that fails, each in a transaction of its own.
async fn all<D: Dialect>(sql: &Sql<D>, errands: &[Errand]) -> Vec<Result<Done, Fault>> {
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
    let mut tx = sql.begin_steps().await?;
    let mut done = Vec::with_capacity(errands.len());
    for errand in errands {
        match one::<D>(&mut Line::Within(&mut *tx), errand).await {
            Ok(one) => done.push(one),
            Err(error) => {
                sql.rollback(tx).await;
                return Err(error);
            }
        }
    }
    if done.iter().any(Done::wrote) {
        sql.commit(tx).await?;
        for (errand, done) in errands.iter().zip(&done) {
            tell(sql, errand, done);
        }
    } else {
        sql.rollback(tx).await;
    }
    Ok(done)
}

async fn one<D: Dialect>(line: &mut Line<'_, D>, errand: &Errand) -> Result<Done, Error> {
    match errand {
        Errand::ClaimLetters { rows, lease, token } => {
            outbox::claim(line, *rows, *lease, *token).await
        }
        Errand::Ack { id, token } => outbox::ack(line, *id, *token).await,
        Errand::Retry { id, token, pause, attempts } => {
            outbox::retry(line, *id, *token, *pause, *attempts).await
        }
        Errand::Bury { id, token, burial } => outbox::bury(line, *id, *token, burial).await,
        Errand::Replay { id, by, reason } => outbox::replay(line, *id, by, reason).await,
        Errand::Acquire { name, owner, lease } => locks::acquire(line, *name, *owner, *lease).await,
        Errand::Renew { name, owner, lease } => locks::renew(line, *name, *owner, *lease).await,
        Errand::Release { name, owner } => locks::release(line, *name, *owner).await,
    }
}

/// Wakes whoever waits for what has changed.
fn tell<D: Dialect>(sql: &Sql<D>, errand: &Errand, done: &Done) {
    match errand {
        _ if !done.wrote() => {}
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
