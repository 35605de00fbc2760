//! Messages: what waits, what was given up, and sending it again.

use hapax::{
    Actor,
    message::{Letters, MessageId, Outbox},
};
use serde::Serialize;

use super::Office;
use crate::{
    error::{Error, Kind},
    utc::rfc3339,
};

/// A message as an operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct LetterLine {
    /// 32 hex digits; the receiver knows it by them.
    pub id: String,
    /// Its place among all messages.
    pub sequence: i64,
    /// Where it goes.
    pub topic: String,
    /// Messages with an equal key leave in order.
    pub key: String,
    /// Failures so far.
    pub attempts: u32,
    /// When it was written.
    pub created_at: String,
    /// Why it was given up.
    pub buried: Option<String>,
}

impl Office {
    /// Messages after `sequence`: all of them, or only those that were given up.
    ///
    /// # Errors
    /// [`Kind::Store`].
    pub async fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> Result<Vec<LetterLine>, Error> {
        let letters = self.sql.letters(which, after, rows).await.map_err(Error::store)?;
        let line = |letter: hapax::message::Letter| LetterLine {
            id: letter.message.id.to_string(),
            sequence: letter.sequence,
            topic: letter.message.topic.as_str().to_owned(),
            key: letter.message.key,
            attempts: letter.attempts,
            created_at: rfc3339(letter.created_at),
            buried: letter.buried.map(|burial| burial.why),
        };
        Ok(letters.into_iter().map(line).collect())
    }

    /// Sends a message again that was given up, under the same id. `Ok(false)`: there is none.
    ///
    /// # Errors
    /// [`Kind::Config`] for text that is no id; [`Kind::Store`].
    pub async fn replay(&self, id: &str, by: &str, reason: &str) -> Result<bool, Error> {
        let usage = |why: String| Error::caused(Kind::Config, "read the request", why);
        let id = MessageId::parse(id).map_err(|why| usage(why.to_string()))?;
        let by = Actor::parse(by).map_err(|why| usage(why.to_string()))?;
        Outbox::replay(&self.sql, id, by, reason.to_owned()).await.map_err(Error::store)
    }
}
