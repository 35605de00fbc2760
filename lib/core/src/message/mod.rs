//! Messages that leave with a transaction and arrive in one.
//!
//! The sender writes to the [`Outbox`] inside its transaction and the [`Relay`] sends afterwards,
//! through a [`Transport`] per topic; the receiver writes the [inbox](Received) row inside its
//! own. In between everything may be repeated, under the same id.
//!
//! Invariant: a message leaves the outbox only when its receiver has it or when it is buried, and
//! it is buried only for failures of its own (`an_outage_burns_no_attempts_and_poison_is_buried`,
//! `a_relay_that_dies_between_send_and_ack_repeats_with_the_same_id`), and one that is owed never
//! for being refused (`a_message_that_is_owed_is_never_buried_for_being_refused`); messages of one
//! key leave in their order (`messages_of_a_key_keep_their_order_with_eight_relays`).

mod backoff;
mod circuit;
mod inbox;
mod memory;
mod outbox;
mod relay;
#[cfg(test)]
mod tests;
mod transport;

pub use self::{
    backoff::Backoff,
    inbox::{Horizon, Window},
    memory::{LETTERS_MAX, MemoryOutbox, Replay},
    outbox::{
        Burial, Delivery, Depth, Letter, Letters, Message, MessageId, Outbox, PAYLOAD_BYTES_MAX,
        Received, Topic,
    },
    relay::{AT_ONCE, BATCH_MAX, Happening, LEASE, Relay, TRIES_MAX},
    transport::{SendError, Transport},
};
