//! `store`: what a guard costs on each engine, against the smallest hand-written program with the
//! same driver, statements, concurrency and durability.

use std::{io::Write as _, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

use crate::{
    clock::Stopwatch,
    ratio::{Visit, beside, median},
};
use hapax::{Begin, BusinessKey, Call, Effect, Hapax, Operation, Outcome, Policy, Tenant};

mod mariadb;
mod postgres;
mod sqlite;

const VISIT: Duration = Duration::from_millis(1500);
/// Connections of ours and of the control: what one instance of a service has.
const POOL: u32 = 16;
/// Callers at once: one, as many as connections, and eight times as many.
const CALLERS: [usize; 3] = [1, 16, 128];
/// An answer as a payment's.
const ANSWER: [u8; 200] = [b'7'; 200];
/// Keys that are asked for again.
const AGAIN: u64 = 8;

/// An engine.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
}

/// One piece of work on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Claims a new key and completes it, each its own commit.
    Pair,
    /// Asks for an answer that is there.
    Replay,
    /// A business row, the claim and the answer: a guarded transaction.
    Guarded,
}

impl Work {
    const ALL: [Self; 3] = [Self::Pair, Self::Replay, Self::Guarded];

    fn name(self) -> &'static str {
        match self {
            Self::Pair => "claim and complete",
            Self::Replay => "replay",
            Self::Guarded => "guarded transaction",
        }
    }
}

/// Somebody who does the work: we, or the control.
trait Worker: Send + Sync {
    fn work(&self, work: Work, key: String) -> BoxFuture<'_, anyhow::Result<()>>;
}

/// The hand-written program beside us, and the same business without any guard.
struct Bench {
    ours: Arc<dyn Worker>,
    raw: Arc<dyn Worker>,
    /// The business row alone.
    bare: Arc<dyn Worker>,
}

/// Runs `rounds` rounds on each engine and prints a table for each.
pub(crate) fn run(engines: &[Engine], rounds: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for engine in engines {
        runtime.block_on(async {
            match engine {
                Engine::Sqlite => sqlite::with(|bench| measure("SQLite", bench, rounds)).await,
                Engine::Postgres => {
                    postgres::with(|bench| measure("PostgreSQL", bench, rounds)).await
                }
                Engine::Mariadb => mariadb::with(|bench| measure("MariaDB", bench, rounds)).await,
            }
        })?;
    }
    Ok(())
}

async fn measure(engine: &str, bench: Bench, rounds: u32) -> anyhow::Result<()> {
    let mut table = Vec::new();
    for work in Work::ALL {
        for callers in CALLERS {
            let mut figures = Figures::default();
            for round in 0..rounds {
                let first = format!("{}-{callers}-{round}", work.name().replace(' ', "-"));
                figures.ours.push(visit(&bench.ours, callers, &first, work).await?);
                figures.raw.push(visit(&bench.raw, callers, &first, work).await?);
                if work == Work::Guarded {
                    figures.bare.push(visit(&bench.bare, callers, &first, work).await?);
                }
            }
            table.push((work, callers, figures));
        }
    }
    print(engine, &table, rounds)
}

#[derive(Default)]
struct Figures {
    ours: Vec<Visit>,
    raw: Vec<Visit>,
    bare: Vec<Visit>,
}

fn print(engine: &str, table: &[(Work, usize, Figures)], rounds: u32) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{engine}: {rounds} rounds, medians; ratios to the hand-written program and to the bare \
         business row, in the same round; durable\n\n\
         work                callers   ours/s    raw/s  ratio  to bare"
    )?;
    for (work, callers, figures) in table {
        let (rate, ratio) = beside(&figures.ours, &figures.raw, Visit::rate);
        let control = median(figures.raw.iter().map(Visit::rate).collect());
        let name = work.name();
        write!(out, "{name:<19} {callers:>7} {rate:>8.0} {control:>8.0} {ratio:>6.2}")?;
        if !figures.bare.is_empty() {
            let (_, to_bare) = beside(&figures.ours, &figures.bare, Visit::rate);
            write!(out, "   {to_bare:>6.2}")?;
        }
        writeln!(out)?;
    }
    writeln!(out)?;
    Ok(())
}

/// As much `work` as `callers` do in one visit, each on keys of its own.
async fn visit(
    worker: &Arc<dyn Worker>,
    callers: usize,
    first: &str,
    work: Work,
) -> anyhow::Result<Visit> {
    if work == Work::Replay {
        for caller in 0..callers {
            for number in 0..AGAIN {
                worker.work(Work::Pair, format!("{first}-{caller}-{number}")).await?;
            }
        }
    }
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let (worker, first) = (Arc::clone(worker), first.to_owned());
        tasks.spawn(async move {
            let mut done = 0_u64;
            while watch.elapsed() < VISIT {
                let number = if work == Work::Replay { done % AGAIN } else { done };
                worker.work(work, format!("{first}-{caller}-{number}")).await?;
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

/// The two operations of ours: one whose outcome nobody can know, and one whose effect commits
/// with its answer.
struct Operations {
    opaque: Operation,
    transactional: Operation,
}

impl Operations {
    fn on(hapax: &Hapax) -> anyhow::Result<Self> {
        Ok(Self {
            opaque: hapax.declare("bench.pair", Policy::new(Effect::Opaque))?,
            transactional: hapax.declare("bench.guarded", Policy::new(Effect::Transactional))?,
        })
    }

    async fn pair(&self, key: &str) -> anyhow::Result<()> {
        let Begin::Run(lease) = call(&self.opaque, key)?.begin().await? else {
            bail!("{key} was not new");
        };
        lease.complete(Outcome::Value(Bytes::from_static(&ANSWER))).await?;
        Ok(())
    }

    async fn replay(&self, key: &str) -> anyhow::Result<()> {
        let Begin::Replay(_) = call(&self.opaque, key)?.begin().await? else {
            bail!("{key} ran again");
        };
        Ok(())
    }
}

fn call(operation: &Operation, key: &str) -> anyhow::Result<Call> {
    Ok(operation.business(Tenant::parse("acme")?, BusinessKey::of(&[key])?))
}

/// The answer of a guarded transaction, as text.
fn answer() -> String {
    String::from_utf8_lossy(&ANSWER).into_owned()
}

/// What a statement must have met.
fn one(rows: u64, key: &str) -> anyhow::Result<()> {
    (rows == 1).then_some(()).with_context(|| format!("{key}: {rows} rows instead of one"))
}
