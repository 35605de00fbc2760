//! Scheduled jobs, of which each due time has one effect.
//!
//! A run is a claim of the operation `job.<name>` with the due time as its business key, so that
//! restarts, double scheduling and any number of instances all meet at one record. The due time
//! comes from the store's clock; the clock of the process only wakes us.
//!
//! Invariant: a due time that was run is never run again, and one that was begun and not finished
//! is taken over as its class allows (`two_instances_run_each_due_time_once`,
//! `a_run_whose_instance_died_is_taken_over`).

use std::{cmp, fmt, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{Begin, Call, End, Hapax, Lease, Operation, Policy, Unobserved, Work},
    error::{Error, Kind},
    id::{BusinessKey, OperationName, Tenant},
    invalid::Invalid,
    message::Backoff,
    outcome::Outcome,
    rest::stopped_within,
    store::{Found, Scan},
    time::{Clock, Timestamp},
    witness::Witness,
};

/// Missed runs that may be caught up with; more is a backlog for a person to judge.
pub const CATCH_UP_MAX: u32 = 1_000;

/// Shortest period: below this the claims are the work.
const PERIOD_MIN: Duration = Duration::from_millis(10);
/// The store's clock is read at least this often, whatever the period: it may be set.
const CHECK_MAX: Duration = Duration::from_secs(60);
/// Pauses after a run that failed, or a store that did not answer.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// When a job is due, and what becomes of runs that nobody made.
///
/// ```
/// use std::time::Duration;
/// use hapax_core::{Timestamp, jobs::{Missed, Schedule}};
///
/// const HOUR: Duration = Duration::from_secs(3600);
/// // Every day at 02:30 UTC; after an outage, up to a week of days is made up for.
/// let daily = Schedule::every(HOUR * 24)?
///     .offset(HOUR * 5 / 2)
///     .missed(Missed::CatchUp { max: 7 });
/// let noon = Timestamp::from_millis(43_200_000);
/// assert_eq!(daily.due(noon), Timestamp::from_millis(9_000_000));
/// # Ok::<_, hapax_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Schedule {
    period: Duration,
    offset: Duration,
    missed: Missed,
}

/// What becomes of due times that passed while nobody ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "left out or made up for")]
pub enum Missed {
    /// Only the latest due time is run, however late; earlier ones are left out.
    Skip,
    /// The latest ones are run, oldest first. A job that never ran has missed nothing.
    CatchUp {
        /// How many before the latest, at most [`CATCH_UP_MAX`].
        max: u32,
    },
}

impl Schedule {
    /// Due at every whole multiple of `period` since 1970-01-01 UTC, by the store's clock.
    ///
    /// # Errors
    /// [`Invalid`] if the period is under 10 ms or not whole milliseconds.
    pub fn every(period: Duration) -> Result<Self, Invalid> {
        if period < PERIOD_MIN || period != Duration::from_millis(whole(period)) {
            let rule = "must be whole milliseconds, and 10 or more of them";
            return Err(Invalid::new("job period", rule));
        }
        Ok(Self { period, offset: Duration::ZERO, missed: Missed::Skip })
    }

    /// Due this long after each multiple.
    pub fn offset(self, offset: Duration) -> Self {
        Self { offset, ..self }
    }

    /// What becomes of runs that nobody made; they are left out unless said otherwise.
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// The latest due time that is not after `now`.
    pub fn due(&self, now: Timestamp) -> Timestamp {
        let (period, offset) = (self.period_ms(), crate::millis(self.offset));
        let since = now.as_millis().saturating_sub(offset);
        Timestamp::from_millis(since - since.rem_euclid(period) + offset)
    }

    fn next(&self, due: Timestamp) -> Timestamp {
        due.plus(self.period)
    }

    /// The due time that is next when everything before `from` is dealt with.
    fn pick(&self, from: Timestamp, latest: Timestamp) -> Timestamp {
        match self.missed {
            _ if from > latest => from,
            Missed::Skip => latest,
            Missed::CatchUp { max } => cmp::max(from, self.before(latest, max)),
        }
    }

    fn before(&self, due: Timestamp, count: u32) -> Timestamp {
        let back = self.period_ms().saturating_mul(i64::from(count));
        Timestamp::from_millis(due.as_millis().saturating_sub(back))
    }

    fn period_ms(&self) -> i64 {
        crate::millis(self.period)
    }
}

fn whole(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What is done when it is due.
pub trait Job: Send + Sync + 'static {
    /// Does the work of one due time.
    ///
    /// `work.attempt()` above 1 says that an earlier attempt died: an operation that is
    /// [`Queryable`](crate::Effect::Queryable) asks its receiver first. `work.lost()` is
    /// cancelled when another instance may take over.
    fn run(&self, due: Timestamp, work: Work) -> BoxFuture<'static, End<()>>;
}

impl<F> Job for F
where
    F: Fn(Timestamp, Work) -> BoxFuture<'static, End<()>> + Send + Sync + 'static,
{
    fn run(&self, due: Timestamp, work: Work) -> BoxFuture<'static, End<()>> {
        self(due, work)
    }
}

/// What happened to a due time, for metrics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// We ran it.
    Ran {
        /// Which job.
        operation: OperationName,
        /// For which due time.
        due: Timestamp,
    },
    /// It was run before, or by another instance.
    Repeated {
        /// Which job.
        operation: OperationName,
        /// For which due time.
        due: Timestamp,
    },
    /// Due times were left out.
    Skipped {
        /// Which job.
        operation: OperationName,
        /// How many.
        count: u64,
    },
    /// The run had no effect, or nobody knows; it is tried again as its class allows.
    Failed {
        /// Which job.
        operation: OperationName,
        /// For which due time.
        due: Timestamp,
    },
    /// Nobody may run it any more; a person must look.
    Held {
        /// Which job.
        operation: OperationName,
        /// For which due time.
        due: Timestamp,
    },
    /// We lost the lease while we ran it.
    LeaseLost {
        /// Which job.
        operation: OperationName,
        /// For which due time.
        due: Timestamp,
    },
}

/// The jobs of this instance.
#[must_use = "jobs do not run until they are told to"]
pub struct Jobs {
    hapax: Hapax,
    tenant: Tenant,
    witness: Arc<dyn Witness<Happening>>,
    plans: Vec<Plan>,
}

#[derive(Clone)]
struct Plan {
    operation: Operation,
    schedule: Schedule,
    job: Arc<dyn Job>,
}

impl Jobs {
    /// Jobs that claim under the name of `tenant`, such as "system".
    pub fn new(hapax: Hapax, tenant: Tenant) -> Self {
        Self { hapax, tenant, witness: Arc::new(Unobserved), plans: Vec::new() }
    }

    /// Who counts.
    pub fn witness(self, witness: impl Witness<Happening>) -> Self {
        Self { witness: Arc::new(witness), ..self }
    }

    /// Adds the job `name`, whose policy declares the class of its effect.
    ///
    /// # Errors
    /// Those of [`Hapax::declare`]; [`Kind::Invalid`] if a run were forgotten while its due time
    /// can still be asked for, or if more than [`CATCH_UP_MAX`] runs were to be caught up with.
    pub fn on(
        mut self,
        name: &str,
        schedule: Schedule,
        policy: Policy,
        job: impl Job,
    ) -> Result<Self, Error> {
        let asked_for = match schedule.missed {
            Missed::Skip => 0,
            Missed::CatchUp { max } if max > CATCH_UP_MAX => {
                let rule = "catches up with more than 1000 runs; lower `max`";
                return Err(Invalid::new("job schedule", rule).into());
            }
            Missed::CatchUp { max } => max,
        };
        let least = schedule.period.saturating_mul(asked_for.saturating_add(2));
        if policy.retention.keep.is_some_and(|keep| keep < least) {
            let rule = "forgets a run while its due time can still be asked for; raise `retain`";
            return Err(Invalid::new("job policy", rule).into());
        }
        let operation = self.hapax.declare(&format!("job.{name}"), policy)?;
        self.plans.push(Plan { operation, schedule, job: Arc::new(job) });
        Ok(self)
    }

    /// Runs each job when it is due until `stop` is cancelled, then waits for those that run.
    ///
    /// # Cancellation
    /// Dropped instead of stopped, it is as if the instance had died: another one takes over.
    pub async fn run(self, stop: CancellationToken) {
        let mut running = JoinSet::new();
        for plan in self.plans {
            let runner = Runner {
                clock: self.hapax.clock(),
                hapax: self.hapax.clone(),
                tenant: self.tenant.clone(),
                witness: Arc::clone(&self.witness),
                plan,
                next: None,
                failures: 0,
            };
            running.spawn(runner.run(stop.clone()));
        }
        while running.join_next().await.is_some() {}
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.plans.iter().map(|plan| plan.operation.name().as_str()).collect();
        f.debug_struct("Jobs").field("operations", &names).finish_non_exhaustive()
    }
}

/// One job of this instance.
struct Runner {
    hapax: Hapax,
    tenant: Tenant,
    clock: Arc<dyn Clock>,
    witness: Arc<dyn Witness<Happening>>,
    plan: Plan,
    /// Everything before is dealt with; `None` before the first look.
    next: Option<Timestamp>,
    failures: u32,
}

/// What to do after a step.
enum Then {
    /// Look at once.
    Again,
    /// Nothing is due for this long by the store's clock, counted from before it was read.
    Wait(Duration),
    /// Try the same due time again.
    Retry,
    /// Told to stop.
    Stop,
}

impl Runner {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let asked_at = self.clock.now();
            let then = self.step(&stop).await.unwrap_or_else(|error| {
                let job = self.plan.operation.name();
                tracing::warn!(
                    %job,
                    error = &error as &dyn std::error::Error,
                    "a job could not ask its store"
                );
                Then::Retry
            });
            self.failures = match then {
                Then::Retry => self.failures.saturating_add(1),
                Then::Again | Then::Wait(_) | Then::Stop => 0,
            };
            let rest = match then {
                Then::Again => continue,
                Then::Stop => return,
                Then::Wait(span) => {
                    let wake_at = asked_at + cmp::min(span, CHECK_MAX);
                    wake_at.saturating_duration_since(self.clock.now())
                }
                Then::Retry => {
                    let period = self.plan.schedule.period;
                    let first = cmp::min(period, RETRY_MIN);
                    Backoff::new(first, cmp::min(period, RETRY_MAX)).pause(self.failures, 0)
                }
            };
            if stopped_within(&stop, self.clock.as_ref(), rest).await {
                return;
            }
        }
    }

    /// Does what is due next, if it has come.
    async fn step(&mut self, stop: &CancellationToken) -> Result<Then, Error> {
        if stop.is_cancelled() {
            return Ok(Then::Stop);
        }
        let schedule = self.plan.schedule;
        let now = self.look(schedule.due(Timestamp::default())).await?.now;
        let latest = schedule.due(now);
        let from = match self.next {
            Some(next) => next,
            None => self.beginning(latest).await?,
        };
        let due = schedule.pick(from, latest);
        self.skipped(from, due);
        self.next = Some(due);
        if due > latest {
            return Ok(Then::Wait(due.since(now)));
        }
        // Dropping a call that has not begun leaves no claim.
        let call = self.call(due)?;
        let begun = match select(pin!(call.begin()), pin!(stop.cancelled())).await {
            Either::Left((begun, _)) => begun?,
            Either::Right(_) => return Ok(Then::Stop),
        };
        let then = match begun {
            Begin::Run(lease) | Begin::Verify(lease) => self.work(due, lease).await,
            Begin::Replay(_) | Begin::Expired => {
                self.see(|operation| Happening::Repeated { operation, due });
                Then::Again
            }
            Begin::Held | Begin::Mismatch => {
                self.see(|operation| Happening::Held { operation, due });
                Then::Again
            }
            Begin::Busy { .. } => return Ok(Then::Retry),
        };
        if let Then::Again = then {
            self.next = Some(schedule.next(due));
        }
        Ok(then)
    }

    fn skipped(&self, from: Timestamp, due: Timestamp) {
        let gap = whole(due.since(from));
        let count = gap / cmp::max(whole(self.plan.schedule.period), 1);
        if count > 0 && self.next.is_some() {
            self.see(|operation| Happening::Skipped { operation, count });
        }
    }

    /// A job that never ran begins with the latest due time; one that did goes on where anybody
    /// left off.
    async fn beginning(&self, latest: Timestamp) -> Result<Timestamp, Error> {
        let Missed::CatchUp { max } = self.plan.schedule.missed else { return Ok(latest) };
        for back in 0..=max {
            let due = self.plan.schedule.before(latest, back);
            let found = self.look(due).await?;
            if found.record.is_some_and(|record| !record.is_reusable(found.now)) {
                return Ok(due);
            }
        }
        let scan = Scan {
            operation: Some(self.plan.operation.root().clone()),
            status: None,
            after: None,
            limit: 1,
        };
        let page = self.hapax.store().scan(scan).await;
        let page = page.map_err(|fault| Error::away("look for earlier runs", fault))?;
        let has_run = !page.records.is_empty();
        Ok(if has_run { self.plan.schedule.before(latest, max) } else { latest })
    }

    async fn look(&self, due: Timestamp) -> Result<Found, Error> {
        self.call(due)?.look().await
    }

    fn call(&self, due: Timestamp) -> Result<Call, Error> {
        let key = BusinessKey::parse(&due.as_millis().to_string())?;
        let operation = &self.plan.operation;
        let call = operation.business(self.tenant.clone(), key);
        // Whoever runs it ends it or dies within a lease; then it is ours to finish.
        Ok(call.wait(operation.policy().lease))
    }

    async fn work(&self, due: Timestamp, lease: Lease) -> Then {
        let (job, view) = (Arc::clone(&self.plan.job), lease.work());
        // The future is not polled again after a panic, and the lease is outside of it.
        let ended = AssertUnwindSafe(async { job.run(due, view).await }).catch_unwind().await;
        if lease.lost().is_cancelled() {
            self.see(|operation| Happening::LeaseLost { operation, due });
        }
        let told = match ended {
            Ok(End::Done(())) => match lease.complete(Outcome::Value(Bytes::new())).await {
                Ok(()) => {
                    self.see(|operation| Happening::Ran { operation, due });
                    return Then::Again;
                }
                told => told,
            },
            Ok(End::NoEffect) => lease.release().await,
            Ok(End::Unknown(why)) => lease.unknown(why).await,
            // Dropped here, the lease is handed on by its class.
            Err(_) => Err(Error::new(Kind::Panicked, "run the job")),
        };
        if let Err(error) = told {
            let job = self.plan.operation.name();
            tracing::warn!(
                %job,
                error = &error as &dyn std::error::Error,
                "a run did not end well"
            );
        }
        self.see(|operation| Happening::Failed { operation, due });
        Then::Retry
    }

    fn see(&self, event: impl FnOnce(OperationName) -> Happening) {
        self.witness.see(&event(self.plan.operation.name().clone()));
    }
}

#[cfg(test)]
mod tests;
