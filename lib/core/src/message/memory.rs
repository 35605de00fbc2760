//! The reference outbox: a list in memory, read as the words of [`Outbox`] say.
//!
//! Every other outbox is compared with it. It looks through all letters at each claim, which is
//! plain and slow: for tests and for messages that need not outlive the process.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, ready};
use tokio::sync::watch;

use super::outbox::{
    Burial, Delivery, Depth, Letter, Letters, Message, MessageId, Outbox, PAYLOAD_BYTES_MAX,
};
use crate::{
    id::Actor,
    invalid::Invalid,
    record::Nonce,
    store::{Fault, FaultKind},
    time::{Clock, SystemClock, Timestamp},
};

/// Letters that are kept. A full outbox refuses new ones and drops none.
pub const LETTERS_MAX: usize = 100_000;

/// Replays that are remembered; the oldest go first. Memory is no archive.
const REPLAYS_MAX: usize = 1_000;
/// Longest order key, in bytes: what every store can index.
const KEY_BYTES_MAX: usize = 255;

/// An outbox in the memory of this process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct MemoryOutbox(Arc<Shared>);

struct Shared {
    post: Mutex<Post>,
    written: watch::Sender<()>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Post {
    rows: BTreeMap<i64, Row>,
    serial: i64,
    latest: Timestamp,
    replays: VecDeque<Replay>,
}

struct Row {
    letter: Letter,
    visible_at: Timestamp,
    token: Option<Nonce>,
}

/// Who had a buried message sent again, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which message.
    pub id: MessageId,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// Who.
    pub by: Actor,
    /// Why.
    pub reason: String,
}

impl MemoryOutbox {
    /// An outbox on the machine's clock.
    pub fn new() -> Self {
        Self::on(Arc::new(SystemClock))
    }

    /// An outbox on `clock`.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        let (post, written) = (Mutex::default(), watch::Sender::new(()));
        Self(Arc::new(Shared { post, written, clock }))
    }

    /// Writes a message. One that is on its way or buried already is not written twice.
    ///
    /// # Errors
    /// A fault of kind [`FaultKind::Full`] when it holds its maximum, and of kind
    /// [`FaultKind::Corrupt`] for a message over its bounds.
    pub fn write(&self, message: Message) -> Result<(), Fault> {
        check(&message).map_err(|invalid| Fault::new(FaultKind::Corrupt, invalid))?;
        let (mut post, now) = self.0.now();
        if post.find(message.id).is_some() {
            return Ok(());
        }
        if post.rows.len() >= LETTERS_MAX {
            return Err(Fault::new(FaultKind::Full, "the memory outbox holds its maximum"));
        }
        post.serial += 1;
        let sequence = post.serial;
        let letter = Letter { message, sequence, attempts: 0, created_at: now, buried: None };
        post.rows.insert(sequence, Row { letter, visible_at: now, token: None });
        drop(post);
        self.0.written.send_replace(());
        Ok(())
    }

    /// The latest replays, oldest first.
    pub fn replays(&self) -> Vec<Replay> {
        self.0.post().replays.iter().cloned().collect()
    }
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letters = self.0.post().rows.len();
        f.debug_struct("MemoryOutbox").field("letters", &letters).finish_non_exhaustive()
    }
}

fn check(message: &Message) -> Result<(), Invalid> {
    if message.payload.len() > PAYLOAD_BYTES_MAX {
        return Err(Invalid::new("message payload", "is over 256 KiB; send a reference"));
    }
    if message.key.len() > KEY_BYTES_MAX {
        return Err(Invalid::new("message key", "is longer than 255 bytes; shorten it"));
    }
    Ok(())
}

impl Shared {
    /// Every change under this lock is complete when it is let go.
    fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The letters at the store's now, which never goes back.
    fn now(&self) -> (MutexGuard<'_, Post>, Timestamp) {
        let mut post = self.post();
        post.latest = std::cmp::max(post.latest, self.clock.wall());
        let now = post.latest;
        (post, now)
    }

    /// Changes the row that this claim holds.
    fn change(
        &self,
        id: MessageId,
        token: Nonce,
        change: impl FnOnce(&mut Row, Timestamp),
    ) -> bool {
        let (mut post, now) = self.now();
        match post.find(id).filter(|row| row.token == Some(token)) {
            Some(row) => {
                change(row, now);
                true
            }
            None => false,
        }
    }
}

impl Post {
    fn find(&mut self, id: MessageId) -> Option<&mut Row> {
        self.rows.values_mut().find(|row| row.letter.message.id == id)
    }

    /// The oldest of each key that are due, with a claim of `lease` on them.
    fn claim(
        &mut self,
        rows: u16,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Vec<Delivery>, Fault> {
        let mut keys = HashSet::new();
        let mut claimed = Vec::new();
        for row in self.rows.values_mut().filter(|row| row.letter.buried.is_none()) {
            if claimed.len() >= usize::from(rows) {
                break;
            }
            let key = &row.letter.message.key;
            if (!key.is_empty() && !keys.insert(key.clone())) || row.visible_at > now {
                continue;
            }
            let token = Nonce::random()
                .map_err(|error| Fault::new(FaultKind::Unavailable, error.to_string()))?;
            row.token = Some(token);
            row.visible_at = now.plus(lease);
            let Letter { message, sequence, attempts, created_at, buried: _ } = row.letter.clone();
            claimed.push(Delivery { message, sequence, attempts, token, created_at });
        }
        Ok(claimed)
    }
}

impl Outbox for MemoryOutbox {
    fn claim(
        &self,
        rows: u16,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Vec<Delivery>, Fault>> {
        let (mut post, now) = self.0.now();
        Box::pin(ready(post.claim(rows, now, lease)))
    }

    fn ack(&self, id: MessageId, token: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let mut post = self.0.post();
        let row = post.find(id).filter(|row| row.token == Some(token));
        let sequence = row.map(|row| row.letter.sequence);
        let gone = sequence.and_then(|sequence| post.rows.remove(&sequence));
        Box::pin(ready(Ok(gone.is_some())))
    }

    fn retry(
        &self,
        id: MessageId,
        token: Nonce,
        pause: Duration,
        attempts: u32,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let held = self.0.change(id, token, |row, now| {
            row.letter.attempts = attempts;
            row.visible_at = now.plus(pause);
            row.token = None;
        });
        Box::pin(ready(Ok(held)))
    }

    fn bury(
        &self,
        id: MessageId,
        token: Nonce,
        burial: Burial,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let held = self.0.change(id, token, |row, _| {
            row.letter.buried = Some(burial);
            row.token = None;
        });
        Box::pin(ready(Ok(held)))
    }

    fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> BoxFuture<'static, Result<Vec<Letter>, Fault>> {
        let post = self.0.post();
        let letters = post.rows.values().map(|row| &row.letter);
        let page = letters
            .filter(|letter| letter.sequence > after)
            .filter(|letter| which == Letters::All || letter.buried.is_some())
            .take(usize::from(rows));
        Box::pin(ready(Ok(page.cloned().collect())))
    }

    fn replay(
        &self,
        id: MessageId,
        by: Actor,
        reason: String,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let (mut post, now) = self.0.now();
        let Some(row) = post.find(id).filter(|row| row.letter.buried.is_some()) else {
            return Box::pin(ready(Ok(false)));
        };
        row.letter.buried = None;
        row.letter.attempts = 0;
        row.visible_at = now;
        if post.replays.len() >= REPLAYS_MAX {
            post.replays.pop_front();
        }
        post.replays.push_back(Replay { id, at: now, by, reason });
        drop(post);
        self.0.written.send_replace(());
        Box::pin(ready(Ok(true)))
    }

    fn depth(&self) -> BoxFuture<'static, Result<Depth, Fault>> {
        let (post, now) = self.0.now();
        let mut depth = Depth::default();
        for letter in post.rows.values().map(|row| &row.letter) {
            if letter.buried.is_some() {
                depth.buried += 1;
            } else {
                depth.waiting += 1;
                depth.oldest = std::cmp::max(depth.oldest, now.since(letter.created_at));
            }
        }
        Box::pin(ready(Ok(depth)))
    }

    fn written(&self) -> BoxFuture<'static, ()> {
        let mut written = self.0.written.subscribe();
        Box::pin(async move {
            // The sender is gone only if the outbox is: then nothing is written any more.
            if written.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
