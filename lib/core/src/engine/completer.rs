//! Drives abandoned operations onward: whoever died left a recovery point, and somebody must
//! finish.
//!
//! Invariant: the completer owns nothing that a claim did not give it; two of them on one store
//! never drive one record at once (`two_completers_drive_a_record_once`).

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, Either, select};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Begin, Hapax, Lease, Operation};
use crate::{error::Error, id::Identity, record::Status, store::Scan};

/// Records of one page: one round trip finds enough to do.
const PAGE_ROWS: u16 = 100;
/// Pages of one sweep: a backlog longer than this goes on in the next one.
const PAGES_MAX: u32 = 100;
/// Records driven at the same time, so that a backlog after an outage does not starve fresh work.
const AT_ONCE: usize = 16;

/// Goes on with an abandoned operation: the lease holds the recovery point, the identity says
/// what it was about.
pub trait Resume: Send + Sync + 'static {
    /// Does what is left and ends the lease. A dropped lease comes back at a later sweep.
    fn resume(&self, lease: Lease, identity: Identity) -> BoxFuture<'static, ()>;
}

impl<F> Resume for F
where
    F: Fn(Lease, Identity) -> BoxFuture<'static, ()> + Send + Sync + 'static,
{
    fn resume(&self, lease: Lease, identity: Identity) -> BoxFuture<'static, ()> {
        self(lease, identity)
    }
}

/// Sweeps for abandoned records of the operations that it can resume.
pub struct Completer {
    hapax: Hapax,
    routes: Vec<(Operation, Arc<dyn Resume>)>,
    period: Duration,
}

impl Completer {
    /// A completer that sweeps every `period`.
    pub fn new(hapax: Hapax, period: Duration) -> Self {
        Self { hapax, routes: Vec::new(), period }
    }

    /// Resumes abandoned records of `operation` with `resume`.
    #[must_use]
    pub fn on(mut self, operation: Operation, resume: impl Resume) -> Self {
        self.routes.push((operation, Arc::new(resume)));
        self
    }

    /// Sweeps until `stop` is cancelled, then waits for what it has begun.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            if let Err(error) = self.sweep().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a sweep for abandoned operations failed"
                );
            }
            // A sweep is over before this: dropping either side loses nothing.
            let pause = self.hapax.shared.clock.sleep(self.period);
            let stopped = std::pin::pin!(stop.cancelled());
            if let Either::Left(_) = select(stopped, pause).await {
                return;
            }
        }
    }

    /// Drives every abandoned record once and says how many it got hold of.
    ///
    /// # Errors
    /// Those of the store's scan. What was begun before is finished first.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(AT_ONCE)));
        let mut driven = 0;
        let mut failure = None;
        for (operation, resume) in &self.routes {
            for status in [Status::Abandoned, Status::Unknown] {
                match self.sweep_one(operation, resume, status, &tasks, &places).await {
                    Ok(count) => driven += count,
                    Err(error) => failure = Some(error),
                }
            }
        }
        tasks.close();
        tasks.wait().await;
        failure.map_or(Ok(driven), Err)
    }

    async fn sweep_one(
        &self,
        operation: &Operation,
        resume: &Arc<dyn Resume>,
        status: Status,
        tasks: &TaskTracker,
        places: &Arc<Semaphore>,
    ) -> Result<usize, Error> {
        let mut driven = 0;
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let root = operation.declared.root.clone();
            let scan =
                Scan { operation: Some(root), status: Some(status), after, limit: PAGE_ROWS };
            let page = self.hapax.shared.store.scan(scan).await;
            let page = page.map_err(|fault| Error::away("scan for abandoned records", fault))?;
            for record in page.records {
                let identity = record.identity;
                let Ok(place) = Arc::clone(places).acquire_owned().await else { continue };
                match operation.resume(identity.clone()).begin().await {
                    Ok(Begin::Run(lease) | Begin::Verify(lease)) => {
                        driven += 1;
                        let resumed = resume.resume(lease, identity);
                        tasks.spawn(async move {
                            resumed.await;
                            drop(place);
                        });
                    }
                    // Somebody else has it, or it waits for its quiet time or for a person.
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "an abandoned record was not claimed"
                        );
                    }
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(driven)
    }
}

impl std::fmt::Debug for Completer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.routes.iter().map(|(operation, _)| operation.name()).collect();
        f.debug_struct("Completer").field("operations", &names).finish_non_exhaustive()
    }
}
