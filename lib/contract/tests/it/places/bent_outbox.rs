//! Outboxes that break one rule each; the suite must see it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use super::is_refused;
use hapax_contract::{
    BoxFuture,
    outbox::{self, Memory, Office, Write},
    run,
};
use hapax_core::{
    Actor, Nonce,
    message::{Burial, Delivery, Depth, Letter, Letters, Message, MessageId, Outbox},
    store::Fault,
};

/// What is wrong with the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bend {
    /// A word needs no token.
    AnyToken,
    /// A key orders nothing.
    NoKeys,
    /// A retry forgets how often it failed.
    ForgetsAttempts,
    /// A retry forgets its pause.
    ForgetsPause,
    /// A burial holds up its key: the message is only put far away.
    BurialBlocks,
    /// The reason of a burial is lost.
    ForgetsReason,
    /// A replay is another message.
    ReplayIsNew,
    /// Whatever is there can be replayed.
    ReplaysAnything,
    /// A claim gives one more than was asked for.
    OneTooMany,
    /// What is written twice is kept twice.
    Twice,
    /// A call begins when it is first polled.
    Lazy,
}

struct Bent(Memory, Bend);

/// The latest token of each message, as if nobody compared them.
type Tokens = Arc<Mutex<HashMap<MessageId, Nonce>>>;

struct BentOutbox {
    outbox: Arc<dyn Outbox>,
    write: Write,
    bend: Bend,
    tokens: Tokens,
}

impl Office for Bent {
    fn name(&self) -> &'static str {
        "bent"
    }

    fn open(&self) -> BoxFuture<'_, (Arc<dyn Outbox>, Write)> {
        Box::pin(async {
            let (outbox, write) = self.0.open().await;
            let bend = self.1;
            let (inner, serial) = (Arc::clone(&write), Arc::new(AtomicU32::new(0)));
            let bent: Write = Arc::new(move |message| {
                let serial = serial.fetch_add(1, Ordering::SeqCst);
                let message = match bend {
                    Bend::NoKeys => Message { key: String::new(), ..message },
                    Bend::Twice => Message { id: MessageId::of(&[&serial.to_string()]), ..message },
                    _ => message,
                };
                inner(message)
            });
            let outbox = BentOutbox { outbox, write, bend, tokens: Arc::default() };
            (Arc::new(outbox) as Arc<dyn Outbox>, bent)
        })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.pass(span)
    }

    fn beat(&self) -> Duration {
        self.0.beat()
    }
}

fn lock(tokens: &Tokens) -> MutexGuard<'_, HashMap<MessageId, Nonce>> {
    tokens.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BentOutbox {
    fn token(&self, id: MessageId, token: Nonce) -> Nonce {
        let tokens = lock(&self.tokens);
        let latest = tokens.get(&id).copied().filter(|_| self.bend == Bend::AnyToken);
        latest.unwrap_or(token)
    }
}

impl Outbox for BentOutbox {
    fn claim(
        &self,
        rows: u16,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Vec<Delivery>, Fault>> {
        let rows = if self.bend == Bend::OneTooMany { rows + 1 } else { rows };
        let (claimed, tokens) = (self.outbox.claim(rows, lease), Arc::clone(&self.tokens));
        Box::pin(async move {
            let claimed = claimed.await?;
            let seen = claimed.iter().map(|delivery| (delivery.message.id, delivery.token));
            lock(&tokens).extend(seen);
            Ok(claimed)
        })
    }

    fn ack(&self, id: MessageId, token: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let (outbox, token) = (Arc::clone(&self.outbox), self.token(id, token));
        if self.bend == Bend::Lazy {
            return Box::pin(async move { outbox.ack(id, token).await });
        }
        outbox.ack(id, token)
    }

    fn retry(
        &self,
        id: MessageId,
        token: Nonce,
        pause: Duration,
        attempts: u32,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let token = self.token(id, token);
        match self.bend {
            Bend::ForgetsAttempts => self.outbox.retry(id, token, pause, 0),
            Bend::ForgetsPause => self.outbox.retry(id, token, Duration::ZERO, attempts),
            _ => self.outbox.retry(id, token, pause, attempts),
        }
    }

    fn bury(
        &self,
        id: MessageId,
        token: Nonce,
        burial: Burial,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let token = self.token(id, token);
        match self.bend {
            Bend::BurialBlocks => self.outbox.retry(id, token, Duration::from_secs(1_000_000), 12),
            Bend::ForgetsReason => self.outbox.bury(id, token, Burial { why: String::new() }),
            _ => self.outbox.bury(id, token, burial),
        }
    }

    fn letters(
        &self,
        which: Letters,
        after: i64,
        rows: u16,
    ) -> BoxFuture<'static, Result<Vec<Letter>, Fault>> {
        self.outbox.letters(which, after, rows)
    }

    fn replay(
        &self,
        id: MessageId,
        by: Actor,
        reason: String,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        match self.bend {
            Bend::ReplaysAnything => Box::pin(async { Ok(true) }),
            Bend::ReplayIsNew => {
                let (outbox, write) = (Arc::clone(&self.outbox), Arc::clone(&self.write));
                Box::pin(async move {
                    for letter in outbox.letters(Letters::Buried, 0, 100).await? {
                        let id = MessageId::of(&["another"]);
                        write(Message { id, ..letter.message }).await;
                    }
                    Ok(true)
                })
            }
            _ => self.outbox.replay(id, by, reason),
        }
    }

    fn depth(&self) -> BoxFuture<'static, Result<Depth, Fault>> {
        self.outbox.depth()
    }

    fn written(&self) -> BoxFuture<'static, ()> {
        self.outbox.written()
    }
}

macro_rules! bent {
    ($($fact:ident: $bend:ident => $($case:ident)+;)+) => {$(
        #[test]
        fn $fact() {
            $(
                let office = Bent(Memory::new(), Bend::$bend);
                let is_seen = is_refused(|| run(outbox::$case(&office)));
                assert!(is_seen, "{} does not see it", stringify!($case));
            )+
        }
    )+};
}

bent! {
    a_word_without_a_token_is_found: AnyToken => a_claim_that_was_taken_over_changes_nothing;
    keys_that_order_nothing_are_found:
        NoKeys => only_the_oldest_of_a_key_is_claimed a_key_waits_while_its_oldest_is_tried_again;
    forgotten_attempts_are_found: ForgetsAttempts => a_retry_waits_and_keeps_its_attempts;
    a_forgotten_pause_is_found: ForgetsPause => a_retry_waits_and_keeps_its_attempts;
    a_burial_that_blocks_its_key_is_found: BurialBlocks => a_burial_frees_its_key;
    a_lost_reason_is_found: ForgetsReason => a_buried_message_is_shown_with_its_reason;
    a_replay_under_another_id_is_found:
        ReplayIsNew => a_replayed_message_keeps_its_id_and_place;
    a_replay_of_anything_is_found: ReplaysAnything => only_a_buried_message_is_replayed;
    a_claim_over_its_bound_is_found: OneTooMany => a_claim_is_bounded;
    a_message_that_is_kept_twice_is_found: Twice => a_message_is_written_once;
    a_lazy_acknowledgement_is_found: Lazy => a_dropped_call_abandons_only_the_answer;
}
