//! A database that is about to be opened: its place, its bounds, its schema.

use std::{fmt, time::Duration};

use sqlx::Pool;

use super::{
    dialect::{Dialect, Reach},
    migrate::{self, Migration},
    store::Sql,
};
use crate::error::Error;

/// Connections that take steps: each is a lane. More callers than lanes share statements.
const STEPS: u32 = 8;
/// Connections of business transactions.
const BUSINESS: u32 = 10;
/// Connections that read. Two cores gain nothing from more, and none of them ever waits.
const READERS: u32 = 4;
/// The longest that a business transaction may last: others wait for its locks, on SQLite for the
/// only writer.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a connection: several full transactions of others.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Connections, by what they are for.
pub(crate) struct Pools<D: Dialect> {
    /// The store's own steps, errands and housekeeping.
    pub(super) steps: Pool<<D as Dialect>::Db>,
    /// Business transactions.
    pub(super) business: Pool<<D as Dialect>::Db>,
    /// Reads outside of any transaction.
    pub(super) readers: Pool<<D as Dialect>::Db>,
}

impl<D: Dialect> Pools<D> {
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.business.close().await;
        self.steps.close().await;
    }
}

/// A database that is about to be opened.
#[must_use = "it does nothing until it is opened"]
pub struct Opening<D: Dialect> {
    pub(super) place: D::Place,
    pub(super) steps: u32,
    pub(super) business: u32,
    pub(super) readers: u32,
    pub(super) hold_max: Duration,
    pub(super) wait_max: Duration,
}

impl<D: Dialect> Opening<D> {
    pub(super) fn at(place: D::Place) -> Self {
        Self {
            place,
            steps: STEPS,
            business: BUSINESS,
            readers: READERS,
            hold_max: HOLD_MAX,
            wait_max: WAIT_MAX,
        }
    }

    /// How many connections take the store's own steps; 8 by default. SQLite has one writer.
    pub fn steps(self, steps: u32) -> Self {
        Self { steps: std::cmp::max(steps, 1), ..self }
    }

    /// How many business transactions run at once; 10 by default. SQLite has one writer.
    pub fn business(self, business: u32) -> Self {
        Self { business: std::cmp::max(business, 1), ..self }
    }

    /// How many connections read at once; 4 by default.
    pub fn readers(self, readers: u32) -> Self {
        Self { readers: std::cmp::max(readers, 1), ..self }
    }

    /// The longest that a business transaction may last; 5 s by default.
    pub fn hold_max(self, hold_max: Duration) -> Self {
        Self { hold_max, ..self }
    }

    /// The longest that a business transaction waits for its turn; 30 s by default.
    pub fn wait_max(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }
}

#[expect(private_bounds, reason = "a bound that nobody else can meet seals the trait")]
impl<D: Reach> Opening<D> {
    /// Opens the database and brings its schema up. A SQLite file is made if it is missing.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a place that is none,
    /// [`Kind::Schema`](crate::Kind::Schema) if a newer build made the schema or if the server
    /// cannot hold the guarantee, and those of the database.
    pub async fn open(&self) -> Result<Sql<D>, Error> {
        let pools = D::connect(self).await?;
        let is_current = migrate::list::<D>(&pools.steps, D::SCRIPTS)
            .await?
            .iter()
            .all(|migration| migration.is_applied);
        if !is_current {
            migrate::up::<D>(&pools.business, &migrate::migrator(D::SCRIPTS)).await?;
        }
        Ok(Sql::new(pools, self.wait_max, self.hold_max))
    }

    /// The steps of the schema, and which of them the database has. Writes nothing; a SQLite file
    /// must be there.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn migrations(&self) -> Result<Vec<Migration>, Error> {
        let Some(pool) = D::connect_reader(self)? else {
            let pending = |script: &migrate::Script| script.pending();
            return Ok(D::SCRIPTS.iter().map(pending).collect());
        };
        let migrations = migrate::list::<D>(&pool, D::SCRIPTS).await;
        pool.close().await;
        migrations
    }

    /// Brings the schema up and says what was missing.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn migrate(&self) -> Result<Vec<Migration>, Error> {
        let pools = D::connect(self).await?;
        let before = migrate::list::<D>(&pools.steps, D::SCRIPTS).await?;
        let migrated = migrate::up::<D>(&pools.business, &migrate::migrator(D::SCRIPTS)).await;
        pools.close().await;
        migrated?;
        let missing = before.into_iter().filter(|migration| !migration.is_applied);
        Ok(missing.map(|migration| Migration { is_applied: true, ..migration }).collect())
    }

    /// Takes back every step after `version`, **with all that its tables hold**.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn revert(&self, version: i64) -> Result<(), Error> {
        let pools = D::connect(self).await?;
        let migrator = migrate::migrator(D::SCRIPTS);
        let reverted = migrate::down::<D>(&pools.business, &migrator, version).await;
        pools.close().await;
        reverted
    }
}

impl<D: Dialect> Clone for Opening<D> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), ..*self }
    }
}

impl<D: Dialect> fmt::Debug for Opening<D> {
    // A place may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("steps", &self.steps)
            .field("business", &self.business)
            .field("readers", &self.readers)
            .field("hold_max", &self.hold_max)
            .field("wait_max", &self.wait_max)
            .finish_non_exhaustive()
    }
}
