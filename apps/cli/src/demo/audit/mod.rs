//! The audit: the service's books against what really happened at the channel.
//!
//! It shares no code with the service: it reads the database with statements of its own and asks
//! the simulator for the truth. Effects are counted in a ledger without unique constraints, so
//! that a duplicate is seen instead of hidden.
//!
//! Invariant: whatever was duplicated or lost fails the run, and whatever did not happen makes it
//! void (`each_planted_violation_fails_as_what_it_is_and_nothing_else`,
//! `trouble_that_did_not_happen_makes_a_run_void`).

mod account;
mod check;
mod compare;
mod sql;
#[cfg(test)]
mod tests;

use anyhow::Context;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};

pub(super) use self::account::{Account, Verdict};
use self::{
    check::{Figure, Findings, IN_BOOKS},
    compare::compare,
};
use super::stage::Stage;
use hapax_sim::wire::Truth;

/// What a run was asked to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Decides the workload.
    pub(super) seed: u64,
    /// At least this many orders.
    pub(super) orders: u32,
}

/// Whether something is still under way.
pub(super) async fn is_busy(stage: &Stage) -> anyhow::Result<bool> {
    let mut books = open(stage).await?;
    let mut is_busy = false;
    for (check, statement) in IN_BOOKS {
        is_busy |= check.is_of_time() && !found(&mut books, statement).await?.is_empty();
    }
    books.close().await?;
    Ok(is_busy)
}

/// Audits the books.
pub(super) async fn audit(stage: &Stage, asked: Asked) -> anyhow::Result<Account> {
    let truth = truth(stage).await?;
    let mut books = open(stage).await?;
    let account = recount(&mut books, &truth, asked).await?;
    books.close().await?;
    Ok(account)
}

async fn recount(
    books: &mut SqliteConnection,
    truth: &Truth,
    asked: Asked,
) -> anyhow::Result<Account> {
    let mut findings = Findings::default();
    let compared = compare(books, truth, &mut findings).await?;
    for (check, statement) in IN_BOOKS {
        for evidence in found(books, statement).await? {
            findings.add(*check, evidence);
        }
    }
    let totals = &truth.totals;
    findings.forged(totals.hostile_acked);
    let account = Account {
        orders: count(books, sql::ORDERS).await?,
        submits: count(books, sql::SUBMITS).await?,
        replays: count(books, sql::REPLAYS).await?,
        payments: count(books, sql::PAYMENTS).await?,
        duplicate_payments: findings.count(Figure::DuplicatePayments),
        callbacks: totals.deliveries,
        repeated_callbacks: totals.duplicate_deliveries,
        duplicate_effects: findings.count(Figure::DuplicateEffects),
        paid_at_channel: compared.paid,
        paid_here: count(books, sql::PAID_HERE).await?,
        benefits: count(books, sql::BENEFITS).await?,
        duplicate_benefits: findings.count(Figure::DuplicateBenefits),
        benefits_revoked: count(books, sql::REVOKED).await?,
        refunds: compared.refunds,
        duplicate_refunds: findings.count(Figure::DuplicateRefunds),
        lost: findings.count(Figure::Lost),
        lost_callbacks: totals.notices_lost,
        close_races: totals.closes_refused_as_paid,
        late_payments: totals.paid_after_expiry + totals.paid_after_close_not_exist,
        surplus: count(books, sql::SURPLUS).await?,
        broken_calls: totals.faults.values().sum(),
        forged_callbacks: totals.hostile,
        forged_accepted: totals.hostile_acked,
        kills: count(books, sql::KILLS).await?,
        seed: asked.seed,
        wrong: Vec::new(),
        missing: Vec::new(),
        verdict: Verdict::Pass,
    };
    Ok(account.judge(&findings, asked))
}

async fn truth(stage: &Stage) -> anyhow::Result<Truth> {
    let url = format!("{}/_sim/truth?deliveries=false", stage.simulator());
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(url).send().await?.error_for_status()?;
    answer.json().await.context("the simulator's truth cannot be read")
}

async fn open(stage: &Stage) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(stage.database()?).read_only(true);
    SqliteConnection::connect_with(&options).await.context("the books cannot be opened")
}

async fn count(books: &mut SqliteConnection, statement: &'static str) -> anyhow::Result<u64> {
    let count: i64 = sqlx::query(statement).fetch_one(books).await?.try_get(0)?;
    Ok(u64::try_from(count)?)
}

/// What a check finds: a readable name of each thing that breaks it.
async fn found(
    books: &mut SqliteConnection,
    statement: &'static str,
) -> anyhow::Result<Vec<String>> {
    let rows = sqlx::query(statement).fetch_all(books).await?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
