//! What the loops of this crate tell about themselves: plain events for metrics and logs.

use crate::engine::Unobserved;

/// Sees the events of one room: locks, relay, jobs, reconciler or purge. Called inline: count and
/// return.
pub trait Witness<E>: Send + Sync + 'static {
    /// Something happened.
    fn see(&self, event: &E);
}

impl<E> Witness<E> for Unobserved {
    fn see(&self, _: &E) {}
}

impl<E, F> Witness<E> for F
where
    F: Fn(&E) + Send + Sync + 'static,
{
    fn see(&self, event: &E) {
        self(event);
    }
}
