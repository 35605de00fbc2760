//! The owned run of a handler: from a lease to a closed record and an answer.
//!
//! Order: the handler answers, the record is closed, the answer goes out. So whoever has the
//! answer can rely on its being stored. An answer that streams, or is larger than the bound, is
//! closed as a tombstone before its first byte goes out.
//!
//! Invariant: once the lease is held nothing that a client does ends the run, and every end of
//! the handler (answer, error, panic) closes the record by the class of the operation
//! (`a_client_that_disconnects_never_cancels_the_work`, `a_panic_is_an_outcome`).

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{BoxError, body::Body, response::IntoResponse};
use bytes::Bytes;
use futures_util::{FutureExt, TryFutureExt};
use http::{HeaderValue, Request, Response, request};
use http_body::Body as HttpBody;
use tower::Service;

use crate::{
    body::Held,
    gather::{Gathered, gather},
    header,
    idempotent::Idempotent,
    key::SentKey,
    layer::Settings,
    outcome::{Ended, judge},
    problem::{Code, Problem},
    replay::{self, Stored},
    status,
    verify::Verdict,
};
use hapax_core::{Call, Error, Kind, Lease, Outcome, Status};

/// One guarded request on its way.
pub(crate) struct Guarded {
    pub(crate) settings: Arc<Settings>,
    pub(crate) call: Call,
    pub(crate) sent: SentKey,
    pub(crate) request_id: Option<HeaderValue>,
    #[expect(dead_code, reason = "the memory of the body, given back when the request is over")]
    pub(crate) held: Held,
}

impl Guarded {
    /// Does the work and closes the record.
    pub(crate) fn run<S, B, R>(
        self: Box<Self>,
        lease: Lease,
        inner: S,
        mut request: Request<B>,
    ) -> impl Future<Output = Result<Response<Body>, S::Error>>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: HttpBody<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let began_at = self.settings.operation.clock().now();
        let idempotent =
            Idempotent::new(lease, &self.settings, self.sent.key.clone(), self.request_id.clone());
        request.extensions_mut().insert(idempotent.clone());
        async move {
            // Nothing of it is used again after a panic.
            let working = async {
                let response = answer(inner, request).await?;
                Ok(self.judged(response, &idempotent).await)
            };
            let worked = AssertUnwindSafe(working).catch_unwind().await;
            let now = self.settings.operation.clock().now();
            self.settings.latency.learn(now.saturating_duration_since(began_at));
            match (worked, idempotent.take_lease()) {
                (Ok(Ok(Worked::Final(answer))), Some(lease)) => {
                    let stored = lease.complete(answer.outcome).await;
                    Ok(self.completed(stored, answer.response).await)
                }
                // Boxed, since it is rare and the size of every run.
                (Ok(worked), lease) => Box::pin(self.end(lease, worked)).await,
                (Err(_), lease) => Box::pin(self.end(lease, Ok(Worked::Broken))).await,
            }
        }
    }

    /// Closes the record of work that has no answer to keep.
    async fn end<E>(
        &self,
        lease: Option<Lease>,
        worked: Result<Worked, E>,
    ) -> Result<Response<Body>, E> {
        match worked {
            // The handler closed the record itself, with this very answer.
            Ok(Worked::Final(Gathered { response, .. })) => Ok(self.echo(response)),
            Ok(Worked::Other(ended, response)) => {
                self.close(lease, ended, &format!("the answer was {}", response.status())).await;
                Ok(self.echo(response))
            }
            Ok(Worked::Broken) => {
                let record = self.short();
                tracing::error!(%record, "a handler panicked or its answer broke off");
                self.close(lease, Ended::Unknown, "the handler broke off").await;
                Ok(self.problem(Problem::new(Code::HandlerFailed)))
            }
            Err(error) => {
                self.close(lease, Ended::Unknown, "the service failed").await;
                Err(error)
            }
        }
    }

    /// The handler's answer, with as much of its body as is stored.
    async fn judged(&self, mut response: Response<Body>, idempotent: &Idempotent) -> Worked {
        let declared = response.extensions_mut().remove::<Ended>();
        let ended = declared.unwrap_or_else(|| {
            judge(response.status(), idempotent.progress(), &self.settings.refusals)
        });
        if ended != Ended::Final {
            return Worked::Other(ended, response);
        }
        let about = self.settings.about(self.request_id.as_ref());
        let gathered = gather(&about, response, self.settings.operation.outcome_bytes_max()).await;
        gathered.map_or(Worked::Broken, Worked::Final)
    }

    /// Asks about a dead attempt, then gives its answer or does the work.
    pub(crate) async fn verify<S, B, R>(
        self: Box<Self>,
        lease: Lease,
        inner: S,
        parts: request::Parts,
        body: Bytes,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        B: From<Bytes>,
        R: HttpBody<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let verdict = match &self.settings.verify {
            Some(verifier) => {
                let asked = Request::from_parts(parts.clone(), body.clone());
                let work = lease.work();
                let verifying = AssertUnwindSafe(async { verifier.verify(work, asked).await });
                verifying.catch_unwind().await.unwrap_or(Verdict::Unclear)
            }
            None => Verdict::Unclear,
        };
        match verdict {
            Verdict::Sealed => {
                self.run(lease, inner, Request::from_parts(parts, body.into())).await
            }
            Verdict::Happened(response) => {
                let about = self.settings.about(self.request_id.as_ref());
                let bytes_max = self.settings.operation.outcome_bytes_max();
                let outcome = about.whole(&response, bytes_max);
                let response = self.stored(&outcome);
                let stored = lease.complete(outcome).await;
                Ok(self.completed(stored, response).await)
            }
            Verdict::Unclear => {
                self.report(lease.hand_on().await);
                Ok(self.held_back())
            }
        }
    }

    /// Says the last word of an attempt; `why` is for the operator.
    async fn close(&self, lease: Option<Lease>, ended: Ended, why: &str) {
        let Some(lease) = lease else { return };
        let closed = match ended {
            Ended::NoEffect => lease.release().await,
            Ended::Final | Ended::Unknown => lease.unknown(why).await,
        };
        self.report(closed);
    }

    /// Gives the answer that was to be stored, unless another attempt was faster.
    async fn completed(
        &self,
        stored: Result<(), Error>,
        response: Response<Body>,
    ) -> Response<Body> {
        match stored {
            Ok(()) => self.echo(response),
            Err(error) if error.kind() == Kind::Fenced => Box::pin(self.overtaken()).await,
            Err(error) => {
                tracing::error!(
                    record = %self.short(),
                    error = &error as &dyn std::error::Error,
                    "an answer is given that could not be stored"
                );
                let mut response = self.echo(response);
                let mark = HeaderValue::from_static("not-stored");
                response.headers_mut().insert(header::DEGRADED, mark);
                response
            }
        }
    }

    /// Another attempt took over while this one worked: its answer is the one answer.
    async fn overtaken(&self) -> Response<Body> {
        match self.call.look().await {
            Ok(found) => {
                let now = found.now;
                let completed = found.record.filter(|it| it.status(now) == Status::Completed);
                match completed.and_then(|record| record.outcome.clone()) {
                    Some(outcome) => self.echo(self.stored(&outcome)),
                    None => self.in_flight(Duration::from_secs(1)),
                }
            }
            Err(error) => self.problem(self.store_failed(&error)),
        }
    }

    /// A last word that did not reach the store: the lease lapses, and the class decides.
    fn report(&self, closed: Result<(), Error>) {
        if let Err(error) = closed {
            tracing::warn!(
                record = %self.short(),
                error = &error as &dyn std::error::Error,
                "how an attempt ended could not be stored"
            );
        }
    }

    /// The answer that `outcome` keeps.
    pub(crate) fn stored(&self, outcome: &Outcome) -> Response<Body> {
        match outcome {
            Outcome::Value(stored) => match Stored::read(stored) {
                Some(stored) => stored.into_response(),
                None => {
                    tracing::error!(record = %self.short(), "a stored answer is unreadable");
                    let problem = Problem::new(Code::AnswerUnreadable);
                    self.problem(problem.retry_after(Duration::from_secs(1)))
                }
            },
            Outcome::Tombstone(reference) => {
                let problem = Problem::new(Code::ResultNotRetained);
                self.problem(match replay::location_of(reference) {
                    Some(location) => problem.location(location),
                    None => problem,
                })
            }
        }
    }

    /// The answer while somebody else is at work.
    pub(crate) fn in_flight(&self, longest: Duration) -> Response<Body> {
        self.settings.still_at_work(&self.sent.key, longest)
    }

    /// The answer while it is being found out what a dead attempt did.
    pub(crate) fn held_back(&self) -> Response<Body> {
        let problem = Problem::new(Code::OutcomeUnknown).retry_after(HELD_RETRY);
        let Some(base) = &self.settings.status_base else { return self.problem(problem) };
        let path = status::path(base, self.settings.operation.name(), &self.sent.key);
        self.problem(problem.status_link(&path))
    }

    /// What a failed call of the engine means for the client. Nothing has begun.
    pub(crate) fn store_failed(&self, error: &Error) -> Problem {
        tracing::error!(
            record = %self.short(),
            error = error as &dyn std::error::Error,
            "a request was refused, since it could not be recorded"
        );
        Problem::new(Code::StoreUnavailable).retry_after(Duration::from_secs(1))
    }

    /// The record, as logs name it: never by its key.
    fn short(&self) -> String {
        self.call.id().short()
    }

    pub(crate) fn problem(&self, problem: Problem) -> Response<Body> {
        self.settings.explained(problem).into_response()
    }

    /// Says under which key the answer is known. Nothing else of a first answer is changed.
    pub(crate) fn echo(&self, mut response: Response<Body>) -> Response<Body> {
        response.headers_mut().insert(self.sent.name.clone(), self.sent.value.clone());
        response
    }
}

/// What became of the work.
enum Worked {
    /// An answer that ends the matter, with what is stored for it.
    Final(Gathered),
    /// An answer that is passed on as it is.
    Other(Ended, Response<Body>),
    /// The body of the answer broke off.
    Broken,
}

/// When a held record is worth another look: a reconciler or a person is not faster.
const HELD_RETRY: Duration = Duration::from_secs(10);

/// Calls the service. Called inside a future, a panic in `call` is caught like one in the answer.
pub(crate) fn answer<S, B, R>(
    mut inner: S,
    request: Request<B>,
) -> impl Future<Output = Result<Response<Body>, S::Error>>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    inner.call(request).map_ok(|response| response.map(Body::new))
}

/// How long the work of an operation takes: a moving average, for `Retry-After`.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    micros: AtomicU64,
}

impl Latency {
    fn learn(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.micros.load(Ordering::Relaxed);
        // A lost update costs an estimate a little age.
        self.micros.store(before - before / 8 + took / 8, Ordering::Relaxed);
    }

    pub(crate) fn estimate(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}
