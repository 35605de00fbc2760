//! Messages that arrive: the row that says "seen" is part of the consumer's own transaction.
//!
//! Invariant: a message counts as seen exactly if the work that it caused was committed
//! (`a_rolled_back_message_is_first_again`).

use sqlx::Transaction;

use super::{
    dialect::{Bind, Dialect},
    store::Sql,
};
use crate::error::Error;
use hapax_core::message::{MessageId, Received};

impl<D: Dialect> Sql<D> {
    /// Says whether `consumer` sees the message for the first time, and remembers it when the
    /// transaction commits.
    ///
    /// `consumer` is a declared, stable name: another name sees every message anew.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn once(
        &self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        consumer: &str,
        message: MessageId,
    ) -> Result<Received, Error> {
        let binds = vec![Bind::from(consumer), Bind::from(&message.as_bytes()[..])];
        let is_first = D::insert(tx, D::INBOX_ONCE, binds).await?;
        Ok(if is_first { Received::First } else { Received::Repeat })
    }
}
