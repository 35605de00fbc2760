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
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{BoxError, body::Body, response::IntoResponse};
use bytes::Bytes;
use futures_util::FutureExt;
use hapax_core::{Call, Error, Kind, Lease, Outcome, Status, Work};
use http::{HeaderValue, Request, Response, request};
use http_body::Body as HttpBody;
use tower::Service;

use crate::{
    body::Held,
    busy::Waiting,
    gather::{Gathered, gather},
    header,
    key::SentKey,
    layer::Settings,
    outcome::{Closing, Ended, Progress, judge},
    problem::{Code, Problem},
    replay::{self, About, Stored},
    status,
    verify::Verdict,
};

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
    request_id: Option<HeaderValue>,
}

const UNTOLD: u8 = 0;
const REFUSED: u8 = 1;
const ENTERED: u8 = 2;

impl Idempotent {
    fn new(lease: Lease, turn: &Turn) -> Self {
        Self(Arc::new(Inner {
            work: lease.work(),
            lease: Mutex::new(Some(lease)),
            progress: AtomicU8::new(UNTOLD),
            settings: Arc::clone(&turn.settings),
            request_id: turn.request_id.clone(),
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
        let about = about(settings, self.0.request_id.as_ref());
        about.whole(response, settings.operation.outcome_bytes_max())
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

    fn progress(&self) -> Progress {
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

fn about<'a>(settings: &'a Settings, request_id: Option<&'a HeaderValue>) -> About<'a> {
    About { kept: &settings.kept, given_at: settings.operation.clock().wall(), request_id }
}

/// One guarded request on its way.
pub(crate) struct Turn {
    pub(crate) settings: Arc<Settings>,
    pub(crate) call: Call,
    pub(crate) sent: SentKey,
    pub(crate) request_id: Option<HeaderValue>,
    #[expect(dead_code, reason = "the memory of the body, given back when the turn is over")]
    pub(crate) held: Held,
}

impl Turn {
    /// Does the work and closes the record.
    pub(crate) async fn run<S, B, R>(
        self,
        lease: Lease,
        inner: S,
        mut request: Request<B>,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: HttpBody<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let clock = self.settings.operation.clock();
        let began_at = clock.now();
        let idempotent = Idempotent::new(lease, &self);
        request.extensions_mut().insert(idempotent.clone());
        // Neither service nor request is used again after a panic.
        let worked = AssertUnwindSafe(answer(inner, request)).catch_unwind().await;
        self.settings.latency.learn(clock.now().saturating_duration_since(began_at));
        let response = match worked {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                self.break_off(idempotent.take_lease(), "the service failed").await;
                return Err(error);
            }
            Err(_) => {
                tracing::error!(record = %self.short(), "a handler panicked");
                self.break_off(idempotent.take_lease(), "the handler panicked").await;
                return Ok(self.problem(Problem::new(Code::HandlerFailed)));
            }
        };
        let Some(lease) = idempotent.take_lease() else { return Ok(self.echo(response)) };
        Ok(self.close(lease, response, idempotent.progress()).await)
    }

    /// Asks about a dead attempt, then gives its answer or does the work.
    pub(crate) async fn verify<S, B, R>(
        self,
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
                let about = about(&self.settings, self.request_id.as_ref());
                let bytes_max = self.settings.operation.outcome_bytes_max();
                let outcome = about.whole(&response, bytes_max);
                let answer = self.stored(&outcome);
                Ok(self.complete(lease, outcome, answer).await)
            }
            Verdict::Unclear => {
                self.report(lease.hand_on().await);
                Ok(self.held_back())
            }
        }
    }

    /// Closes the record as the answer says, and gives the answer.
    async fn close(
        &self,
        lease: Lease,
        mut response: Response<Body>,
        progress: Progress,
    ) -> Response<Body> {
        let declared = response.extensions_mut().remove::<Ended>();
        let status = response.status();
        let refusals = &self.settings.refusals;
        let ended = declared.unwrap_or_else(|| judge(status, progress, refusals));
        match Closing::of(ended, lease.class()) {
            Closing::Complete => return self.keep(lease, response).await,
            Closing::Release => self.report(lease.release().await),
            Closing::HandOn => self.report(lease.hand_on().await),
            Closing::Doubt => {
                self.report(lease.doubt(format!("the answer was {}", status.as_u16())).await);
            }
        }
        self.echo(response)
    }

    /// Stores a final answer, or a tombstone for it.
    async fn keep(&self, lease: Lease, response: Response<Body>) -> Response<Body> {
        let about = about(&self.settings, self.request_id.as_ref());
        let bytes_max = self.settings.operation.outcome_bytes_max();
        let gathering = AssertUnwindSafe(gather(&about, response, bytes_max));
        // A panic in the body is caught like one in the handler.
        if let Ok(Some(Gathered { outcome, response })) = gathering.catch_unwind().await {
            return self.complete(lease, outcome, response).await;
        }
        tracing::error!(record = %self.short(), "the body of an answer broke off");
        self.break_off(Some(lease), "the body of the answer broke off").await;
        self.problem(Problem::new(Code::HandlerFailed))
    }

    /// Closes the record with `outcome` and gives `response`, unless another attempt was faster.
    async fn complete(
        &self,
        lease: Lease,
        outcome: Outcome,
        response: Response<Body>,
    ) -> Response<Body> {
        match lease.complete(outcome).await {
            Ok(()) => self.echo(response),
            Err(error) if error.kind() == Kind::Fenced => self.overtaken().await,
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
                match completed.and_then(|record| record.outcome) {
                    Some(outcome) => self.echo(self.stored(&outcome)),
                    None => self.in_flight(Duration::from_secs(1)),
                }
            }
            Err(error) => self.problem(self.store_failed(&error)),
        }
    }

    /// Closes the record of work that ended without an answer, as its class says.
    async fn break_off(&self, lease: Option<Lease>, why: &'static str) {
        let Some(lease) = lease else { return };
        let class = lease.class();
        self.report(match Closing::of(Ended::Unknown, class) {
            Closing::Doubt => lease.doubt(why).await,
            Closing::HandOn | Closing::Complete | Closing::Release => lease.hand_on().await,
        });
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
        let settings = &self.settings;
        settings.in_flight.respond(&Waiting {
            operation: settings.operation.name(),
            key: &self.sent.key,
            retry_after: std::cmp::min(longest, settings.latency.estimate()),
            status_base: settings.status_base.as_deref(),
        })
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

/// When a held record is worth another look: a reconciler or a person is not faster.
const HELD_RETRY: Duration = Duration::from_secs(10);

/// Calls the service; a panic in `call` is caught like one in its future.
pub(crate) async fn answer<S, B, R>(
    mut inner: S,
    request: Request<B>,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    inner.call(request).await.map(|response| response.map(Body::new))
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

    fn estimate(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}
