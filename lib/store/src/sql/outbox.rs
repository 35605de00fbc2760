//! Messages that leave with a transaction: rows, claims and what becomes of them.
//!
//! Invariant: of each key only the oldest living message is ever claimed, and an
//! acknowledgement counts only with the token of the current claim
//! (`messages_of_a_key_leave_in_order`, `a_lapsed_claim_cannot_acknowledge`).

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Transaction;

use super::{
    dialect::{Bind, Dialect},
    errand::{Done, Errand},
    line::Line,
    row::Row,
    store::{Sql, answer, next},
};
use crate::error::Error;
use hapax_core::{
    Actor, Invalid, Nonce, Timestamp,
    message::{
        Burial, Delivery, Depth, Letter, Letters, Message, MessageId, Outbox, PAYLOAD_BYTES_MAX,
        Topic,
    },
    millis,
    store::{Fault, FaultKind, bounded_note},
};

/// Longest key, in bytes: the bound of [`Message::key`].
const KEY_BYTES_MAX: usize = 255;
/// Messages of one claim: a claim moves each row once and then holds them all for one lease.
const CLAIM_ROWS_MAX: u16 = 1000;
/// Letters of one page.
const LETTERS_ROWS_MAX: u16 = 1000;
/// Lines of one message's journal.
const JOURNAL_ROWS_MAX: i64 = 1000;
/// Longest delay of a message: a century, so that no time overflows.
const DELAY_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// A line of a message's journal: who gave it up or sent it again, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    /// The store's time.
    pub at: Timestamp,
    /// `buried` or `replayed`.
    pub event: String,
    /// Who did it.
    pub actor: Actor,
    /// Why.
    pub reason: String,
}

impl<D: Dialect> Sql<D> {
    /// Writes a message that leaves when the transaction commits.
    ///
    /// Idempotent: a message that is still on its way, or buried, is not written twice.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if the key or the payload is too long; those of
    /// the database.
    pub async fn send(
        &self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        message: &Message,
    ) -> Result<(), Error> {
        self.send_after(tx, message, Duration::ZERO).await
    }

    /// Writes a message that leaves `delay` after the transaction; at most a century.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_after(
        &self,
        tx: &mut Transaction<'_, <D as Dialect>::Db>,
        message: &Message,
        delay: Duration,
    ) -> Result<(), Error> {
        check(message)?;
        let binds = vec![
            Bind::from(&message.id.as_bytes()[..]),
            Bind::from(message.topic.as_str()),
            Bind::from(message.key.as_str()),
            Bind::Bytes(message.payload.clone()),
            Bind::Int(millis(std::cmp::min(delay, DELAY_MAX))),
        ];
        D::insert(tx, D::OUTBOX_SEND, binds).await?;
        Ok(())
    }

    /// One message by its id. `None`: it was acknowledged, or there never was one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn letter(&self, id: MessageId) -> Result<Option<Letter>, Error> {
        let binds = vec![Bind::from(&id.as_bytes()[..])];
        let rows = D::read(self.readers(), D::OUTBOX_LETTER, binds).await?;
        rows.into_iter().next().map(letter).transpose().map_err(Error::torn)
    }

    /// Who buried or replayed a message, oldest first; at most 1000 lines.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn handlings(&self, id: MessageId) -> Result<Vec<Handling>, Error> {
        let binds = vec![Bind::from(&id.as_bytes()[..]), Bind::Int(JOURNAL_ROWS_MAX)];
        let rows = D::read(self.readers(), D::OUTBOX_JOURNAL, binds).await?;
        let line = |mut row: Row| {
            Ok::<_, Invalid>(Handling {
                at: row.time()?,
                event: row.text()?,
                actor: row.actor()?,
                reason: row.text()?,
            })
        };
        rows.into_iter().map(|row| line(row).map_err(Error::torn)).collect()
    }

    fn token(&self) -> Result<Nonce, Fault> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|cause| Fault::new(FaultKind::Unavailable, cause))?;
        Ok(Nonce::from_bytes(bytes))
    }

    fn changes(&self, errand: Errand) -> BoxFuture<'static, Result<bool, Fault>> {
        let done = self.errand(errand);
        Box::pin(async move { Ok(matches!(done.await?, Done::Changed)) })
    }
}

fn check(message: &Message) -> Result<(), Invalid> {
    if message.key.len() > KEY_BYTES_MAX {
        return Err(Invalid::new("message key", "is longer than 255 bytes; shorten it"));
    }
    if message.key.contains('\0') {
        return Err(Invalid::new("message key", "holds NUL, which not every database keeps"));
    }
    if message.payload.len() > PAYLOAD_BYTES_MAX {
        return Err(Invalid::new("message payload", "is longer than 256 KiB; send a reference"));
    }
    Ok(())
}

/// Claims due heads of keys, and messages without a key.
pub(super) async fn claim<D: Dialect>(
    line: &mut Line<'_, D>,
    rows: u16,
    lease: Duration,
    token: Nonce,
) -> Result<Done, Error> {
    let binds = vec![
        Bind::Int(i64::from(std::cmp::min(rows, CLAIM_ROWS_MAX))),
        Bind::Int(millis(lease)),
        Bind::from(&token.as_bytes()[..]),
    ];
    let rows = line.send(D::OUTBOX_CLAIM, binds).await?;
    let deliveries = rows.into_iter().map(|mut row| delivery(&mut row, token));
    let mut deliveries =
        deliveries.collect::<Result<Vec<Delivery>, Invalid>>().map_err(Error::torn)?;
    // An engine returns changed rows in any order.
    deliveries.sort_by_key(|delivery| delivery.sequence);
    Ok(Done::Letters(deliveries))
}

/// What proves a claim.
fn proof(id: MessageId, token: Nonce) -> Vec<Bind> {
    vec![Bind::from(&id.as_bytes()[..]), Bind::from(&token.as_bytes()[..])]
}

async fn change<D: Dialect>(
    line: &mut Line<'_, D>,
    text: &'static str,
    binds: Vec<Bind>,
) -> Result<Done, Error> {
    let changed = line.send(text, binds).await?;
    Ok(if changed.is_empty() { Done::Nothing } else { Done::Changed })
}

pub(super) async fn ack<D: Dialect>(
    line: &mut Line<'_, D>,
    id: MessageId,
    token: Nonce,
) -> Result<Done, Error> {
    change(line, D::OUTBOX_ACK, proof(id, token)).await
}

pub(super) async fn retry<D: Dialect>(
    line: &mut Line<'_, D>,
    id: MessageId,
    token: Nonce,
    pause: Duration,
    attempts: u32,
) -> Result<Done, Error> {
    let mut binds = proof(id, token);
    binds.extend([Bind::Int(millis(pause)), Bind::Int(i64::from(attempts))]);
    change(line, D::OUTBOX_RETRY, binds).await
}

pub(super) async fn bury<D: Dialect>(
    line: &mut Line<'_, D>,
    id: MessageId,
    token: Nonce,
    burial: &Burial,
) -> Result<Done, Error> {
    let mut binds = proof(id, token);
    binds.push(Bind::from(bounded_note(&burial.why).as_str()));
    change(line, D::OUTBOX_BURY, binds).await
}

pub(super) async fn replay<D: Dialect>(
    line: &mut Line<'_, D>,
    id: MessageId,
    by: &Actor,
    reason: &str,
) -> Result<Done, Error> {
    let binds = vec![
        Bind::from(&id.as_bytes()[..]),
        Bind::from(by.as_str()),
        Bind::from(bounded_note(reason).as_str()),
    ];
    change(line, D::OUTBOX_REPLAY, binds).await
}

fn delivery(row: &mut Row, token: Nonce) -> Result<Delivery, Invalid> {
    let sequence = row.int()?;
    let message = Message {
        id: MessageId::from_stored(row.array()?),
        topic: Topic::parse(&row.text()?)?,
        key: row.text()?,
        payload: row.bytes()?,
    };
    let (attempts, created_at) = (row.count()?, row.time()?);
    Ok(Delivery { message, sequence, attempts, token, created_at })
}

fn letter(mut row: Row) -> Result<Letter, Invalid> {
    let Delivery { message, sequence, attempts, created_at, .. } =
        delivery(&mut row, Nonce::from_bytes([0; 16]))?;
    let (visible_at, why) = (row.maybe_time()?, row.maybe_text()?);
    let buried = match visible_at {
        Some(_) => None,
        None => Some(Burial { why: why.unwrap_or_default() }),
    };
    Ok(Letter { message, sequence, attempts, created_at, buried })
}

async fn letters<D: Dialect>(
    sql: &Sql<D>,
    which: Letters,
    after: i64,
    rows: u16,
) -> Result<Vec<Letter>, Error> {
    let text = match which {
        Letters::Buried => D::OUTBOX_BURIED,
        Letters::All => D::OUTBOX_LETTERS,
    };
    let limit = std::cmp::min(rows, LETTERS_ROWS_MAX);
    let binds = vec![Bind::Int(after), Bind::Int(i64::from(limit))];
    let rows = D::read(sql.readers(), text, binds).await?;
    rows.into_iter().map(|row| letter(row).map_err(Error::torn)).collect()
}

async fn depth<D: Dialect>(sql: &Sql<D>) -> Result<Depth, Error> {
    let rows = D::read(sql.readers(), D::OUTBOX_DEPTH, Vec::new()).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(Depth::default()) };
    let mut read = || -> Result<Depth, Invalid> {
        let now = row.time()?;
        let (waiting, buried) = (row.int()?, row.int()?);
        let oldest = row.maybe_time()?.map(|since| now.since(since));
        Ok(Depth {
            waiting: u64::try_from(waiting).unwrap_or_default(),
            buried: u64::try_from(buried).unwrap_or_default(),
            oldest: oldest.unwrap_or_default(),
        })
    };
    read().map_err(Error::torn)
}

impl<D: Dialect> Outbox for Sql<D> {
    fn claim(
        &self,
        rows: u16,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Vec<Delivery>, Fault>> {
        let sql = self.clone();
        let task = self.owned(async move {
            // A relay that finds nothing costs a read and no write.
            let due = D::read(sql.readers(), D::OUTBOX_DUE, Vec::new()).await;
            if due.map_err(|cause| Error::from(cause).into_fault())?.is_empty() {
                return Ok(Vec::new());
            }
            let token = sql.token()?;
            match sql.errand(Errand::ClaimLetters { rows, lease, token }).await? {
                Done::Letters(letters) => Ok(letters),
                Done::Changed | Done::Nothing | Done::Lock(_) => Ok(Vec::new()),
            }
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|cause| Err(Fault::new(FaultKind::Unavailable, cause)))
        })
    }

    fn ack(&self, id: MessageId, token: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        self.changes(Errand::Ack { id, token })
    }

    fn retry(
        &self,
        id: MessageId,
        token: Nonce,
        pause: Duration,
        attempts: u32,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.changes(Errand::Retry { id, token, pause, attempts })
    }

    fn bury(
        &self,
        id: MessageId,
        token: Nonce,
        burial: Burial,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.changes(Errand::Bury { id, token, burial })
    }

    fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> BoxFuture<'static, Result<Vec<Letter>, Fault>> {
        let sql = self.clone();
        answer(self.owned(async move { letters(&sql, which, after, rows).await }))
    }

    fn replay(
        &self,
        id: MessageId,
        by: Actor,
        reason: String,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.changes(Errand::Replay { id, by, reason })
    }

    fn depth(&self) -> BoxFuture<'static, Result<Depth, Fault>> {
        let sql = self.clone();
        answer(self.owned(async move { depth(&sql).await }))
    }

    fn written(&self) -> BoxFuture<'static, ()> {
        next(&self.shared().written)
    }
}
