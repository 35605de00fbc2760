//! Where changes go: into a transaction at hand, or to the database as transactions of their own.

use super::{
    dialect::{Bind, Conn, Dialect},
    row::Row,
    store::Sql,
};
use crate::error::Error;

/// Where changes go.
pub(super) enum Line<'a, D: Dialect> {
    /// Into this transaction.
    Within(&'a mut Conn<D>),
    /// To the database, each as a transaction of its own.
    Each(&'a Sql<D>),
}

impl<D: Dialect> Line<'_, D> {
    /// Sends a change; the rows say what it changed.
    pub(super) async fn send(
        &mut self,
        change: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Within(conn) => Ok(D::fetch(conn, change, binds).await?),
            Self::Each(sql) => sql.change(change, binds).await,
        }
    }

    /// Reads what the changes before it left.
    pub(super) async fn read(
        &mut self,
        text: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Within(conn) => Ok(D::fetch(conn, text, binds).await?),
            Self::Each(sql) => Ok(D::read(sql.readers(), text, binds).await?),
        }
    }
}
