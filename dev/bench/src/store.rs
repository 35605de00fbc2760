//! `store`: claim and complete in SQLite, against a hand-written program with the same driver that
//! commits each statement.

use std::{io::Write as _, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::task::JoinSet;

use crate::{
    clock::Stopwatch,
    ratio::{Visit, beside, median},
};
use hapax::{
    Begin, BusinessKey, Effect, Hapax, Operation, Outcome, Policy, Tenant, sql::SqliteStore,
};

const VISIT: Duration = Duration::from_millis(1500);
/// Callers at once, as in goal P10.
const CALLERS: [usize; 3] = [1, 16, 64];
/// An answer as a payment's.
const ANSWER: [u8; 200] = [b'7'; 200];
/// Keys that are asked for again.
const AGAIN: u64 = 8;

/// What stands for the work of one visit.
#[derive(Clone)]
enum Bench {
    Ours(Operation),
    /// `INSERT` and `UPDATE`, each its own commit, on one connection that writes.
    Raw {
        writer: SqlitePool,
        readers: SqlitePool,
    },
}

/// Runs `rounds` rounds and prints the table.
pub(crate) fn run(rounds: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(rounds))
}

async fn measure(rounds: u32) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("ours.db")).await?;
    let hapax = Hapax::new(Arc::new(store.clone()));
    let ours = Bench::Ours(hapax.declare("bench.pair", Policy::new(Effect::Opaque))?);
    let raw = Bench::raw(&folder.path().join("raw.db")).await?;
    let mut table = Vec::new();
    for callers in CALLERS {
        let mut pairs = (Vec::new(), Vec::new());
        let mut replays = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let first = format!("{callers}-{round}");
            pairs.0.push(ours.visit(callers, &first, Bench::pair).await?);
            pairs.1.push(raw.visit(callers, &first, Bench::pair).await?);
            replays.0.push(ours.visit(callers, &first, Bench::again).await?);
            replays.1.push(raw.visit(callers, &first, Bench::again).await?);
        }
        table.push(("claim and complete", callers, pairs));
        table.push(("replay", callers, replays));
    }
    raw.close().await;
    store.close().await;
    print(&table, rounds)
}

type Figures = (Vec<Visit>, Vec<Visit>);

fn print(table: &[(&str, usize, Figures)], rounds: u32) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{rounds} rounds, medians; ratios to one commit for each statement through the same \
         driver, in the same round; synchronous=FULL\n\n\
         work                callers   ours/s    raw/s  ratio"
    )?;
    for (work, callers, (ours, raw)) in table {
        let (rate, ratio) = beside(ours, raw, Visit::rate);
        let control = median(raw.iter().map(Visit::rate).collect());
        writeln!(out, "{work:<19} {callers:>7} {rate:>8.0} {control:>8.0} {ratio:>6.2}")?;
    }
    Ok(())
}

impl Bench {
    async fn raw(path: &Path) -> anyhow::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let (writer, readers) = (pool(1), pool(4));
        sqlx::query(
            "CREATE TABLE pairs (id TEXT PRIMARY KEY, state TEXT NOT NULL, answer BLOB) STRICT",
        )
        .execute(&writer)
        .await?;
        Ok(Self::Raw { writer, readers })
    }

    /// As many `work` as `callers` do in one visit, each on keys of its own.
    async fn visit<W>(
        &self,
        callers: usize,
        first: &str,
        work: fn(Self, String) -> W,
    ) -> anyhow::Result<Visit>
    where
        W: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let watch = Stopwatch::start();
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let (bench, first) = (self.clone(), first.to_owned());
            tasks.spawn(async move {
                let mut done = 0_u64;
                while watch.elapsed() < VISIT {
                    work(bench.clone(), format!("{first}-{caller}-{done}")).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(task) = tasks.join_next().await {
            done += task??;
        }
        Ok(Visit { done, took: watch.elapsed(), processor: Duration::ZERO })
    }

    /// Claims a new key and completes it.
    async fn pair(self, key: String) -> anyhow::Result<()> {
        match self {
            Self::Ours(operation) => {
                let call = operation.business(tenant()?, BusinessKey::of(&[&key])?);
                let Begin::Run(lease) = call.begin().await? else { bail!("{key} was not new") };
                lease.complete(Outcome::Value(Bytes::from_static(&ANSWER))).await?;
            }
            Self::Raw { writer, .. } => {
                let claimed = sqlx::query("INSERT INTO pairs VALUES (?, 'held', NULL)")
                    .bind(&key)
                    .execute(&writer)
                    .await?;
                ensure!(claimed.rows_affected() == 1, "{key} was not new");
                sqlx::query(
                    "UPDATE pairs SET state = 'done', answer = ? WHERE id = ? AND state = 'held'",
                )
                .bind(ANSWER.as_slice())
                .bind(&key)
                .execute(&writer)
                .await?;
            }
        }
        Ok(())
    }

    /// Asks for an answer that is there: one of each caller's first.
    async fn again(self, key: String) -> anyhow::Result<()> {
        let (caller, number) = key.rsplit_once('-').context("a key without a number")?;
        let key = format!("{caller}-{}", number.parse::<u64>()? % AGAIN);
        match self {
            Self::Ours(operation) => {
                let call = operation.business(tenant()?, BusinessKey::of(&[&key])?);
                let Begin::Replay(_) = call.begin().await? else { bail!("{key} ran again") };
            }
            Self::Raw { readers, .. } => {
                let answer: Vec<u8> =
                    sqlx::query_scalar("SELECT answer FROM pairs WHERE id = ? AND state = 'done'")
                        .bind(&key)
                        .fetch_one(&readers)
                        .await?;
                ensure!(answer == ANSWER, "{key} has another answer");
            }
        }
        Ok(())
    }

    async fn close(self) {
        if let Self::Raw { writer, readers } = self {
            writer.close().await;
            readers.close().await;
        }
    }
}

fn tenant() -> anyhow::Result<Tenant> {
    Ok(Tenant::parse("acme")?)
}
