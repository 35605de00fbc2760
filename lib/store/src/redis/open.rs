//! Opening the store, and refusing servers that would lose records as a matter of course.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};

use super::{
    check::{Accepted, check},
    fleet::Fleet,
    store::RedisStore,
};
use crate::error::Error;
#[cfg(doc)]
use crate::error::Kind;
use hapax_core::Invalid;

/// What keys begin with by default.
const NAMESPACE: &str = "hapax";
/// Longest namespace: it is part of every key.
const NAMESPACE_BYTES_MAX: usize = 64;
/// How long an answer may take by default. Half a second, the driver's own bound, is less than a
/// server rests to fork or to flush; and two tries that take two seconds each still end before a
/// lease of fifteen seconds, renewed at five, is half over.
const ANSWER_MAX: Duration = Duration::from_secs(2);

impl RedisStore {
    /// Opens the store at `urls`: one server, or some servers of a cluster with commas between.
    ///
    /// `redis://` and, with TLS, `rediss://`; user, password and database are taken from the URL.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a URL that cannot be read and for a server that must be set up
    /// otherwise first: the source says what to change. [`Kind::Unavailable`] if none answers.
    pub async fn open(urls: &str) -> Result<Self, Error> {
        Self::at(urls).open().await
    }

    /// Names the servers at `urls`, to open the store otherwise than by default.
    pub fn at(urls: &str) -> RedisOpening {
        RedisOpening {
            urls: urls.to_owned(),
            namespace: NAMESPACE.to_owned(),
            answer_max: ANSWER_MAX,
            accepted: Accepted::default(),
        }
    }
}

/// A store in Redis that is about to be opened.
#[derive(Clone)]
#[must_use = "it does nothing until it is opened"]
pub struct RedisOpening {
    urls: String,
    namespace: String,
    answer_max: Duration,
    accepted: Accepted,
}

impl RedisOpening {
    /// What all keys begin with; `hapax` by default. Stores of other namespaces on the same
    /// servers are other stores.
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// How long an answer may take, 2 s by default; after that a step is in doubt and asked
    /// again by its nonce. Keep it below half of the shortest lease.
    pub fn answer_max(self, answer_max: Duration) -> Self {
        Self { answer_max, ..self }
    }

    /// Accepts a `maxmemory-policy` that evicts keys which have an expiry: completed records
    /// with a retention, and released ones, may be gone early and their keys may run again.
    pub fn accept_eviction(self) -> Self {
        Self { accepted: Accepted { eviction: true, ..self.accepted }, ..self }
    }

    /// Accepts servers without an append-only file: a restart loses what came after the last
    /// snapshot, or everything.
    pub fn accept_no_persistence(self) -> Self {
        Self { accepted: Accepted { no_persistence: true, ..self.accepted }, ..self }
    }

    /// Accepts masters that take writes while no replica follows them: a fail-over loses those
    /// writes.
    pub fn accept_no_replica_quorum(self) -> Self {
        Self { accepted: Accepted { no_replica_quorum: true, ..self.accepted }, ..self }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Those of [`RedisStore::open`].
    pub async fn open(&self) -> Result<RedisStore, Error> {
        Ok(RedisStore::new(self.fleet().await?, self.checked_namespace()?))
    }

    pub(super) async fn fleet(&self) -> Result<std::sync::Arc<Fleet>, Error> {
        self.checked_namespace()?;
        let fleet = Fleet::find(self.seeds()?, self.answer_max).await?;
        check(&fleet, self.accepted).await?;
        Ok(fleet)
    }

    fn seeds(&self) -> Result<Vec<ConnectionInfo>, Error> {
        let urls = self.urls.split(',').map(str::trim).filter(|url| !url.is_empty());
        let seeds = urls.map(|url| {
            // The cause would show the URL, which may hold a password.
            url.into_connection_info().map_err(|_| {
                Invalid::new("Redis URL", "is not of the form redis://user:password@host:port/db")
            })
        });
        let seeds: Vec<_> = seeds.collect::<Result<_, _>>()?;
        match seeds.is_empty() {
            true => Err(Invalid::new("Redis URL", "is empty; give at least one").into()),
            false => Ok(seeds),
        }
    }

    fn checked_namespace(&self) -> Result<String, Error> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        let length = self.namespace.len();
        if length == 0 || length > NAMESPACE_BYTES_MAX || !self.namespace.bytes().all(legal) {
            let rule = "must be 1 to 64 characters from A-Z, a-z, 0-9, '.', '_', ':' and '-'";
            return Err(Invalid::new("Redis namespace", rule).into());
        }
        Ok(self.namespace.clone())
    }
}

impl std::fmt::Debug for RedisOpening {
    /// Without the URLs, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisOpening")
            .field("namespace", &self.namespace)
            .field("answer_max", &self.answer_max)
            .field("accepted", &self.accepted)
            .finish_non_exhaustive()
    }
}
