//! What a handler holds of its guarded run.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response};

use crate::{layer::Settings, outcome::Progress};
use hapax_core::{Lease, Outcome, RequestKey, Work};

/// What a handler behind the layer holds: its attempt, and how to close the record itself.
///
/// Found in the extensions of every guarded request, and extracted by axum handlers. Everything of
/// [`Work`] is there: attempt, fence, child keys, checkpoints, and the token that is cancelled
/// when the lease is lost.
#[derive(Clone)]
pub struct Idempotent(Arc<Inner>);

struct Inner {
    work: Work,
    lease: Mutex<Option<Lease>>,
    progress: AtomicU8,
    settings: Arc<Settings>,
    key: RequestKey,
    request_id: Option<HeaderValue>,
}

const UNTOLD: u8 = 0;
const REFUSED: u8 = 1;
const ENTERED: u8 = 2;

impl Idempotent {
    pub(crate) fn new(
        lease: Lease,
        settings: &Arc<Settings>,
        key: RequestKey,
        request_id: Option<HeaderValue>,
    ) -> Self {
        Self(Arc::new(Inner {
            work: lease.work(),
            lease: Mutex::new(Some(lease)),
            progress: AtomicU8::new(UNTOLD),
            settings: Arc::clone(settings),
            key,
            request_id,
        }))
    }

    /// Takes over the closing of the record, to seal it in the handler's own transaction.
    ///
    /// The layer then stores nothing: close the lease with [`outcome`](Self::outcome) of the very
    /// response that is returned. `None` if it was taken before.
    pub fn take_lease(&self) -> Option<Lease> {
        // Taking leaves nothing half done.
        self.0.lease.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// `response` as the layer stores it, so that a repeat is given it again.
    pub fn outcome(&self, response: &Response<Bytes>) -> Outcome {
        let settings = &self.0.settings;
        let about = settings.about(self.0.request_id.as_ref());
        about.whole(response, settings.operation.outcome_bytes_max())
    }

    /// The answer that a repeat gets while the work goes on, for a handler that cannot wait for
    /// the end of its own work.
    ///
    /// Give it with [`Ended::Unknown`](crate::Ended::Unknown), so that the next attempt goes on.
    pub fn still_at_work(&self, retry_after: Duration) -> Response<Body> {
        self.0.settings.still_at_work(&self.0.key, retry_after)
    }

    /// Says that the work begins: from now on a 4xx is an answer and no refusal.
    ///
    /// [`Checked`](crate::Checked) does it for axum handlers.
    pub fn enter(&self) {
        self.0.progress.store(ENTERED, Ordering::Release);
    }

    /// Says that the request was refused before any work: whatever is answered frees the key.
    pub fn refuse(&self) {
        self.0.progress.store(REFUSED, Ordering::Release);
    }

    pub(crate) fn progress(&self) -> Progress {
        match self.0.progress.load(Ordering::Acquire) {
            REFUSED => Progress::Refused,
            ENTERED => Progress::Entered,
            _ => Progress::Untold,
        }
    }
}

impl std::ops::Deref for Idempotent {
    type Target = Work;

    fn deref(&self) -> &Work {
        &self.0.work
    }
}

impl fmt::Debug for Idempotent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Idempotent({:?})", self.0.work)
    }
}
