//! Each engine, as tests have it.

use std::future::Future;

use sqlx::{AssertSqlSafe, Connection, Database, Pool, Row as _, Transaction};
use tempfile::TempDir;

use hapax_store::{Dialect, Error, Migration, MySql, Opening, Postgres, Sql, Sqlite, Tx};

/// A connection of an engine's driver.
pub(crate) type Conn<E> = <<E as Dialect>::Db as Database>::Connection;
/// A transaction of the caller's own.
pub(crate) type Own<E> = Transaction<'static, <E as Dialect>::Db>;

/// What is done to a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Insert,
    Update,
    Delete,
}

/// An engine on trial.
pub(crate) trait Engine: Dialect {
    /// What keeps a fresh database: its directory, or the database on the servers of the run.
    type Site: Send + Sync + 'static;

    /// Whether a transaction that writes has the whole database. Elsewhere it has its rows.
    const HAS_ONE_WRITER: bool;
    /// How a caller begins a transaction of its own that will write.
    const BEGIN: &'static str;
    /// The table of the business: no item is kept from being there twice.
    const ORDERS: &'static str;
    /// What a connection is told that moves the clock: that need not outlive the machine.
    const HASTE: &'static str;
    /// Gives the clock into the hands of a test, which can move it forward. Where it is then in the
    /// future it stands still.
    const TAKE_CLOCK: &'static str;
    /// Moves the clock on by `{span}` milliseconds, and says what it shows then.
    const MOVE_CLOCK: &'static str;

    /// A fresh database.
    fn site() -> impl Future<Output = Self::Site> + Send;

    /// Where it is: a path or a URL.
    fn place(site: &Self::Site) -> String;

    fn url(place: &str) -> String {
        place.to_owned()
    }

    fn at(place: &str) -> Opening<Self>;

    fn open(opening: &Opening<Self>) -> impl Future<Output = Result<Sql<Self>, Error>> + Send;

    fn migrations(
        opening: &Opening<Self>,
    ) -> impl Future<Output = Result<Vec<Migration>, Error>> + Send;

    fn migrate(
        opening: &Opening<Self>,
    ) -> impl Future<Output = Result<Vec<Migration>, Error>> + Send;

    fn revert(
        opening: &Opening<Self>,
        version: i64,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Sends a text of one or more statements.
    fn execute(
        conn: &mut Conn<Self>,
        text: &str,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// The first column of the rows, as text.
    fn texts(
        conn: &mut Conn<Self>,
        text: &str,
    ) -> impl Future<Output = Result<Vec<String>, sqlx::Error>> + Send;

    /// The first number of the last row.
    fn number(
        conn: &mut Conn<Self>,
        text: &str,
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// These octets, as a literal.
    fn octets(octets: &[u8]) -> String;

    /// A trigger that refuses a deed wherever `condition` holds of a row.
    fn refusal(deed: Deed, table: &str, condition: &str) -> String;
}

/// A connection of the caller's own.
pub(crate) async fn connect<E: Engine>(place: &str) -> Conn<E> {
    Conn::<E>::connect(&E::url(place)).await.unwrap()
}

/// Connections of the caller's own.
pub(crate) async fn pool<E: Engine>(place: &str) -> Pool<<E as Dialect>::Db> {
    Pool::connect(&E::url(place)).await.unwrap()
}

/// Begins as the caller would.
pub(crate) async fn begin<E: Engine>(pool: &Pool<<E as Dialect>::Db>) -> Own<E> {
    pool.begin_with(E::BEGIN).await.unwrap()
}

/// Orders an item in the transaction at hand.
pub(crate) async fn insert<E: Engine>(tx: &mut Tx<E>, item: &str) -> Result<(), Error> {
    E::execute(tx, &inserting(item)).await?;
    Ok(())
}

pub(crate) fn inserting(item: &str) -> String {
    format!("INSERT INTO orders (item) VALUES ('{item}')")
}

/// Something that every engine refuses.
pub(crate) async fn blunder<E: Engine>(conn: &mut Conn<E>) -> Result<(), Error> {
    E::execute(conn, "INSERT INTO nowhere VALUES (1)").await?;
    Ok(())
}

/// One test on each engine for each generic `async fn name<E: Engine>()`; those that mean something
/// on servers only are named after the others.
macro_rules! on_each_engine {
    ($($name:ident)+ $(; on servers: $($server:ident)+)?) => {
        $crate::engine::on_engine!(sqlite: hapax_store::Sqlite, $($name)+);
        $crate::engine::on_engine!(postgres: hapax_store::Postgres, $($name)+ $($($server)+)?);
        $crate::engine::on_engine!(mysql: hapax_store::MySql, $($name)+ $($($server)+)?);
    };
}

/// The same where there is nothing for SQLite.
macro_rules! on_each_server {
    ($($name:ident)+) => {
        $crate::engine::on_engine!(postgres: hapax_store::Postgres, $($name)+);
        $crate::engine::on_engine!(mysql: hapax_store::MySql, $($name)+);
    };
}

macro_rules! on_engine {
    ($module:ident: $engine:ty, $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    Box::pin(super::$name::<$engine>()).await;
                }
            )+
        }
    };
}

/// One test on each engine for each generic `async fn name<E: Engine>(test: &str)`, which starts
/// the test again to play a part.
macro_rules! in_parts_on_each_engine {
    ($($name:ident)+) => {
        $crate::engine::in_parts_on_engine!(sqlite: hapax_store::Sqlite, $($name)+);
        $crate::engine::in_parts_on_engine!(postgres: hapax_store::Postgres, $($name)+);
        $crate::engine::in_parts_on_engine!(mysql: hapax_store::MySql, $($name)+);
    };
}

macro_rules! in_parts_on_engine {
    ($module:ident: $engine:ty, $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let path = concat!(module_path!(), "::", stringify!($name));
                    // A test is called by its path below the program.
                    let test = path.split_once("::").unwrap().1;
                    Box::pin(super::$name::<$engine>(test)).await;
                }
            )+
        }
    };
}

pub(crate) use {
    in_parts_on_each_engine, in_parts_on_engine, on_each_engine, on_each_server, on_engine,
};

/// What is the same text for every driver, and another type.
macro_rules! speaks {
    () => {
        fn at(place: &str) -> Opening<Self> {
            Sql::<Self>::at(place)
        }

        async fn open(opening: &Opening<Self>) -> Result<Sql<Self>, Error> {
            opening.open().await
        }

        async fn migrations(opening: &Opening<Self>) -> Result<Vec<Migration>, Error> {
            opening.migrations().await
        }

        async fn migrate(opening: &Opening<Self>) -> Result<Vec<Migration>, Error> {
            opening.migrate().await
        }

        async fn revert(opening: &Opening<Self>, version: i64) -> Result<(), Error> {
            opening.revert(version).await
        }

        async fn execute(conn: &mut Conn<Self>, text: &str) -> Result<u64, sqlx::Error> {
            let text = AssertSqlSafe(text.to_owned());
            sqlx::raw_sql(text).execute(conn).await.map(|done| done.rows_affected())
        }

        async fn texts(conn: &mut Conn<Self>, text: &str) -> Result<Vec<String>, sqlx::Error> {
            let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(conn).await?;
            rows.iter().map(|row| row.try_get_unchecked(0)).collect()
        }

        async fn number(conn: &mut Conn<Self>, text: &str) -> Result<i64, sqlx::Error> {
            let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(conn).await?;
            rows.last().ok_or(sqlx::Error::RowNotFound)?.try_get(0)
        }
    };
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl Engine for Sqlite {
    type Site = TempDir;

    const HAS_ONE_WRITER: bool = true;
    const BEGIN: &'static str = "BEGIN IMMEDIATE";
    const ORDERS: &'static str =
        "CREATE TABLE orders (number INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT";
    const HASTE: &'static str = "PRAGMA synchronous = OFF";
    // It has a mark that can be moved.
    const TAKE_CLOCK: &'static str = "SELECT latest FROM hapax_clock";
    const MOVE_CLOCK: &'static str =
        "UPDATE hapax_clock SET latest = (SELECT now FROM hapax_now) + {span} RETURNING latest";

    async fn site() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn place(site: &TempDir) -> String {
        site.path().join("hapax.db").to_str().unwrap().to_owned()
    }

    fn url(place: &str) -> String {
        format!("sqlite://{place}")
    }

    fn octets(octets: &[u8]) -> String {
        format!("x'{}'", hex(octets))
    }

    fn refusal(deed: Deed, table: &str, condition: &str) -> String {
        format!(
            "CREATE TRIGGER no_{deed:?}_{table} BEFORE {deed:?} ON {table} WHEN {condition}
             BEGIN SELECT RAISE(ABORT, 'poison'); END"
        )
    }

    speaks!();
}

impl Engine for Postgres {
    type Site = hapax_testkit::Database;

    const HAS_ONE_WRITER: bool = false;
    const BEGIN: &'static str = "BEGIN";
    const ORDERS: &'static str = "CREATE TABLE orders (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)";
    const HASTE: &'static str = "SET synchronous_commit = off";
    const TAKE_CLOCK: &'static str = "CREATE TABLE hapax_test_clock (latest bigint NOT NULL);
        INSERT INTO hapax_test_clock VALUES (0);
        CREATE OR REPLACE VIEW hapax_now (now) AS
        SELECT greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, latest)
        FROM hapax_test_clock";
    const MOVE_CLOCK: &'static str =
        "UPDATE hapax_test_clock SET latest = (SELECT now FROM hapax_now) + {span}
         RETURNING latest";

    async fn site() -> Self::Site {
        hapax_testkit::postgres().await.unwrap()
    }

    fn place(site: &Self::Site) -> String {
        site.url().to_owned()
    }

    fn octets(octets: &[u8]) -> String {
        format!(r"'\x{}'::bytea", hex(octets))
    }

    fn refusal(deed: Deed, table: &str, condition: &str) -> String {
        let name = format!("no_{deed:?}_{table}");
        format!(
            "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'poison'; END $$;
             CREATE TRIGGER {name} BEFORE {deed:?} ON {table} FOR EACH ROW WHEN ({condition})
             EXECUTE FUNCTION {name}()"
        )
    }

    speaks!();
}

impl Engine for MySql {
    type Site = hapax_testkit::Database;

    const HAS_ONE_WRITER: bool = false;
    const BEGIN: &'static str = "BEGIN";
    const ORDERS: &'static str = "CREATE TABLE orders (
        number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        item VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL)";
    const HASTE: &'static str = "SET @hasty = TRUE";
    const TAKE_CLOCK: &'static str = "CREATE TABLE hapax_test_clock (latest BIGINT NOT NULL);
        INSERT INTO hapax_test_clock VALUES (0);
        CREATE OR REPLACE VIEW hapax_now (now) AS
        SELECT GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000, latest)
        FROM hapax_test_clock";
    const MOVE_CLOCK: &'static str = "SET @now = (SELECT now FROM hapax_now);
        UPDATE hapax_test_clock SET latest = @now + {span};
        SELECT latest FROM hapax_test_clock";

    async fn site() -> Self::Site {
        hapax_testkit::mariadb().await.unwrap()
    }

    fn place(site: &Self::Site) -> String {
        site.url().to_owned()
    }

    fn octets(octets: &[u8]) -> String {
        format!("x'{}'", hex(octets))
    }

    fn refusal(deed: Deed, table: &str, condition: &str) -> String {
        format!(
            "CREATE TRIGGER no_{deed:?}_{table} BEFORE {deed:?} ON {table} FOR EACH ROW
             IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'poison'; END IF"
        )
    }

    speaks!();
}
