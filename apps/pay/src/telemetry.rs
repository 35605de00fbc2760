//! Events of the engine and of locks, as metrics.

use hapax::{Happening, Id, Observer, OperationName, Witness, lock};

/// Counts what happens to requests.
pub(crate) struct Counter;

impl Observer for Counter {
    fn observe(&self, operation: &OperationName, _: Id, event: &Happening) {
        let operation = operation.as_str().to_owned();
        let labels = [("operation", operation), ("outcome", event.as_str().to_owned())];
        metrics::counter!("hapax_requests_total", &labels).increment(1);
        if let Happening::Completed { took } = event {
            metrics::histogram!("hapax_request_seconds").record(took.as_secs_f64());
        }
    }
}

/// Counts contention for locks.
pub(crate) struct Locks;

impl Witness<lock::Happening> for Locks {
    fn see(&self, event: &lock::Happening) {
        let word = match event {
            lock::Happening::Gained { .. } => "gained",
            lock::Happening::Contended => "contended",
            lock::Happening::GaveUp => "gave_up",
            lock::Happening::Released { .. } => "released",
            lock::Happening::Lost => "lost",
            lock::Happening::Failed => "failed",
            _ => "other",
        };
        metrics::counter!("hapax_locks_total", "event" => word).increment(1);
    }
}
