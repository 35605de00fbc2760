//! Messages: what waits, what was given up, and sending it again.

use serde::Serialize;

use super::{Office, bounded, invalid};
use crate::{error::Error, utc::rfc3339};
use hapax::{
    Actor,
    message::{Letter, Letters, MessageId, Outbox},
    sql::Handling,
};

/// Which messages an operator wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Every one that has not arrived.
    All,
    /// Given up.
    Buried,
}

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

/// A page of messages.
#[derive(Clone, Debug, Serialize)]
pub struct LetterPage {
    /// The messages, in the order in which they were written.
    pub messages: Vec<LetterLine>,
    /// Where the next page begins.
    pub next: Option<i64>,
}

/// Everything about one message.
#[derive(Clone, Debug, Serialize)]
pub struct LetterDetail {
    /// Its line.
    #[serde(flatten)]
    pub line: LetterLine,
    /// What it says; text that is no JSON is a string.
    pub payload: serde_json::Value,
    /// Who gave it up or sent it again, oldest first.
    pub history: Vec<HandlingLine>,
}

/// One line of a message's history.
#[derive(Clone, Debug, Serialize)]
pub struct HandlingLine {
    /// When.
    pub at: String,
    /// `buried` or `replayed`.
    pub event: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// What became of a request to send a message again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It leaves again, under the same id.
    Sent,
    /// It was not given up: it is on its way.
    OnItsWay,
    /// There is no such message: it was acknowledged, or never written.
    Missing,
}

impl Office {
    /// Messages after the one of this sequence: all of them, or only those that were given up.
    ///
    /// # Errors
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn letters(&self, which: Which, after: i64, rows: u16) -> Result<LetterPage, Error> {
        let rows = bounded(rows);
        let which = match which {
            Which::All => Letters::All,
            Which::Buried => Letters::Buried,
        };
        let letters = self.sql.letters(which, after, rows).await.map_err(Error::store)?;
        let messages: Vec<_> = letters.iter().map(line).collect();
        let last = messages.last().map(|line| line.sequence);
        let next = match last.filter(|_| messages.len() == usize::from(rows)) {
            // Whether anything follows is asked, not guessed.
            Some(last) => {
                let more = self.sql.letters(which, last, 1).await.map_err(Error::store)?;
                (!more.is_empty()).then_some(last)
            }
            None => None,
        };
        Ok(LetterPage { messages, next })
    }

    /// One message by its id. `None`: it was acknowledged, or there never was one.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for text that is no id;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn letter(&self, id: &str) -> Result<Option<LetterDetail>, Error> {
        let id = MessageId::parse(id).map_err(invalid)?;
        let Some(letter) = self.sql.letter(id).await? else { return Ok(None) };
        let history = self.sql.handlings(id).await?;
        let payload = &letter.message.payload;
        Ok(Some(LetterDetail {
            line: line(&letter),
            payload: serde_json::from_slice(payload)
                .unwrap_or_else(|_| String::from_utf8_lossy(payload).into_owned().into()),
            history: history.into_iter().map(handling).collect(),
        }))
    }

    /// How many messages were given up.
    ///
    /// # Errors
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn buried(&self) -> Result<u64, Error> {
        Ok(self.sql.depth().await.map_err(Error::store)?.buried)
    }

    /// Sends a message again that was given up, under the same id.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for text that is no id or no name;
    /// [`Kind::Store`](crate::Kind::Store).
    pub async fn replay(&self, id: &str, by: &str, reason: &str) -> Result<Replayed, Error> {
        let id = MessageId::parse(id).map_err(invalid)?;
        let by = Actor::parse(by).map_err(invalid)?;
        if Outbox::replay(&self.sql, id, by, reason.to_owned()).await.map_err(Error::store)? {
            return Ok(Replayed::Sent);
        }
        let letter = self.sql.letter(id).await?;
        Ok(if letter.is_some() { Replayed::OnItsWay } else { Replayed::Missing })
    }
}

fn line(letter: &Letter) -> LetterLine {
    LetterLine {
        id: letter.message.id.to_string(),
        sequence: letter.sequence,
        topic: letter.message.topic.as_str().to_owned(),
        key: letter.message.key.clone(),
        attempts: letter.attempts,
        created_at: rfc3339(letter.created_at),
        buried: letter.buried.as_ref().map(|burial| burial.why.clone()),
    }
}

fn handling(handling: Handling) -> HandlingLine {
    HandlingLine {
        at: rfc3339(handling.at),
        event: handling.event,
        actor: handling.actor.as_str().to_owned(),
        reason: handling.reason,
    }
}
