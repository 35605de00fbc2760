//! Where a relay sends.

use futures_util::future::BoxFuture;

use super::outbox::Delivery;

/// The way to the receivers of some topics: a broker or a webhook.
pub trait Transport: Send + Sync + 'static {
    /// Hands the message over and completes when the receiver, or the broker, has it for good.
    ///
    /// A broker must have confirmed it. The receiver knows it by its id, which is the same in
    /// every repeat.
    ///
    /// # Errors
    /// [`SendError`] says whether it was the message's fault or the way's.
    ///
    /// # Cancellation
    /// Dropped when it takes too long; the message is then sent again.
    fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>>;

    /// Who must be up for this delivery, such as the host of a webhook: an outage there holds up
    /// its own messages only. `None`: the transport as a whole, as with a broker.
    fn receiver(&self, delivery: &Delivery) -> Option<String>;
}

/// Why a message did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "its own fault, the way's, or hopeless: complete")]
pub enum SendError {
    /// The receiver is up and refused this message. Counts as an attempt.
    #[error("the receiver refused the message: {why}")]
    Rejected {
        /// What it said.
        why: String,
    },
    /// The receiver cannot be reached. Counts for nothing and pauses what goes there.
    #[error("the receiver cannot be reached: {why}")]
    Away {
        /// How it failed.
        why: String,
    },
    /// Nobody will ever be able to read this message. Buried at once.
    #[error("the message cannot be read: {why}")]
    Malformed {
        /// What is wrong with it.
        why: String,
    },
}
