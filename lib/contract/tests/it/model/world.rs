//! One key and all that is on its way: the record, the workers, the wire and the receiver.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
    sync::OnceLock,
    time::Duration,
};

use hapax_core::{
    Actor, BusinessKey, Effect, Epoch, Fence, Id, Identity, Nonce, OperationName, Outcome, Prints,
    Record, Retention, State, Tenant, Timestamp,
    store::{Claim, Ruling, Step},
};

/// One tick of the model's clock. A lease lasts one.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// The clock at tick 0.
const START: Timestamp = Timestamp::from_millis(1_000_000);
/// Ticks for which a receiver of keyed effects remembers a key.
pub(super) const WINDOW: u8 = 3;

/// A state of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) tick: u8,
    pub(super) record: Option<Kept>,
    pub(super) workers: Vec<Worker>,
    pub(super) receiver: Receiver,
    /// What may still go wrong.
    pub(super) budget: Budget,
    /// A holder died or did not learn what its effect did, or a caller gave up and could not
    /// take its claim back: only then may a record wait for a person.
    pub(super) excused: bool,
    /// A late claim of an ended attempt was refused.
    pub(super) spent: bool,
    /// A judge has settled the record.
    pub(super) settled: bool,
}

/// A record as the real rule makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept(pub(super) Arc<Record>);

impl Hash for Kept {
    /// All that a later move can depend on in this model.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let record = &self.0;
        (record.terms, record.state, record.epoch, record.nonce).hash(hasher);
        (record.lease_until, record.reuse_at, record.attempts, record.created_at).hash(hasher);
    }
}

/// One attempt of one caller: it has one nonce for life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    /// Copies of its claim on the wire.
    pub(super) claims: u8,
    /// Its effect on the wire, with the epoch under which it was sent.
    pub(super) effect: Option<i64>,
    /// Its completion on the wire, sent but no longer waited for.
    pub(super) word: Option<i64>,
}

/// What a worker is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It has not begun.
    Idle,
    /// It waits for the answer to its claim.
    Claiming,
    /// It has given up waiting and takes its claim back.
    TakingBack,
    /// It got the claim after all and hands it back.
    Returning(Hold),
    /// It must ask the receiver first.
    Asking(Hold),
    /// The receiver knew of nothing; now earlier attempts are sealed.
    Sealing(Hold),
    /// It owns the work and has done nothing yet.
    Running(Hold),
    /// It has sent the effect and waits for the answer.
    Acting(Hold),
    /// It knows that the effect happened and says so.
    Knows(Hold),
    /// It knows that nothing happened and says so.
    Releasing(Hold),
    /// It does not know and says so.
    Doubting(Hold),
    /// Its commit was not answered.
    Resolving(Hold),
    /// It is gone.
    Gone,
}

/// What a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) epoch: i64,
    pub(super) attempt: u32,
    /// Past this moment it may not act any more.
    pub(super) until: Option<Timestamp>,
}

/// Where the effects go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    /// How often the effect has taken place.
    pub(super) applied: u8,
    /// Keys that it remembers, with the tick of their first receipt.
    pub(super) keys: Vec<(i64, u8)>,
    /// Attempts below this epoch are void.
    pub(super) sealed_below: i64,
}

/// How much may still go wrong, so that the search ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Claims that are sent once more.
    pub(super) resends: u8,
    /// Answers and effects that are lost, and words that are held back.
    pub(super) losses: u8,
    /// Workers that die or give up.
    pub(super) deaths: u8,
    /// Renewals.
    pub(super) renewals: u8,
}

impl World {
    pub(super) fn new(workers: usize, budget: Budget) -> Self {
        let idle = Worker { phase: Phase::Idle, claims: 0, effect: None, word: None };
        Self {
            tick: 0,
            record: None,
            workers: vec![idle; workers],
            receiver: Receiver::default(),
            budget,
            excused: false,
            spent: false,
            settled: false,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        START.plus(TICK * u32::from(self.tick))
    }

    /// Nobody moves any more and nothing is on the wire.
    pub(super) fn is_at_rest(&self) -> bool {
        self.workers.iter().all(|worker| {
            worker.phase == Phase::Gone
                && (worker.claims, worker.effect, worker.word) == (0, None, None)
        })
    }

    pub(super) fn state(&self) -> Option<State> {
        self.record.as_ref().map(|kept| kept.0.state)
    }
}

/// The claim of one worker, or of one that comes when all is over. Made once: it is asked for in
/// every move.
pub(super) fn claim(worker: usize, effect: Effect) -> Claim {
    static IDENTITY: OnceLock<(Id, Identity, Actor)> = OnceLock::new();
    let (id, identity, caller) = IDENTITY.get_or_init(|| {
        let identity = Identity::business(
            Tenant::parse("model").unwrap(),
            OperationName::parse("model.op").unwrap(),
            BusinessKey::parse("key").unwrap(),
        );
        (identity.id(), identity, Actor::parse("worker").unwrap())
    });
    Claim {
        id: *id,
        identity: identity.clone(),
        nonce: nonce(worker),
        prints: Prints::NONE,
        lease: TICK,
        effect,
        attempts_max: 9,
        caller: caller.clone(),
    }
}

pub(super) fn nonce(worker: usize) -> Nonce {
    Nonce::from_bytes([u8::try_from(worker + 1).unwrap(); 16])
}

/// The fence of a worker's attempt.
pub(super) fn fence(worker: usize, epoch: i64) -> Fence {
    let id = claim(worker, Effect::Opaque).id;
    Fence { id, epoch: Epoch::from_stored(epoch), nonce: nonce(worker) }
}

pub(super) fn complete(fence: Fence) -> Step {
    Step::Complete { fence, outcome: done(), retention: Retention::FOREVER }
}

/// Packets live no longer than the memory of the attempt that sent them.
pub(super) fn release(fence: Fence) -> Step {
    Step::Release { fence, memory: TICK * 100 }
}

/// What a judge says who has seen the receiver's books.
pub(super) fn ruling(happened: bool) -> Ruling {
    if happened {
        Ruling::Completed { outcome: done(), retention: Retention::FOREVER }
    } else {
        Ruling::NothingHappened { memory: TICK * 100 }
    }
}

fn done() -> Outcome {
    Outcome::Value("done".into())
}

/// No earlier than this can a keyed record be held for its window.
pub(super) fn window_end() -> Timestamp {
    let window = TICK * u32::from(WINDOW);
    START.plus(window - window / 10)
}
