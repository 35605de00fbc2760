//! The service around a handler: admits, claims, and gives the answer that the claim leads to.
//!
//! Order of the decision table: key, caller, body, then what the store says: mismatch before
//! replay before in flight before unknown before run
//! (`the_decision_table`, `a_mismatch_wins_over_a_running_attempt`).

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use axum::{BoxError, body::Body, response::IntoResponse};
use bytes::Bytes;
use futures_util::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, Either, MapOk, select},
};
use http::{
    HeaderValue, Request, Response, Version,
    header::{CONNECTION, EXPECT},
    request::Parts,
};
use http_body::Body as HttpBody;
use tower::Service;

use crate::{
    body::{self, Limits, Rest},
    busy,
    caller::Caller,
    fingerprint, header,
    key::{self, KeyRule},
    layer::{Settings, StoreDown},
    problem::{Code, Problem},
    run::{self, Guarded},
};
use hapax_core::{Begin, Class, Error, Kind, Outcome, Prints, Status};

/// Longest request id that is kept with an answer.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// A service whose requests have one outcome for each key. See
/// [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Clone, Debug)]
pub struct Idempotency<S> {
    inner: S,
    settings: Arc<Settings>,
}

impl<S> Idempotency<S> {
    pub(crate) fn new(inner: S, settings: Arc<Settings>) -> Self {
        Self { inner, settings }
    }

    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Takes the service out again.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

/// What passes unguarded costs no allocation; what is guarded runs boxed.
type Answering<F, R, E> = Either<
    MapOk<F, fn(Response<R>) -> Response<Body>>,
    BoxFuture<'static, Result<Response<Body>, E>>,
>;

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !self.settings.guards(&request) {
            let boxed: fn(Response<R>) -> Response<Body> = |response| response.map(Body::new);
            return Either::Left(self.inner.call(request).map_ok(boxed));
        }
        // The clone is the one that may not be ready.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        Either::Right(guard(Arc::clone(&self.settings), ready, request))
    }
}

/// Answers one guarded request.
///
/// # Cancellation
/// Until the claim is granted nothing has begun, and the engine takes a claim back whose caller
/// is gone. From then on the work is the engine's, and dropping this future drops the waiting.
///
/// Not an `async fn`, which would keep room for the request beside its parts: a future that fits
/// the allocator's caches is a third of the cost of one that does not.
fn guard<S, B, R>(
    settings: Arc<Settings>,
    inner: S,
    request: Request<B>,
) -> BoxFuture<'static, Result<Response<Body>, S::Error>>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    Box::pin(async move {
        let mut unread = pin!(body);
        let admitted = match admit(&settings, &parts, &mut unread).await {
            Ok(admitted) => admitted,
            // Boxed, as it is rare.
            Err(problem) => return Ok(refuse(&settings, problem, &parts, unread).boxed().await),
        };
        let Admitted { guarded, caller, body, prints } = admitted;
        let operation = &settings.operation;
        let key = guarded.sent.key.clone();
        let running = match begin(&guarded, prints).await {
            Ok(Begin::Run(lease)) => {
                let request = Request::from_parts(parts, B::from(body));
                operation.own(guarded.run(lease, inner, request))
            }
            Ok(Begin::Verify(lease)) => operation.own(guarded.verify(lease, inner, parts, body)),
            Ok(Begin::Replay(outcome)) => return Ok(replay(&guarded, &parts, &caller, &outcome)),
            Ok(Begin::Busy { retry_after }) => return Ok(guarded.in_flight(retry_after)),
            Ok(Begin::Mismatch) => return Ok(guarded.problem(settings.mismatch())),
            Ok(Begin::Held) => return Ok(guarded.held_back()),
            Ok(Begin::Expired) => return Ok(guarded.problem(Problem::new(Code::KeyExpired))),
            Err(error) if opens(&settings, &error) => {
                let request = Request::from_parts(parts, B::from(body));
                operation.own(unprotected(guarded, inner, request))
            }
            Err(error) => return Ok(guarded.problem(guarded.store_failed(&error))),
        };
        let ended = match settings.answer_within {
            None => running.await,
            // Both may be dropped: the work then goes on without us.
            Some(span) => match select(running, operation.clock().sleep(span)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(_) => return Ok(settings.still_at_work(&key, span)),
            },
        };
        // A panic outside of the handler, which closes its record itself.
        ended.unwrap_or_else(|_| {
            Ok(settings.explained(Problem::new(Code::HandlerFailed)).into_response())
        })
    })
}

/// A request that may ask the store.
struct Admitted {
    guarded: Box<Guarded>,
    caller: Caller,
    body: Bytes,
    prints: Prints,
}

async fn admit<B>(
    settings: &Arc<Settings>,
    parts: &Parts,
    unread: &mut Pin<&mut B>,
) -> Result<Admitted, Problem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let sent = key::read(&parts.headers, &settings.key_headers, settings.key_bytes_min)?;
    let caller = settings.principals.caller(parts)?;
    let limits = Limits {
        bytes_max: settings.body_bytes_max,
        time_max: settings.body_time_max,
        budget: &settings.bodies,
        clock: &**settings.operation.clock(),
    };
    let (body, held) = limits.read(unread).await?;
    let prints = fingerprint::prints(parts, &body, &settings.compared);
    let (tenant, principal) = (caller.tenant.clone(), caller.principal.clone());
    let call = settings.operation.request(tenant, principal, sent.key.clone());
    let call = call.prints(prints).caller(caller.actor.clone());
    let call = match busy::preferred_wait(&parts.headers) {
        Some(wish) => call.wait(std::cmp::min(wish, settings.wait_max)),
        None => call,
    };
    let request_id = parts.headers.get(header::REQUEST_ID).cloned();
    let request_id = request_id.filter(|id| id.len() <= REQUEST_ID_BYTES_MAX);
    let guarded =
        Box::new(Guarded { settings: Arc::clone(settings), call, sent, request_id, held });
    Ok(Admitted { guarded, caller, body, prints })
}

/// Claims the work.
///
/// Where dead attempts must be asked about and the layer cannot ask, it looks first: a claim would
/// use up one of the attempts that belong to the completer.
async fn begin(guarded: &Guarded, prints: Prints) -> Result<Begin, Error> {
    let settings = &guarded.settings;
    if settings.verify.is_none() && settings.operation.class() == Class::Queryable {
        let found = guarded.call.look().await?;
        let dead = found.record.is_some_and(|record| {
            !record.is_reusable(found.now)
                && record.prints.matches(&prints)
                && matches!(record.status(found.now), Status::Abandoned | Status::Unknown)
        });
        if dead {
            return Ok(Begin::Held);
        }
    }
    guarded.call.begin().await
}

fn replay(guarded: &Guarded, parts: &Parts, caller: &Caller, outcome: &Outcome) -> Response<Body> {
    let allowed = guarded.settings.may_replay.as_ref().is_none_or(|check| check(parts, caller));
    if !allowed {
        return guarded.problem(Problem::new(Code::Forbidden));
    }
    guarded.echo(guarded.stored(outcome))
}

/// Whether the operation would rather run twice than not at all.
fn opens(settings: &Settings, error: &Error) -> bool {
    settings.store_down == StoreDown::FailOpen
        && matches!(error.kind(), Kind::Unavailable | Kind::Unsure | Kind::Full)
}

async fn unprotected<S, B, R>(
    guarded: Box<Guarded>,
    inner: S,
    request: Request<B>,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    tracing::warn!(operation = %guarded.settings.operation.name(), "an operation runs unprotected");
    let mut response = run::answer(inner, request).await?;
    response.headers_mut().insert(header::DEGRADED, HeaderValue::from_static("fail-open"));
    Ok(guarded.echo(response))
}

/// Refuses a request whose body may still be on its way.
async fn refuse<B>(
    settings: &Settings,
    problem: Problem,
    parts: &Parts,
    unread: Pin<&mut B>,
) -> Response<Body>
where
    B: HttpBody<Data = Bytes>,
{
    // Reading a body whose client waits for a 100 would ask for it.
    let rest = if parts.headers.contains_key(EXPECT) {
        Rest::Unread
    } else {
        body::drain(unread, &**settings.operation.clock()).await
    };
    let mut response = settings.explained(problem).into_response();
    if rest == Rest::Unread && parts.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Settings {
    fn guards<B>(&self, request: &Request<B>) -> bool {
        self.methods.contains(request.method())
            && (self.key == KeyRule::Required || key::is_sent(request.headers(), &self.key_headers))
    }
}
