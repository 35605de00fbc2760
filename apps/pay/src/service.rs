//! The service: opened from its configuration, served until it is told to stop.
//!
//! Invariant: a shutdown takes no new request, finishes what has begun, and hands on what it
//! cannot finish (`a_drained_service_leaves_no_running_request`).

use std::{future::Future, net::SocketAddr, num::NonZeroU32, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::{self, App, Health},
    config::{Config, read_secret},
    connections::{self, House},
    db,
    error::{Error, Kind},
    flow::Desk,
    merchant::Merchants,
    telemetry, work,
};
use hapax::{
    Busy, Effect, Hapax, Policy,
    lock::Turnstile,
    sql::SqliteStore,
    token::{KeyId, Keyring, Rate, TokenKey, Tokens, Validity},
};

/// The name of the operation that creates payments; part of every id, so it never changes.
pub const CREATE_OPERATION: &str = "payment.create";

/// The channel never forgets our numbers, but a payment that could not be created for this long is
/// a matter for a person.
const CREATE_WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// An opened service that listens and does not serve yet.
pub struct Service {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
}

impl Service {
    /// Opens the database, brings its schema up, reads keys and secrets, and listens.
    ///
    /// `metrics` renders `/metrics`; without it there is none.
    ///
    /// # Errors
    /// [`Kind::Config`] and [`Kind::System`], each with the sentence that says what to do.
    pub async fn open(config: Config, metrics: Option<PrometheusHandle>) -> Result<Self, Error> {
        let op = "start the service";
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|why| Error::caused(Kind::System, op, format!("{}: {why}", config.listen)))?;
        let address = listener.local_addr().map_err(|why| Error::system(op, why))?;
        let public_url = config.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let desk = Arc::new(open_desk(config, &public_url).await?);
        let health = Arc::new(Health::new(metrics));
        Ok(Self { app: App { desk, health }, listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes, then drains.
    ///
    /// # Errors
    /// Those of the database and of the set-up of the workers, before anything is served.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let Self { app, listener, .. } = self;
        let (desk, health) = (Arc::clone(&app.desk), Arc::clone(&app.health));
        let run = started(&desk).await?;
        let (workers, stopping) = (TaskTracker::new(), CancellationToken::new());
        work::start(&desk, &workers, &stopping)?;
        let told = stopping.clone();
        let house = House {
            router: api::router(app),
            head_timeout: desk.config.periods.head_timeout.0,
            clock: desk.hapax.clock(),
        };
        let serving = connections::serve(listener, house, async move {
            stop.await;
            health.drain();
            told.cancel();
        });
        let drain = desk.config.periods.drain.0;
        let (clock, begun) = (desk.hapax.clock(), stopping.clone());
        let too_long = async move {
            begun.cancelled().await;
            clock.sleep(drain).await;
        };
        // Connections that do not end within the drain are cut; their work is on tasks of its own.
        drop(select(Box::pin(serving), std::pin::pin!(too_long)).await);
        stopping.cancel();
        finish(&desk, &workers, run, drain).await;
        Ok(())
    }
}

/// Waits for the workers and for every last word, as long as the drain lasts.
async fn finish(desk: &Arc<Desk>, workers: &TaskTracker, run: i64, drain: Duration) {
    workers.close();
    let finished = async {
        workers.wait().await;
        desk.hapax.drain().await;
        desk.turnstile.drain().await;
        work::note_requests(desk).await;
        if let Err(error) = stopped(desk, run).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the stop was not written down"
            );
        }
        desk.sql.close().await;
    };
    let clock = desk.hapax.clock();
    // What is dropped here ends with the process: leases lapse, and others go on.
    if let Either::Right(_) = select(std::pin::pin!(finished), clock.sleep(drain)).await {
        tracing::warn!("the drain took too long; what is left is handed on when its leases lapse");
    }
}

async fn started(desk: &Desk) -> Result<i64, Error> {
    let now = desk.now().await?;
    let start = async move |mut tx| db::runs::start(db::conn(&mut tx), now).await;
    desk.sql.write("run.start", start).await
}

async fn stopped(desk: &Desk, run: i64) -> Result<(), Error> {
    let now = desk.now().await?;
    let stop = async move |mut tx| db::runs::stop(db::conn(&mut tx), run, now).await;
    desk.sql.write("run.stop", stop).await
}

async fn open_desk(config: Config, public_url: &str) -> Result<Desk, Error> {
    let config_error = |why| Error::caused(Kind::Config, "read the configuration", why);
    let file = config.sqlite_file().map_err(config_error)?;
    let sql = SqliteStore::open(&file).await?;
    sql.migrate(db::migrator()).await?;
    desk_on(sql, config, public_url)
}

/// Sets up everything that is not the database: for the service, and for an operator's question
/// to the channel.
pub(crate) fn desk_on(sql: db::Sql, config: Config, public_url: &str) -> Result<Desk, Error> {
    let hapax = Hapax::on(Arc::new(sql.clone())).observer(Arc::new(telemetry::Counter)).build();
    let tokens = open_tokens(&config)?;
    let policy = create_policy(&config);
    tokens.validity().check(&policy).map_err(|why| Error::caused(Kind::Config, "declare", why))?;
    let create = hapax.declare(CREATE_OPERATION, policy)?;
    let turnstile = Turnstile::new(Arc::new(sql.clone()))
        .lease(config.periods.lease.0)
        .witness(telemetry::Locks);
    let merchants = Merchants::read(&config, public_url)?;
    let requests = work::Requests::default();
    Ok(Desk { config, sql, hapax, create, turnstile, tokens, merchants, requests })
}

fn create_policy(config: &Config) -> Policy {
    let periods = &config.periods;
    Policy::new(Effect::Keyed { window: CREATE_WINDOW })
        .lease(periods.lease.0)
        .retain(periods.keep.0, periods.grace.0)
        .redelivery(periods.redelivery.0)
        .busy(Busy::Wait(periods.wait.0))
        .attempts_max(attempts_max(periods.complete.0))
}

/// The completer takes an undecided request up once a period, for as long as the channel is away:
/// an outage as long as the window must not use the key up, nor the client's own repeats.
fn attempts_max(period: Duration) -> u32 {
    let sweeps = CREATE_WINDOW.as_millis() / std::cmp::max(period.as_millis(), 1);
    u32::try_from(sweeps.saturating_mul(2)).unwrap_or(u32::MAX)
}

/// Reads the secrets that sign tokens.
pub(crate) fn open_tokens(config: &Config) -> Result<Tokens, Error> {
    let fault = |why: Box<dyn std::error::Error + Send + Sync>| {
        Error::caused(Kind::Config, "set up tokens", why)
    };
    let key = |name: &str, secret: &[u8]| -> Result<TokenKey, Error> {
        let id = KeyId::parse(name).map_err(|why| fault(why.into()))?;
        TokenKey::new(id, secret).map_err(|why| fault(why.into()))
    };
    let read = |file: &std::path::Path| {
        read_secret(&config.resolve(file)).map_err(|why| fault(why.into()))
    };
    let current = match (&config.tokens.secret, &config.tokens.secret_file) {
        (Some(secret), _) => secret.clone(),
        (None, Some(file)) => read(file)?,
        (None, None) => {
            return Err(fault("the key `tokens.secret_file` is missing".into()));
        }
    };
    let current = key(&id_of(current.expose_secret()), current.expose_secret().as_bytes())?;
    let mut previous = Vec::new();
    for file in &config.tokens.previous_secret_files {
        let secret = read(file)?;
        previous.push(key(&id_of(secret.expose_secret()), secret.expose_secret().as_bytes())?);
    }
    let keyring = Keyring::with(current, previous, Vec::new()).map_err(|why| fault(why.into()))?;
    let periods = &config.periods;
    let validity = Validity::new(periods.token_life.0, periods.token_buffer.0)
        .map_err(|why| fault(why.into()))?;
    let per_minute = NonZeroU32::new(config.tokens.per_minute)
        .ok_or_else(|| fault("the key `tokens.per_minute` is zero".into()))?;
    let rate = Rate { burst: per_minute, refill: Duration::from_secs(60) / per_minute.get() };
    Ok(Tokens::with(keyring, validity, rate))
}

/// A secret is known by a short digest, so that files need no names of their own.
fn id_of(secret: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes());
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("address", &self.address).finish_non_exhaustive()
    }
}
