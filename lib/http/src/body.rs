//! Request bodies: read whole, within bounds of size, time and memory.
//!
//! Invariant: never more than the bound of one request and the budget of all requests is in
//! memory (`a_body_of_a_gibibyte_is_refused_after_a_mebibyte`,
//! `bodies_beyond_the_budget_are_refused`).

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use axum::BoxError;
use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use http_body::Body;
use http_body_util::BodyExt;

use crate::problem::{Code, Problem};
use hapax_core::Clock;

/// Largest body of one request, by default: JSON of a business operation is far below it.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Time for a body to arrive, by default: a megabyte over a bad mobile line.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of all bodies of one operation that are held at a time, by default.
pub(crate) const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What is still read of a body after its request was refused, so that a client which writes
/// before it reads sees the answer and keeps its connection. Beyond this the connection is closed.
const DRAIN_BYTES_MAX: u64 = 256 * 1024;
/// How long that may take.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(500);

/// The memory that all bodies of an operation share.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), bytes_max })
    }
}

/// A part of the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    fn nothing(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.budget.bytes_max {
            let refusal = Problem::new(Code::Overloaded).retry_after(Duration::from_secs(1));
            return Err(refusal);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bounds for one body.
pub(crate) struct Limits<'a> {
    pub(crate) bytes_max: usize,
    pub(crate) time_max: Duration,
    pub(crate) budget: &'a Arc<Budget>,
    pub(crate) clock: &'a dyn Clock,
}

impl Limits<'_> {
    /// Reads the body; a body of one frame is not copied.
    ///
    /// # Errors
    /// `body_too_large` (before the first read if the length is known), `body_too_slow`,
    /// `body_broken` or `overloaded`.
    ///
    /// # Cancellation
    /// Safe: nothing has begun.
    pub(crate) async fn read<B>(&self, body: &mut B) -> Result<(Bytes, Held), Problem>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let mut held = Held::nothing(self.budget);
        if body.is_end_stream() {
            return Ok((Bytes::new(), held));
        }
        if body.size_hint().lower() > u64::try_from(self.bytes_max).unwrap_or(u64::MAX) {
            return Err(self.too_large());
        }
        let bytes = self.in_time(self.collect(body, &mut held)).await?;
        Ok((bytes, held))
    }

    async fn collect<B>(&self, body: &mut B, held: &mut Held) -> Result<Bytes, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let mut first = Bytes::new();
        let mut more = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|cause| {
                let cause: BoxError = cause.into();
                tracing::debug!(
                    error = &*cause as &dyn std::error::Error,
                    "a request body broke off"
                );
                Problem::new(Code::BodyBroken)
            })?;
            // Trailers are no part of the request that we compare.
            let Ok(chunk) = frame.into_data() else { continue };
            held.grow(chunk.len())?;
            if held.bytes > self.bytes_max {
                return Err(self.too_large());
            }
            if first.is_empty() {
                first = chunk;
            } else {
                if more.is_empty() {
                    more.extend_from_slice(&first);
                }
                more.extend_from_slice(&chunk);
            }
        }
        Ok(if more.is_empty() { first } else { more.freeze() })
    }

    fn too_large(&self) -> Problem {
        let detail =
            format!("The body is larger than {} bytes; send a smaller one.", self.bytes_max);
        Problem::new(Code::BodyTooLarge).detail(detail)
    }

    /// A body that is there already costs no timer.
    async fn in_time<T>(
        &self,
        reading: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let mut reading = pin!(reading);
        let first = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
        if let Poll::Ready(read) = first {
            return read;
        }
        // Both may be dropped: nothing has begun.
        match select(reading, self.clock.sleep(self.time_max)).await {
            Either::Left((read, _)) => read,
            Either::Right(_) => Err(Problem::new(Code::BodyTooSlow)),
        }
    }
}

/// What is left of a body after its request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: the connection can go on.
    Read,
    /// Something: the connection must be closed.
    Unread,
}

/// Reads on for a while and throws away.
pub(crate) async fn drain<B>(mut body: B, clock: &dyn Clock) -> Rest
where
    B: Body<Data = Bytes> + Unpin,
{
    let too_long = |body: &B| body.size_hint().lower() > DRAIN_BYTES_MAX;
    if body.is_end_stream() {
        return Rest::Read;
    }
    if too_long(&body) {
        return Rest::Unread;
    }
    let reading = pin!(async {
        let mut read: u64 = 0;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            read += u64::try_from(length).unwrap_or(u64::MAX);
            if read > DRAIN_BYTES_MAX {
                return Rest::Unread;
            }
        }
        Rest::Read
    });
    // Both may be dropped: the answer does not depend on it.
    match select(reading, clock.sleep(DRAIN_TIME_MAX)).await {
        Either::Left((rest, _)) => rest,
        Either::Right(_) => Rest::Unread,
    }
}
