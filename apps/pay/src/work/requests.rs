//! Writes the journal of requests, in batches and behind the answers.
//!
//! It is for analysis and decides nothing: what a kill catches in memory is missing in it, and
//! what does not fit into memory is counted and left out.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::{
    db::{
        conn,
        requests::{self, Request},
    },
    error::Error,
    flow::Desk,
};

/// Requests that wait to be written: some seconds of a busy service.
const WAITING_MAX: usize = 65_536;
/// Requests of one statement.
const BATCH_MAX: usize = 1_000;

/// Requests that were answered and are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<Vec<Request>>);

impl Requests {
    /// Notes a request; writing follows.
    pub(crate) fn note(&self, request: Request) {
        // Pushing leaves nothing half done.
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX {
            waiting.push(request);
        } else {
            metrics::counter!("hapax_pay_requests_left_out_total").increment(1);
        }
    }

    fn take(&self) -> Vec<Request> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes until `stop` is cancelled. What is answered after that is left to [`flush`].
pub(super) async fn run(desk: Arc<Desk>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        flush(&desk).await;
        desk.pause_unless(desk.config.periods.sweep.0, &stop).await;
    }
}

/// Writes what waits.
pub(crate) async fn flush(desk: &Desk) {
    if let Err(error) = write(desk).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "requests were not written down");
    }
}

async fn write(desk: &Desk) -> Result<(), Error> {
    let waiting = desk.requests.take();
    for batch in waiting.chunks(BATCH_MAX) {
        let (batch, now) = (batch.to_vec(), desk.now().await?);
        desk.sql
            .write("requests.write", async move |mut tx| {
                requests::insert(conn(&mut tx), &batch, now).await
            })
            .await?;
    }
    Ok(())
}
