//! Finding out what a dead attempt did, before anything is done again.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};

use hapax_core::Work;

/// Asks the receiver of a queryable effect what became of it.
///
/// Called with the request of the client that asks again, and under a lease of its own.
pub trait Verify: Send + Sync + 'static {
    /// Asks, seals the old attempt, and says what was found.
    fn verify(&self, work: Work, request: Request<Bytes>) -> BoxFuture<'static, Verdict>;
}

impl<F> Verify for F
where
    F: Fn(Work, Request<Bytes>) -> BoxFuture<'static, Verdict> + Send + Sync + 'static,
{
    fn verify(&self, work: Work, request: Request<Bytes>) -> BoxFuture<'static, Verdict> {
        self(work, request)
    }
}

/// What the receiver says about a dead attempt.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "it happened, it cannot happen any more, or neither")]
pub enum Verdict {
    /// It happened; this is the answer that the first client should have had. Stored and given.
    Happened(Response<Bytes>),
    /// It did not, and it cannot any more: the handler runs.
    Sealed,
    /// The receiver does not say. The client is told to ask again later.
    Unclear,
}
