//! `hapax demo`: the main job, end to end, on this machine and with nothing set up before.
//!
//! Service and simulator are real child processes of this very executable. Attackers submit,
//! repeat, race and refund; the service is killed in the middle and started again on the same port
//! and data. Then the books are audited against what really happened at the channel. The attacker's
//! own numbers are not believed: every figure comes from the database, the simulator, and a ledger
//! of effects that has no unique constraint.

mod audit;
mod progress;
mod stage;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use tokio::sync::mpsc;

use self::{
    audit::{Account, Asked, Verdict},
    progress::Bar,
    stage::Stage,
};
use crate::{end::End, output, serve};
use hapax_storm::{Control, Merchant, Pace, Plan, Progress};

/// Orders that are worth the name of a storm.
const ORDERS: u32 = 200;
/// The service is dead for at least this long.
const DEAD: Duration = Duration::from_millis(150);
/// Everything must have come to rest within this time after the storm.
const REST_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks whether everything is at rest.
const REST_PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
#[command(after_help = "Example: hapax demo --orders 200 --seed 7 --json\n\n\
    Exit code 0 only if nothing was duplicated, nothing was lost, and every kind of trouble really \
    happened; 5 if something was duplicated or lost.")]
pub(crate) struct Args {
    /// How many orders, each submitted at least five times at once
    #[arg(long, default_value_t = ORDERS)]
    orders: u32,
    /// Decides the whole workload; without it, chance does
    #[arg(long)]
    seed: Option<u64>,
    /// Print the account as one JSON document
    #[arg(long)]
    json: bool,
    /// Leave service and simulator up and print how to reach them
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(args: Args) -> End {
    let directory = match tempfile::Builder::new().prefix("hapax-demo-").tempdir() {
        Ok(directory) => directory,
        Err(why) => return End::failed(format!("there is no room for a demo: {why}")),
    };
    let end = match play(&args, directory.path()).await {
        Ok(account) => end(&account),
        Err(end) => end,
    };
    if !matches!(end, End::Fine) {
        // Who wants to know why needs the logs and the database.
        let directory = directory.keep();
        output::say(format!("what it left is in {}", directory.display()));
    }
    end
}

fn end(account: &Account) -> End {
    match account.verdict {
        Verdict::Pass => End::Fine,
        Verdict::Fail => End::Violated(format!(
            "a promise was broken: {}",
            account.wrong.first().map(String::as_str).unwrap_or_default()
        )),
        Verdict::Void => {
            End::failed("some kind of trouble did not happen, so this run proves nothing")
        }
    }
}

async fn play(args: &Args, directory: &Path) -> Result<Account, End> {
    let seed = args.seed.map_or_else(chance, Ok)?;
    let manner = hapax_storm::Manner::default();
    let merchant = Merchant::open(seed, manner).await.map_err(anyhow::Error::from)?;
    let mut stage = Stage::set(directory, seed, &merchant).await?;
    let bar = Bar::new(args.orders);
    let plan = plan(args, seed, &stage);
    let found = storm(plan, &merchant, &mut stage, bar.clone()).await?;
    bar.say("coming to rest");
    rest(&stage).await?;
    bar.say("auditing");
    let mut account = audit::audit(&stage, Asked { seed, orders: args.orders }).await?;
    account.add_findings(&found);
    bar.close();
    if args.keep {
        show(args, &account)?;
        tell(args, &stage, directory)?;
        serve::told_to_stop().await;
        account.add_stop(stage.stop().await);
    } else {
        account.add_stop(stage.stop().await);
        show(args, &account)?;
    }
    Ok(account)
}

fn show(args: &Args, account: &Account) -> Result<(), End> {
    if args.json { output::json(account) } else { output::print(&account.to_text()?) }
}

/// Tells how to reach what is left up. With `--json` data is the account alone.
fn tell(args: &Args, stage: &Stage, directory: &Path) -> Result<(), End> {
    let key = stage.tenants().into_iter().next().map(|tenant| tenant.api_key);
    let (service, simulator) = (stage.service(), stage.simulator());
    let key = key.unwrap_or_default();
    let exports = format!("export HAPAX={service}\nexport KEY={key}\nexport SIM={simulator}");
    if args.json {
        output::say(exports);
    } else {
        output::line(exports)?;
    }
    output::say(format!("everything is in {}", directory.display()));
    output::say("interrupt to stop");
    Ok(())
}

fn chance() -> anyhow::Result<u64> {
    let seed = getrandom::u64().context("the system gives no random bytes")?;
    // Short enough to be typed again.
    Ok(seed % 1_000_000)
}

fn plan(args: &Args, seed: u64, stage: &Stage) -> Plan {
    let mut plan = Plan::new(stage.service(), stage.simulator(), stage.tenants());
    plan.seed = seed;
    plan.orders = args.orders;
    plan.pace = Pace {
        deadline: Duration::from_secs(60 + u64::from(args.orders) / 4),
        expiry_short: Duration::from_secs(3),
        ..Pace::default()
    };
    plan.marks = vec![0.4];
    plan
}

/// Attacks, and kills the service at each mark.
async fn storm(
    plan: Plan,
    merchant: &Merchant,
    stage: &mut Stage,
    bar: Bar,
) -> anyhow::Result<hapax_storm::Report> {
    let (marks, mut killing) = mpsc::unbounded_channel();
    let control = Control::new();
    let seen = bar.clone();
    let attack = hapax_storm::run(plan, merchant, &control, move |progress| match progress {
        // The stage is gone only when the storm is over.
        Progress::Mark { .. } => drop(marks.send(())),
        progress => seen.follow(progress),
    });
    let trouble = Arc::new(Mutex::new(None));
    let killer = async {
        while killing.recv().await.is_some() {
            bar.say("kill -9 of the service");
            if let Err(error) = stage.kill_and_restart(DEAD).await {
                *trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                control.stop();
                return;
            }
        }
    };
    let (report, ()) = tokio::join!(attack, killer);
    if let Some(error) = trouble.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    Ok(report?)
}

/// Waits until nothing is under way any more. What is still under way then is for the audit.
async fn rest(stage: &Stage) -> anyhow::Result<()> {
    let give_up_at = stage::now() + REST_MAX;
    while audit::is_busy(stage).await? && stage::now() < give_up_at {
        stage::pause(REST_PAUSE).await;
    }
    Ok(())
}
