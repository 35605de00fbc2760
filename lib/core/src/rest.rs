//! Waiting on the injected clock that ends early when there is a reason.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::time::Clock;

/// No loop turns faster than this, whatever it was told: a period of zero would be a busy loop.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(1);
/// No lease is shorter than this: a renewal or a send at one third of it would be lost in the
/// noise of a busy machine.
pub(crate) const LEASE_MIN: Duration = Duration::from_millis(30);

/// Rests for `span`. `true`: told to stop before it was over.
pub(crate) async fn stopped_within(
    stop: &CancellationToken,
    clock: &dyn Clock,
    span: Duration,
) -> bool {
    // A flag and a timer: dropping either loses nothing.
    matches!(select(pin!(stop.cancelled()), clock.sleep(span)).await, Either::Left(_))
}

/// Runs `work` for at most `span`; it is dropped where it stands when that is over.
pub(crate) async fn within<F: Future>(
    clock: &dyn Clock,
    span: Duration,
    work: F,
) -> Option<F::Output> {
    match select(pin!(work), clock.sleep(span)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
