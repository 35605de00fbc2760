//! Many steps at once: one change for each kind of step.
//!
//! Invariant: the changes do to each record what `hapax_core::store::apply` does to it
//! (`any_batch_does_what_the_pure_rule_does_on_sqlite`,
//! `any_batch_does_what_the_pure_rule_does_on_postgres`,
//! `any_batch_does_what_the_pure_rule_does_on_mysql`), and a step that the database refuses harms
//! no other (`a_poison_row_harms_only_itself`).

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::Transaction;

use super::{
    dialect::{Bind, Conn, Dialect, WITNESS_RELEASE, WITNESS_ROLLBACK, WITNESS_SET},
    line::Line,
    read,
    row::Row,
    sheet::{self, Deed},
    store::Sql,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Class, Epoch, Grant, Id, Nonce, Timestamp,
    store::{Answer, Fault, FaultKind, Found, Step},
};

/// Takes the steps; `out[i]` answers `steps[i]`.
pub(super) async fn apply<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    if D::COMMITS_EACH { each(sql, steps).await } else { all(sql, steps).await }
}

/// What became of steps that all failed.
fn failed(error: Error, count: usize) -> Vec<Answer> {
    let is_unsure = error.kind() == Kind::Unsure;
    let fault = error.into_fault();
    let answer = if is_unsure { Answer::Unsure(fault) } else { Answer::Away(fault) };
    vec![answer; count]
}

/// Whether one step may have harmed the others.
fn is_poison(error: &Error) -> bool {
    matches!(error.kind(), Kind::Refused | Kind::Corrupt | Kind::Invalid)
}

fn are_distinct(steps: &[Step]) -> bool {
    let distinct: HashSet<Id> = steps.iter().map(Step::id).collect();
    distinct.len() == steps.len()
}

/// Each kind of step by itself: its change is a transaction.
async fn each<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    let mut deeds: BTreeMap<Option<Deed>, Vec<usize>> = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        // Steps on one record are taken one after the other.
        let deed = if are_distinct(steps) { Deed::of(step).ok() } else { None };
        deeds.entry(deed).or_default().push(place);
    }
    let mut answers: Vec<Option<Answer>> = vec![None; steps.len()];
    for (deed, places) in deeds {
        let group: Vec<Step> = places.iter().filter_map(|at| steps.get(*at)).cloned().collect();
        let taken = match deed {
            Some(_) => alike(sql, &group).await,
            None => alone(sql, &group).await,
        };
        for (place, answer) in places.into_iter().zip(taken) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = Some(answer);
            }
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Answer::Away(unread()))).collect()
}

/// Steps of one kind; if the database refuses them together, each alone.
async fn alike<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    match take(&mut Line::Each(sql), steps).await {
        Ok(taken) => {
            taken.changed.iter().for_each(|id| sql.hint(*id));
            taken.answers
        }
        Err(error) if is_poison(&error) && steps.len() > 1 => alone(sql, steps).await,
        Err(error) => failed(error, steps.len()),
    }
}

async fn alone<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(steps.len());
    for step in steps {
        match take(&mut Line::Each(sql), std::slice::from_ref(step)).await {
            Ok(mut taken) => {
                taken.changed.iter().for_each(|id| sql.hint(*id));
                answers.append(&mut taken.answers);
            }
            Err(error) => answers.append(&mut failed(error, 1)),
        }
    }
    answers
}

/// All steps in one transaction.
async fn all<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Vec<Answer> {
    let error = match together(sql, steps).await {
        Ok(answers) => return answers,
        Err(error) if is_poison(&error) && steps.len() > 1 => error,
        Err(error) => return failed(error, steps.len()),
    };
    tracing::debug!(error = &error as &dyn std::error::Error, "a batch is taken one by one");
    one_by_one(sql, steps).await.unwrap_or_else(|error| failed(error, steps.len()))
}

/// All steps by common changes.
async fn together<D: Dialect>(sql: &Sql<D>, steps: &[Step]) -> Result<Vec<Answer>, Error> {
    if !are_distinct(steps) {
        return one_by_one(sql, steps).await;
    }
    let mut tx = sql.begin_steps().await?;
    let taken = match take::<D>(&mut Line::Within(&mut *tx), steps).await {
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
    let mut tx = sql.begin_steps().await?;
    let mut answers = Vec::with_capacity(steps.len());
    let mut changed = Vec::new();
    for step in steps {
        match undoable::<D>(&mut tx, step).await {
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
async fn undoable<D: Dialect>(
    conn: &mut Conn<D>,
    step: &Step,
) -> Result<Result<Taken, Error>, Error> {
    D::execute(conn, WITNESS_SET, Vec::new()).await?;
    let taken = take::<D>(&mut Line::Within(conn), std::slice::from_ref(step)).await;
    if taken.is_err() {
        D::execute(conn, WITNESS_ROLLBACK, Vec::new()).await?;
    }
    D::execute(conn, WITNESS_RELEASE, Vec::new()).await?;
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

/// What a change did to a record.
enum Won {
    Granted { grant: Grant, nonce: Nonce },
    Applied { epoch: Epoch, now: Timestamp },
}

/// Takes steps on distinct records.
async fn take<D: Dialect>(line: &mut Line<'_, D>, steps: &[Step]) -> Result<Taken, Error> {
    let mut won = write(line, steps).await?;
    let of_kind = |is_won: bool| {
        let ids = steps.iter().map(Step::id);
        ids.filter(|id| won.contains_key(id) == is_won).collect::<Vec<Id>>()
    };
    let (changed, lost) = (of_kind(true), of_kind(false));
    let found = match lost.is_empty() {
        true => Vec::new(),
        false => read::look_through(line, &lost).await?,
    };
    let mut found: HashMap<Id, Found> = lost.into_iter().zip(found).collect();
    let answers = steps.iter().map(|step| {
        let id = step.id();
        match (won.remove(&id), found.remove(&id)) {
            (Some(won), _) => won.answer(step),
            (None, Some(found)) => repeated(step, found),
            (None, None) => Answer::Away(unread()),
        }
    });
    Ok(Taken { answers: answers.collect(), changed })
}

impl Won {
    fn answer(self, step: &Step) -> Answer {
        match (self, step) {
            // The nonce says whose it is, never that a row was met.
            (Self::Granted { grant, nonce }, Step::Claim(claim)) if nonce == claim.nonce => {
                Answer::Granted(grant)
            }
            (Self::Granted { .. }, _) => Answer::Away(unread()),
            (Self::Applied { epoch, now }, _) => Answer::Applied { epoch, now },
        }
    }
}

/// The answer to a step that changed nothing: either it had happened before, or it may not.
///
/// The pure rule knows which; what it would still change is for another round.
fn repeated(step: &Step, found: Found) -> Answer {
    let (record, entry, answer) = hapax_core::store::apply(found.record.clone(), step, found.now);
    if record == found.record && entry.is_none() { answer } else { Answer::Found(found) }
}

fn unread() -> Fault {
    Fault::new(FaultKind::Corrupt, "the database did not say what a statement did")
}

/// Sends the changes of each kind of step.
async fn write<D: Dialect>(
    line: &mut Line<'_, D>,
    steps: &[Step],
) -> Result<HashMap<Id, Won>, Error> {
    let mut sheets: BTreeMap<Deed, Vec<(Id, String)>> = BTreeMap::new();
    for step in steps {
        sheets.entry(Deed::of(step)?).or_default().push((step.id(), sheet::row(step)?));
    }
    let mut won = HashMap::new();
    for (deed, mut rows) in sheets {
        for change in deed.changes::<D>() {
            for sheet in sheet::sheets(rows.iter().map(|(_, row)| row.as_str())) {
                for row in line.send(change, vec![Bind::Text(sheet)]).await? {
                    let (id, what) = read(deed, row).map_err(Error::torn)?;
                    won.insert(id, what);
                }
            }
            rows.retain(|(id, _)| !won.contains_key(id));
        }
    }
    Ok(won)
}

fn read(deed: Deed, mut row: Row) -> Result<(Id, Won), hapax_core::Invalid> {
    let (id, epoch, now) = (row.id()?, row.epoch()?, row.time()?);
    if deed != Deed::Claim {
        return Ok((id, Won::Applied { epoch, now }));
    }
    let (nonce, attempt, since) = (row.nonce()?, row.count()?, row.time()?);
    let (class, checkpoint): (Class, _) = (row.class()?, row.maybe_bytes()?);
    let grant = Grant { epoch, now, attempt, since, class, checkpoint };
    Ok((id, Won::Granted { grant, nonce }))
}
