//! What an outbox keeps and what it must do.

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{
    id::{Actor, Framed, from_hex},
    invalid::Invalid,
    record::Nonce,
    store::Fault,
    time::Timestamp,
};

const MESSAGE_DOMAIN: &[u8] = b"hapax.message.v1";

/// Largest payload, in bytes: what every broker that we speak to takes without tuning.
pub const PAYLOAD_BYTES_MAX: usize = 256 * 1024;

/// The identity of a message, made from what it is about: the same fact is the same message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId([u8; 16]);

impl MessageId {
    /// The id of the message about these parts, such as payment, version and topic.
    pub fn of(parts: &[&str]) -> Self {
        let mut hash = Framed::new(MESSAGE_DOMAIN);
        for part in parts {
            hash.part(part.as_bytes());
        }
        let mut bytes = [0; 16];
        for (slot, byte) in bytes.iter_mut().zip(hash.finish()) {
            *slot = byte;
        }
        Self(bytes)
    }

    /// Reads the 32 hex digits that are shown of it.
    ///
    /// # Errors
    /// [`Invalid`] if it is anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        from_hex(text).map(Self).ok_or_else(|| Invalid::new("message id", "must be 32 hex digits"))
    }

    /// Reads an id that a store kept.
    pub fn from_stored(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes as a store keeps them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// Where a message goes: the same alphabet and bound as an operation's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic(crate::id::OperationName);

impl Topic {
    /// Reads a topic of 1–64 characters from `a`–`z`, `0`–`9`, `.`, `_` and `-`.
    ///
    /// # Errors
    /// [`Invalid`] says which rule the text breaks.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        crate::id::OperationName::parse(text).map(Self)
    }

    /// The topic as it was given.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A message on its way out.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is known by, to us and to the receiver's inbox.
    pub id: MessageId,
    /// Where it goes.
    pub topic: Topic,
    /// Messages with an equal key leave in the order in which they were written; empty is no
    /// order. At most 255 bytes.
    pub key: String,
    /// What it says; at most [`PAYLOAD_BYTES_MAX`].
    pub payload: Bytes,
}

impl fmt::Debug for Message {
    /// Leaves key and payload out: they must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} {}, {} bytes)", self.topic.as_str(), self.id, self.payload.len())
    }
}

/// A message that a relay has claimed.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub message: Message,
    /// Its place among all messages, as a sequence number for the receiver.
    pub sequence: i64,
    /// Message-specific failures so far.
    pub attempts: u32,
    /// Proves the claim: acknowledgements check it.
    pub token: Nonce,
    /// When it was written.
    pub created_at: Timestamp,
}

/// Why a message is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burial {
    /// What the receiver said, at most 255 bytes.
    pub why: String,
}

/// A message as an operator sees it.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The message.
    pub message: Message,
    /// Its place among all messages.
    pub sequence: i64,
    /// Message-specific failures so far.
    pub attempts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// Why it was buried; `None` while it is on its way.
    pub buried: Option<Burial>,
}

/// How full an outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages on their way.
    pub waiting: u64,
    /// Messages given up.
    pub buried: u64,
    /// How long the oldest one has waited.
    pub oldest: Duration,
}

/// What an inbox says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a message is new or it is not")]
pub enum Received {
    /// Seen for the first time: do the work in the same transaction.
    First,
    /// Seen before: the work was done; acknowledge.
    Repeat,
}

/// The rows of an outbox, as a relay and an operator use them. Writing a message is not here: it
/// belongs in the caller's transaction.
///
/// # Cancellation
/// The work of a call begins with the call. Dropping the future abandons the answer only.
pub trait Outbox: Send + Sync + 'static {
    /// Claims at most `rows` due messages for `lease`, oldest first, and of each key only the
    /// oldest that is not buried.
    fn claim(&self, rows: u16, lease: Duration)
    -> BoxFuture<'static, Result<Vec<Delivery>, Fault>>;

    /// The receiver has it: the row goes. `false`: the claim had lapsed and somebody else has it.
    fn ack(&self, id: MessageId, token: Nonce) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Makes it due again after `pause`, with `attempts` failures on its account.
    fn retry(
        &self,
        id: MessageId,
        token: Nonce,
        pause: Duration,
        attempts: u32,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Gives it up. Later messages of its key go on.
    fn bury(
        &self,
        id: MessageId,
        token: Nonce,
        burial: Burial,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// At most `rows` letters after `sequence`: buried ones, or all.
    fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> BoxFuture<'static, Result<Vec<Letter>, Fault>>;

    /// Sends a buried message again under the same id, so that the receiver's inbox still knows
    /// it. Who and why is journalled. `false`: there is no such buried message.
    fn replay(
        &self,
        id: MessageId,
        by: Actor,
        reason: String,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// How full it is.
    fn depth(&self) -> BoxFuture<'static, Result<Depth, Fault>>;

    /// Completes on a hint that a message was written: early, late or never.
    fn written(&self) -> BoxFuture<'static, ()>;
}

/// Which letters an operator wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the dead ones or all")]
pub enum Letters {
    /// Given up.
    Buried,
    /// Every one.
    All,
}
