//! A dialect with something in its way.

use std::{marker::PhantomData, time::Duration};

use sqlx::{Database, Pool, Transaction};

use crate::{
    error::Error,
    sql::{
        Dialect,
        dialect::{Bind, Verbs},
        migrate::Script,
        row::Row,
    },
};

/// What is in the way.
pub(in crate::sql) trait Hitch: Send + Sync + 'static {
    /// The text that is sent for `text`.
    fn text(text: &'static str) -> &'static str {
        text
    }

    /// What befalls the next COMMIT.
    fn loss() -> Loss {
        Loss::None
    }
}

/// What befalls a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sql) enum Loss {
    None,
    /// It arrives; its answer does not.
    Answer,
    /// It does not arrive.
    Request,
}

/// `D`, with `H` in its way.
pub(in crate::sql) struct Hitched<D, H>(PhantomData<(D, H)>);

type Db<D> = <D as Dialect>::Db;
type Conn<D> = <<D as Dialect>::Db as Database>::Connection;

impl<D: Dialect, H: Hitch> Dialect for Hitched<D, H> {
    type Db = Db<D>;
    type Place = D::Place;
}

impl<D: Dialect, H: Hitch> Verbs for Hitched<D, H> {
    type Db = Db<D>;

    const COMMITS_EACH: bool = D::COMMITS_EACH;
    const SCHEMA_COMMITS: bool = D::SCHEMA_COMMITS;
    const SCRIPTS: &'static [Script] = D::SCRIPTS;

    fn hold_max(lease: Duration) -> Duration {
        D::hold_max(lease)
    }

    async fn begin(pool: &Pool<Db<D>>) -> Result<Transaction<'static, Db<D>>, sqlx::Error> {
        D::begin(pool).await
    }

    async fn commit(tx: Transaction<'static, Db<D>>) -> Result<(), sqlx::Error> {
        match H::loss() {
            Loss::None => return D::commit(tx).await,
            Loss::Answer => D::commit(tx).await?,
            Loss::Request => tx.rollback().await?,
        }
        Err(sqlx::Error::WorkerCrashed)
    }

    async fn lend(conn: &mut Conn<D>) -> Result<(), sqlx::Error> {
        D::lend(conn).await
    }

    async fn take_back(conn: &mut Conn<D>) -> Result<(), sqlx::Error> {
        D::take_back(conn).await
    }

    async fn fetch(
        conn: &mut Conn<D>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        D::fetch(conn, H::text(text), binds).await
    }

    async fn execute(
        conn: &mut Conn<D>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<u64, sqlx::Error> {
        D::execute(conn, H::text(text), binds).await
    }

    async fn insert(
        conn: &mut Conn<D>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<bool, sqlx::Error> {
        D::insert(conn, H::text(text), binds).await
    }

    async fn change(
        conn: &mut Conn<D>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        match H::loss() {
            Loss::None => return D::change(conn, H::text(text), binds).await,
            Loss::Answer => drop(D::change(conn, H::text(text), binds).await?),
            Loss::Request => {}
        }
        Err(sqlx::Error::WorkerCrashed)
    }

    async fn read(
        pool: &Pool<Db<D>>,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, sqlx::Error> {
        D::read(pool, H::text(text), binds).await
    }

    async fn lock_schema(conn: &mut Conn<D>) -> Result<(), sqlx::Error> {
        D::lock_schema(conn).await
    }

    async fn unlock_schema(conn: &mut Conn<D>) -> Result<(), sqlx::Error> {
        D::unlock_schema(conn).await
    }

    async fn spoil(conn: &mut Conn<D>, error: &Error) {
        D::spoil(conn, error).await;
    }
}
