//! What an operation wants of HTTP, declared once around its route.

use std::{fmt, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, request::Parts};
use tower::Layer;

use crate::{
    body::{BODIES_BYTES_MAX, BODY_BYTES_MAX, BODY_TIME_MAX, Budget},
    busy::{InFlight, WAIT_MAX, Waiting},
    caller::{Caller, Principals},
    header,
    key::KeyRule,
    problem::{Code, Problem},
    replay::{self, About},
    run::Latency,
    service::Idempotency,
    verify::Verify,
};
use hapax_core::{Invalid, Operation, Outcome, RequestKey};

/// The statuses that the field uses for "the key was used for another request".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MismatchStatus {
    /// 422, as the IETF draft has it.
    #[default]
    Unprocessable,
    /// 409.
    Conflict,
    /// 400.
    BadRequest,
}

/// What happens while the store cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the door is shut or it is open")]
pub enum StoreDown {
    /// 503 with `Retry-After`; the handler does not run.
    #[default]
    Refuse,
    /// The handler runs unprotected, and each such answer says so: `Idempotency-Degraded:
    /// fail-open`. Only for operations that may run twice.
    FailOpen,
}

/// Guards a route: one outcome for each key, however often the request is repeated.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use hapax_core::{Effect, Hapax, Policy, store::MemoryStore};
/// use hapax_http::{BusyStatus, FromExtension, IdempotencyLayer, InFlight, KeyRule};
///
/// let hapax = Hapax::new(Arc::new(MemoryStore::new()));
/// let create = hapax.declare("order.create", Policy::new(Effect::Opaque))?;
///
/// // The default: POST and PATCH need a key, a repeat in flight gets 409.
/// let plain = IdempotencyLayer::new(create.clone(), FromExtension);
///
/// // Keys are optional for now, and a repeat waits up to three seconds.
/// let gentle = IdempotencyLayer::new(create, FromExtension)
///     .key(KeyRule::Optional)
///     .in_flight(InFlight::refuse(BusyStatus::TooEarly))
///     .wait_max(Duration::from_secs(3));
/// # let _ = (plain, gentle);
/// # Ok::<_, hapax_core::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct IdempotencyLayer {
    settings: Arc<Settings>,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) operation: Operation,
    pub(crate) principals: Arc<dyn Principals>,
    pub(crate) may_replay: Option<Arc<dyn Fn(&Parts, &Caller) -> bool + Send + Sync>>,
    pub(crate) verify: Option<Arc<dyn Verify>>,
    pub(crate) key: KeyRule,
    pub(crate) key_headers: Vec<HeaderName>,
    pub(crate) key_bytes_min: usize,
    pub(crate) methods: Vec<Method>,
    pub(crate) compared: Vec<HeaderName>,
    pub(crate) kept: Vec<HeaderName>,
    pub(crate) refusals: Vec<StatusCode>,
    pub(crate) body_bytes_max: usize,
    pub(crate) body_time_max: Duration,
    pub(crate) bodies: Arc<Budget>,
    pub(crate) mismatch: MismatchStatus,
    pub(crate) in_flight: InFlight,
    pub(crate) wait_max: Duration,
    pub(crate) answer_within: Option<Duration>,
    pub(crate) store_down: StoreDown,
    pub(crate) status_base: Option<Arc<str>>,
    pub(crate) documented_at: Option<Arc<str>>,
    pub(crate) latency: Arc<Latency>,
}

impl IdempotencyLayer {
    /// Guards `operation`; `principals` says who calls and has no default.
    pub fn new(operation: Operation, principals: impl Principals) -> Self {
        let settings = Settings {
            operation,
            principals: Arc::new(principals),
            may_replay: None,
            verify: None,
            key: KeyRule::Required,
            key_headers: vec![header::IDEMPOTENCY_KEY],
            key_bytes_min: 1,
            methods: vec![Method::POST, Method::PATCH],
            compared: Vec::new(),
            kept: Vec::new(),
            refusals: Vec::new(),
            body_bytes_max: BODY_BYTES_MAX,
            body_time_max: BODY_TIME_MAX,
            bodies: Budget::new(BODIES_BYTES_MAX),
            mismatch: MismatchStatus::default(),
            in_flight: InFlight::default(),
            wait_max: WAIT_MAX,
            answer_within: None,
            store_down: StoreDown::default(),
            status_base: None,
            documented_at: None,
            latency: Arc::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    /// What a request without a key gets: by default 400.
    pub fn key(self, rule: KeyRule) -> Self {
        self.with(|settings| settings.key = rule)
    }

    /// The headers that may carry the key, such as an alias; exactly one of them may be sent.
    pub fn key_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.key_headers = names.into_iter().collect())
    }

    /// Refuses keys that are too short to be random, such as `1`.
    pub fn key_bytes_min(self, bytes: usize) -> Self {
        self.with(|settings| settings.key_bytes_min = bytes)
    }

    /// The methods that are guarded: by default POST and PATCH. All others pass, since they are
    /// idempotent by definition.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.with(|settings| settings.methods = methods.into_iter().collect())
    }

    /// Headers that change what is asked, such as an API version: a repeat must send the same.
    pub fn compare_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| settings.compared = names.into_iter().collect())
    }

    /// Headers of the answer to give again besides the usual ones.
    ///
    /// # Errors
    /// [`Invalid`] for a header that is never given again: secrets such as `Set-Cookie`, framing,
    /// and what is true of one moment only.
    pub fn keep_headers(
        self,
        names: impl IntoIterator<Item = HeaderName>,
    ) -> Result<Self, Invalid> {
        let names: Vec<_> = names.into_iter().collect();
        if !names.iter().all(replay::may_keep) {
            let rule = "holds a secret, framing or a moment and is never given again; leave it out";
            return Err(Invalid::new("header to keep", rule));
        }
        Ok(self.with(|settings| settings.kept = names))
    }

    /// Statuses by which this handler refuses a request before it did anything, such as 400 and
    /// 422 of a validation: they free the key, so that a corrected request can come with it.
    ///
    /// [`Checked`](crate::Checked) tells the layer the same without a list.
    pub fn refusals(self, statuses: impl IntoIterator<Item = StatusCode>) -> Self {
        self.with(|settings| settings.refusals = statuses.into_iter().collect())
    }

    /// The largest body of one request, in bytes: by default 1 MiB.
    pub fn body_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.body_bytes_max = bytes)
    }

    /// How long a body may take to arrive: by default 30 s.
    pub fn body_time_max(self, span: Duration) -> Self {
        self.with(|settings| settings.body_time_max = span)
    }

    /// Bytes of all bodies of this operation that are held at a time: by default 256 MiB.
    pub fn bodies_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.bodies = Budget::new(bytes))
    }

    /// The status of `key_reused`: by default 422.
    pub fn mismatch(self, status: MismatchStatus) -> Self {
        self.with(|settings| settings.mismatch = status)
    }

    /// What a repeat gets while the first request is at work: by default 409.
    pub fn in_flight(self, answer: InFlight) -> Self {
        self.with(|settings| settings.in_flight = answer)
    }

    /// The longest wait that a client can ask for with `Prefer: wait=n`: by default 10 s.
    ///
    /// Without that header the operation's policy says how long a repeat waits.
    pub fn wait_max(self, span: Duration) -> Self {
        self.with(|settings| settings.wait_max = span)
    }

    /// How long even the first request waits for its own work: it then gets the answer of a repeat
    /// in flight, and the work goes on. By default for as long as it takes.
    pub fn answer_within(self, span: Duration) -> Self {
        self.with(|settings| settings.answer_within = Some(span))
    }

    /// Whether `caller` may still see a stored answer: a revoked one gets 403.
    pub fn may_replay(
        self,
        check: impl Fn(&Parts, &Caller) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| settings.may_replay = Some(Arc::new(check)))
    }

    /// Asks the receiver about dead attempts of a queryable effect.
    ///
    /// Without it a repeat is told `outcome_unknown` and the attempt is left to the completer.
    pub fn verify(self, verify: impl Verify) -> Self {
        self.with(|settings| settings.verify = Some(Arc::new(verify)))
    }

    /// What happens while the store cannot be reached: by default 503.
    pub fn store_down(self, rule: StoreDown) -> Self {
        self.with(|settings| settings.store_down = rule)
    }

    /// Where [`StatusRoutes`](crate::StatusRoutes) are mounted: `in_progress` and
    /// `outcome_unknown` then link to the status of the operation.
    pub fn status_at(self, base: &str) -> Self {
        self.with(|settings| settings.status_base = Some(Arc::from(base)))
    }

    /// Where the problems are explained to people: each one links there (`describedby`).
    pub fn documented_at(self, url: &str) -> Self {
        self.with(|settings| settings.documented_at = Some(Arc::from(url)))
    }

    /// `response` as the layer stores it: for a completer that finishes a request whose process
    /// died.
    pub fn outcome(&self, response: &Response<Bytes>) -> Outcome {
        let about = self.settings.about(None);
        about.whole(response, self.settings.operation.outcome_bytes_max())
    }

    fn with(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        self
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::clone(&self.settings))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("operation", self.operation.name())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub(crate) fn mismatch(&self) -> Problem {
        Problem::new(Code::KeyReused).status(match self.mismatch {
            MismatchStatus::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            MismatchStatus::Conflict => StatusCode::CONFLICT,
            MismatchStatus::BadRequest => StatusCode::BAD_REQUEST,
        })
    }

    /// How an answer of this moment is stored.
    pub(crate) fn about<'a>(&'a self, request_id: Option<&'a HeaderValue>) -> About<'a> {
        About { kept: &self.kept, given_at: self.operation.clock().wall(), request_id }
    }

    /// The answer to a repeat while the first request is at work.
    pub(crate) fn still_at_work(&self, key: &RequestKey, longest: Duration) -> Response<Body> {
        self.in_flight.respond(&Waiting {
            operation: self.operation.name(),
            key,
            retry_after: std::cmp::min(longest, self.latency.estimate()),
            status_base: self.status_base.as_deref(),
        })
    }

    /// The problem with a link to where problems are explained.
    pub(crate) fn explained(&self, problem: Problem) -> Problem {
        match &self.documented_at {
            Some(url) => problem.describedby(url),
            None => problem,
        }
    }
}
