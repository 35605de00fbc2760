//! `http`: a bare axum handler against the same handler behind the layer.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use crate::{
    clock::Processor,
    load::{Answers, Keys, Load},
    ratio::{Visit, beside},
    server::{ORDERS_MAX, Variant},
};

/// One visit: long enough for a hundred ticks of the processor clock.
const VISIT: Duration = Duration::from_millis(1000);
/// Before the first visit that counts.
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Fresh,
    Replay,
}

struct Server {
    child: Child,
    processor: Processor,
    load: Load,
    /// Keys that were sent so far, from 0 on.
    sent: usize,
}

/// Runs `rounds` rounds and prints the table.
pub(crate) fn run(rounds: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(rounds))
}

async fn measure(rounds: u32) -> anyhow::Result<()> {
    // A load that sleeps has to be woken, which the system charges to the server, and the more
    // often the slower the server is. This one never sleeps.
    let mut awake = JoinSet::new();
    awake.spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let mut servers = HashMap::new();
    for variant in Variant::ALL {
        let mut server = Server::start(variant).await?;
        server.visit(Phase::Fresh, WARM_UP).await?;
        servers.insert(variant, server);
    }
    let mut visits: HashMap<(Variant, Phase), Vec<Visit>> = HashMap::new();
    for round in 0..rounds {
        // Neighbours change places, so that none always follows the busiest.
        let mut order = Variant::ALL;
        let places = order.len();
        order.rotate_left(usize::try_from(round)? % places);
        for phase in [Phase::Fresh, Phase::Replay] {
            for variant in order {
                let server = servers.get_mut(&variant).context("a server")?;
                let visit = server.visit(phase, VISIT).await?;
                visits.entry((variant, phase)).or_default().push(visit);
            }
        }
    }
    for (variant, server) in servers {
        server.end(variant).await?;
    }
    print(&visits, rounds)
}

impl Server {
    async fn start(variant: Variant) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", variant.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a server")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("a server without output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse().context("the server said no port")?;
        let processor = Processor::of(child.id());
        Ok(Self { child, processor, load: Load::connect(port).await?, sent: 0 })
    }

    async fn visit(&mut self, phase: Phase, span: Duration) -> anyhow::Result<Visit> {
        let keys = match phase {
            Phase::Fresh => Keys::Fresh(self.sent),
            Phase::Replay => Keys::Again(0..std::cmp::min(self.sent, 1000)),
        };
        let before = self.processor.used()?;
        let Answers { done, replayed, took } = self.load.send(keys, span).await?;
        let processor = self.processor.used()?.saturating_sub(before);
        match phase {
            Phase::Fresh => {
                ensure!(replayed == 0, "{replayed} new keys were answered with a replay");
                self.sent += usize::try_from(done)?;
                ensure!(self.sent < ORDERS_MAX, "the keys are used up: take fewer rounds");
            }
            // The bare server knows no repeats; what it ran is checked at its end.
            Phase::Replay => ensure!(replayed == 0 || replayed == done, "some repeats ran again"),
        }
        Ok(Visit { done, took, processor })
    }

    /// Checks what ran, and ends the server.
    async fn end(mut self, variant: Variant) -> anyhow::Result<()> {
        let executions = self.load.executions().await?;
        drop(self.load);
        drop(self.child.stdin.take());
        self.child.wait()?;
        check(variant, self.sent, executions)
    }
}

/// One execution for each key, or the figures are void. The bare handler must have run again:
/// otherwise nothing was repeated.
fn check(variant: Variant, sent: usize, [placed, repeated]: [u32; 2]) -> anyhow::Result<()> {
    let name = variant.name();
    ensure!(
        usize::try_from(placed)? == sent,
        "{name}: {sent} keys were sent and {placed} orders placed",
    );
    match variant {
        Variant::Bare => ensure!(repeated > 0, "{name}: nothing was repeated"),
        Variant::Memory | Variant::Sqlite => {
            ensure!(repeated == 0, "{name}: {repeated} executions were duplicates");
        }
    }
    Ok(())
}

fn print(visits: &HashMap<(Variant, Phase), Vec<Visit>>, rounds: u32) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{rounds} rounds, medians; ratios to the bare handler of the same round; one worker, 32 \
         connections; executions per key: 1\n\n\
         variant  phase    req/s  ratio  CPU us/req  ratio"
    )?;
    for phase in [Phase::Fresh, Phase::Replay] {
        let of = |variant| visits.get(&(variant, phase)).map(Vec::as_slice).unwrap_or_default();
        for variant in Variant::ALL {
            let (rate, rates) = beside(of(variant), of(Variant::Bare), Visit::rate);
            let (micros, costs) = beside(of(variant), of(Variant::Bare), Visit::micros);
            let name = variant.name();
            let phase = match phase {
                Phase::Fresh => "fresh",
                Phase::Replay => "replay",
            };
            writeln!(
                out,
                "{name:<8} {phase:<7} {rate:>6.0} {rates:>6.2} {micros:>11.1} {costs:>6.2}"
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_ran_twice_voids_the_figures() {
        assert!(check(Variant::Memory, 10, [10, 0]).is_ok());
        for (variant, executions) in [
            (Variant::Memory, [10, 1]),
            (Variant::Sqlite, [10, 1]),
            (Variant::Memory, [9, 0]),
            (Variant::Bare, [10, 0]),
        ] {
            assert!(check(variant, 10, executions).is_err(), "{variant:?} {executions:?}");
        }
    }
}
