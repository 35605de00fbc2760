//! The attack: submits in waves, then each order's story, then everything once more.

mod create;
mod ground;
mod last;
mod ledger;
mod persist;
mod probe;
mod refund;
mod repeat;
mod rest;
mod settle;
mod story;
mod wave;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use self::ground::Ground;
use crate::client::{Call, Client};
use crate::clock::{Clock, Control, Until};
use crate::error::{Error, Kind};
use crate::merchant::Merchant;
use crate::plan::Plan;
use crate::progress::{Meter, Progress};
use crate::report::{Report, Verdict};
use crate::script::Script;
use crate::simulator::Simulator;

/// How long the service may take to be there at the start.
const START: Duration = Duration::from_secs(15);

/// Pause between two looks whether it is there.
const START_PAUSE: Duration = Duration::from_millis(50);

/// Stories that run at once. Each takes some kilobytes; most of them wait.
const STORIES_MAX: usize = 2_000;

/// Attacks the service as planned and reports what it saw.
///
/// The service may be killed and started again on the same address meanwhile; the attack retries
/// with the same keys. Faults of the channel are set at the start and taken away at the end.
/// `events` is called from the stories themselves: it must not block.
///
/// # Errors
/// `Kind::Plan` or `Kind::Target` if the plan cannot be used, `Kind::Unreachable` if service or
/// simulator are not there at the start, `Kind::Simulator` if it refuses the faults, `Kind::Broken`
/// if the attacker itself fails. What is wrong with the service is no error but a finding.
///
/// # Cancellation
/// Dropping the future ends the attack at once; [`Control::stop`] ends it with a report.
pub async fn run(
    plan: Plan,
    merchant: &Merchant,
    control: &Control,
    events: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<Report, Error> {
    let start = Clock.now();
    let script = plan.script()?;
    let (service, channel) = plan.targets()?;
    merchant.expect(&plan.tenants);
    let until = Until::new(plan.pace.deadline, control.clone());
    let client = Client::new(plan.pace.requests, plan.pace.request_timeout)?;
    let strings = Client::new(plan.pace.requests, plan.pace.request_timeout)?;
    let simulator = Simulator::new(channel, strings, until.clone());
    let meter = Meter::new(plan.orders, &plan.marks, events);
    let ground = Arc::new(Ground {
        seed: plan.seed,
        tenants: plan.tenants,
        service,
        client,
        simulator,
        merchant: merchant.view(),
        book: crate::book::Book::default(),
        settled: std::sync::Mutex::default(),
        meter,
        until,
    });
    wait_for(&ground).await?;
    ground.simulator.arm(&plan.mischief).await?;
    let waves = usize::try_from(plan.pace.waves).unwrap_or(1);
    let played = play(&ground, &script, waves).await;
    last::look(&ground).await;
    ground.simulator.heal().await?;
    played.map_err(|error| Error::new(Kind::Broken, "play a story").because(error))?;
    Ok(report(&ground, &script, Clock.now().saturating_duration_since(start)))
}

/// Waits until the service answers at all.
async fn wait_for(ground: &Ground) -> Result<(), Error> {
    let call = ground.call("live", reqwest::Method::GET, &["livez"]);
    let start = Until::new(START, Control::new());
    let mut last = String::new();
    while !start.is_over() {
        match ground.client.send(&call, None).await {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => last = answer.quote(),
            Err(silence) => last = silence.describe(),
        }
        start.pause(START_PAUSE).await;
    }
    let Call { url, .. } = call;
    let hint = "start the service first, or give its right address";
    Err(Error::new(Kind::Unreachable, format!("reach the service at {url}: {last}; {hint}")))
}

/// Plays all stories; this many of them submit at once.
async fn play(ground: &Arc<Ground>, script: &Script, waves: usize) -> Result<(), JoinError> {
    let waves = Arc::new(Semaphore::new(waves));
    let mut tasks = JoinSet::new();
    let probes = Arc::clone(ground);
    tasks.spawn(async move { probe::play(&probes).await });
    for order in &script.orders {
        // Fails only when the semaphore is closed, which nobody does.
        let place = Arc::clone(&waves).acquire_owned().await.ok();
        while tasks.len() >= STORIES_MAX
            && let Some(ended) = tasks.join_next().await
        {
            ended?;
        }
        if ground.until.is_over() {
            break;
        }
        let (ground, order) = (Arc::clone(ground), order.clone());
        tasks.spawn(async move { Box::pin(story::play(&ground, &order, place)).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

fn report(ground: &Ground, script: &Script, took: Duration) -> Report {
    for complaint in ground.merchant.take_complaints() {
        let about = crate::book::About { tenant: &complaint.tenant, order_id: &complaint.order_id };
        ground.broken(complaint.rule, about, &complaint.evidence);
    }
    let notices = ground.merchant.counts();
    let mut contents = ground.book.contents();
    for line in &mut contents.rules {
        if line.rule.is_of_notices() {
            line.checked = std::cmp::max(notices.deliveries, line.broken);
        }
    }
    let orders = u32::try_from(script.orders.len()).unwrap_or(u32::MAX);
    let orders_ended = ground.meter.ended();
    let verdict = if contents.rules.iter().any(|line| line.broken > 0) {
        Verdict::Broken
    } else if orders_ended < orders {
        Verdict::Unfinished
    } else {
        Verdict::Held
    };
    Report {
        seed: ground.seed,
        verdict,
        orders,
        orders_ended,
        stories: script.stories(),
        rules: contents.rules,
        findings: contents.findings,
        findings_left_out: contents.left_out,
        counts: contents.counts,
        notices,
        latency: contents.latency,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}
