//! Many steps in one transaction: one statement for each kind of step.
//!
//! Invariant: the statements do to each record what `hapax_core::store::apply` does to it
//! (`any_batch_does_what_the_pure_rule_does`), and a step that the database refuses harms no
//! other (`a_poison_row_harms_only_itself`).

use std::collections::{HashMap, HashSet};

use sqlx::Transaction;

use super::{
    clock,
    dialect::{Bind, Conn, Dialect},
    read,
    row::Row,
    sheet::{self, JournalRow, Sheets},
    store::Sql,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Class, Epoch, Grant, Id, Nonce, Timestamp,
    store::{Answer, Event, Fault, FaultKind, Found, Step},
};

/// Takes the steps; `out[i]` answers `steps[i]`.
pub(super) async fn apply<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    let error = match together(sql, steps).await {
        Ok(answers) => return answers,
        Err(error) => error,
    };
    let harms_one = matches!(error.kind(), Kind::Refused | Kind::Corrupt | Kind::Invalid);
    let error = match harms_one && steps.len() > 1 {
        true => match one_by_one(sql, steps).await {
            Ok(answers) => return answers,
            Err(error) => error,
        },
        false => error,
    };
    let is_unsure = error.kind() == Kind::Unsure;
    let fault = error.into_fault();
    let answer = if is_unsure { Answer::Unsure(fault) } else { Answer::Away(fault) };
    vec![answer; steps.len()]
}

/// All steps by common statements.
async fn together<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Result<Vec<Answer>, Error> {
    let distinct: HashSet<Id> = steps.iter().map(Step::id).collect();
    if distinct.len() < steps.len() {
        return one_by_one(sql, steps).await;
    }
    let mut tx = sql.begin("steps").await?;
    let taken = match take::<D>(&mut tx, steps).await {
        Ok(taken) => taken,
        Err(error) => {
            sql.rollback(tx).await;
            return Err(error);
        }
    };
    end(sql, tx, &taken.changed).await?;
    Ok(taken.answers)
}

/// Each step by itself, in one transaction: what the database refuses is undone alone.
async fn one_by_one<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Result<Vec<Answer>, Error> {
    let mut tx = sql.begin("steps_one_by_one").await?;
    let mut answers = Vec::with_capacity(steps.len());
    let mut changed = Vec::new();
    for step in steps {
        match alone::<D>(&mut tx, step).await {
            Ok(Ok(mut taken)) => {
                answers.append(&mut taken.answers);
                changed.append(&mut taken.changed);
            }
            Ok(Err(refused)) => answers.push(Answer::Away(refused.into_fault())),
            Err(error) => {
                sql.rollback(tx).await;
                return Err(error);
            }
        }
    }
    end(sql, tx, &changed).await?;
    Ok(answers)
}

/// One step under a savepoint: the inner error was undone, the outer one breaks the batch off.
async fn alone<D: Dialect>(conn: &mut Conn<D>, step: &Step) -> Result<Result<Taken, Error>, Error> {
    D::execute(conn, D::WITNESS_SET, Vec::new()).await?;
    let taken = take::<D>(conn, std::slice::from_ref(step)).await;
    if taken.is_err() {
        D::execute(conn, D::WITNESS_ROLLBACK, Vec::new()).await?;
    }
    D::execute(conn, D::WITNESS_RELEASE, Vec::new()).await?;
    Ok(taken)
}

/// Commits what changed something; what changed nothing leaves no trace, not even a flush.
async fn end<D: Dialect>(
    sql: &Sql<D>,
    tx: Transaction<'static, <D as Dialect>::Db>,
    changed: &[Id],
) -> Result<(), Error> {
    if changed.is_empty() {
        sql.rollback(tx).await;
        return Ok(());
    }
    sql.commit(tx).await?;
    changed.iter().for_each(|id| sql.hint(*id));
    Ok(())
}

struct Taken {
    answers: Vec<Answer>,
    changed: Vec<Id>,
}

/// What a statement did to a record.
enum Won {
    Granted { grant: Grant, nonce: Nonce },
    Applied(Epoch),
}

async fn take<D: Dialect>(conn: &mut Conn<D>, steps: &[Step]) -> Result<Taken, Error> {
    let now = clock::tick::<D>(conn).await?;
    let mut sheets = Sheets::default();
    steps.iter().try_for_each(|step| sheets.enter(step, now))?;
    let won = write::<D>(conn, sheets, now).await?;
    let changed: Vec<Id> = steps.iter().map(Step::id).filter(|id| won.contains_key(id)).collect();
    journal::<D>(conn, steps, &won, now).await?;
    let lost: Vec<Id> = steps.iter().map(Step::id).filter(|id| !won.contains_key(id)).collect();
    let found = match lost.is_empty() {
        true => Vec::new(),
        false => read::look_within::<D>(conn, &lost).await?,
    };
    let mut found: HashMap<Id, Found> = lost.into_iter().zip(found).collect();
    let mut won = won;
    let answers = steps.iter().map(|step| {
        let id = step.id();
        match (won.remove(&id), found.remove(&id)) {
            (Some(won), _) => won.answer(step, now),
            (None, Some(found)) => repeated(step, found, now),
            (None, None) => Answer::Away(unread()),
        }
    });
    Ok(Taken { answers: answers.collect(), changed })
}

impl Won {
    fn answer(self, step: &Step, now: Timestamp) -> Answer {
        match (self, step) {
            // The nonce says whose it is, never that a row was met.
            (Self::Granted { grant, nonce }, Step::Claim(claim)) if nonce == claim.nonce => {
                Answer::Granted(grant)
            }
            (Self::Granted { .. }, _) => Answer::Away(unread()),
            (Self::Applied(epoch), _) => Answer::Applied { epoch, now },
        }
    }
}

/// The answer to a step that changed nothing: either it had happened before, or it may not.
///
/// The pure rule knows which; what it would still change is for another round.
fn repeated(step: &Step, found: Found, now: Timestamp) -> Answer {
    let found = Found { now, ..found };
    let (record, entry, answer) = hapax_core::store::apply(found.record.clone(), step, now);
    if record == found.record && entry.is_none() { answer } else { Answer::Found(found) }
}

fn unread() -> Fault {
    Fault::new(FaultKind::Corrupt, "the database did not say what a statement did")
}

/// Sends one statement for each kind of step.
async fn write<D: Dialect>(
    conn: &mut Conn<D>,
    mut sheets: Sheets<'_>,
    now: Timestamp,
) -> Result<HashMap<Id, Won>, Error> {
    let mut won = HashMap::new();
    let fenced = [
        (D::RENEW, &sheets.renewals),
        (D::CHECKPOINT, &sheets.checkpoints),
        (D::COMPLETE, &sheets.completions),
        (D::DOUBT, &sheets.doubts),
        (D::RELEASE, &sheets.releases),
        (D::SETTLE_COMPLETED, &sheets.settled),
        (D::SETTLE_OPEN, &sheets.reopened),
    ];
    for (text, rows) in fenced {
        for rows in sheet::texts(rows)? {
            for mut row in D::fetch(conn, text, vec![Bind::Text(rows), at(now)]).await? {
                let id = row.id().map_err(Error::torn)?;
                won.insert(id, Won::Applied(row.epoch().map_err(Error::torn)?));
            }
        }
    }
    for text in [D::CLAIM_INSERT, D::CLAIM_REUSE, D::CLAIM_RETAKE] {
        for rows in sheet::texts(&sheets.claims)? {
            for row in D::fetch(conn, text, vec![Bind::Text(rows), at(now)]).await? {
                let (id, granted) = granted(row, now)?;
                won.insert(id, granted);
            }
        }
        sheets.claims.retain(|claim| !won.contains_key(&claim.id));
    }
    Ok(won)
}

fn at(now: Timestamp) -> Bind {
    Bind::Int(now.as_millis())
}

fn granted(mut row: Row, now: Timestamp) -> Result<(Id, Won), Error> {
    let mut read = || -> Result<(Id, Won), hapax_core::Invalid> {
        let (id, epoch, nonce) = (row.id()?, row.epoch()?, row.nonce()?);
        let (attempt, since) = (row.count()?, row.time()?);
        let (class, checkpoint): (Class, _) = (row.class()?, row.maybe_bytes()?);
        let grant = Grant { epoch, now, attempt, since, class, checkpoint };
        Ok((id, Won::Granted { grant, nonce }))
    };
    read().map_err(Error::torn)
}

/// Writes a line for each step that began or ended an attempt.
async fn journal<D: Dialect>(
    conn: &mut Conn<D>,
    steps: &[Step],
    won: &HashMap<Id, Won>,
    now: Timestamp,
) -> Result<(), Error> {
    let lines: Vec<JournalRow<'_>> = steps.iter().filter_map(|step| line(step, won)).collect();
    for lines in sheet::texts(&lines)? {
        D::execute(conn, D::JOURNAL_WRITE, vec![Bind::Text(lines), at(now)]).await?;
    }
    Ok(())
}

fn line<'a>(step: &'a Step, won: &HashMap<Id, Won>) -> Option<JournalRow<'a>> {
    let id = step.id();
    match (step, won.get(&id)?) {
        (Step::Claim(claim), Won::Granted { grant, .. }) => {
            let event = if grant.attempt > 1 { Event::Retaken } else { Event::Claimed };
            Some(JournalRow::new(id, event).by(&claim.caller))
        }
        (Step::Complete { .. }, _) => Some(JournalRow::new(id, Event::Completed)),
        (Step::Doubt { why, .. }, _) => Some(JournalRow::new(id, Event::Doubted).because(why)),
        (Step::Release { .. }, _) => Some(JournalRow::new(id, Event::Released)),
        (Step::Settle { by, reason, .. }, _) => {
            Some(JournalRow::new(id, Event::Settled).by(by).because(reason))
        }
        _ => None,
    }
}
