//! Random lives of a few records.
//!
//! An op names what it is about by small numbers, so that the same list means the same on every
//! store: fences are counted back from the latest grant, times are in beats.

use proptest::prelude::*;

/// Keys of one life: few, so that ops meet on one record.
pub(super) const KEYS: u8 = 3;
/// Nonces of one life: few, so that late packets and repeats happen by themselves.
const NONCES: u8 = 5;
/// Requests that prints tell apart; 0 compares nothing.
const REQUESTS: u8 = 3;

/// One op on a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Claims a key.
    Claim {
        /// Which record.
        key: u8,
        /// Which attempt: an equal one is a repeat or a late packet.
        nonce: u8,
        /// What is asked; 0 compares nothing.
        request: u8,
        /// Beats of the lease.
        lease: u8,
        /// The declared effect.
        effect: Effects,
        /// The bound of attempts.
        attempts_max: u8,
    },
    /// Renews a lease.
    Renew {
        /// Whose.
        fence: Fences,
        /// Beats from now.
        lease: u8,
    },
    /// Keeps a recovery point.
    Checkpoint {
        /// Whose.
        fence: Fences,
        /// What.
        point: u8,
    },
    /// Completes.
    Complete {
        /// Whose.
        fence: Fences,
        /// What.
        answer: u8,
        /// Beats until it expires; `None` is never.
        keep: Option<u8>,
        /// Beats from there until the key may run again.
        grace: u8,
    },
    /// Says that the outcome is unknown.
    Doubt {
        /// Whose.
        fence: Fences,
    },
    /// Gives the work back.
    Release {
        /// Whose.
        fence: Fences,
        /// Beats for which a late packet is remembered.
        memory: u8,
    },
    /// Settles what an attempt did.
    Settle {
        /// Which record.
        key: u8,
        /// The epoch that the judge saw.
        seen: Seen,
        /// Which ruling: an equal one is a repeat.
        nonce: u8,
        /// What happened: an answer, or nothing.
        ruling: Option<u8>,
        /// Beats of the memory or of the retention.
        beats: u8,
    },
    /// Takes the steps among these in one call, the first one for each record.
    Batch(Vec<Self>),
    /// Looks at a record.
    Look {
        /// Which.
        key: u8,
    },
    /// Reads all pages.
    Scan {
        /// Only this operation.
        operation: Option<u8>,
        /// Only this status.
        status: Option<u8>,
        /// Records of one page.
        limit: u8,
    },
    /// Purges.
    Purge {
        /// At most so many records.
        rows: u16,
    },
    /// Lets time pass.
    Pass {
        /// How much.
        beats: u8,
    },
}

/// The effect that a claim declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effects {
    /// Commits with the record.
    Transactional,
    /// Keyed, for ten beats or for thirty.
    Keyed {
        /// Thirty.
        long: bool,
    },
    /// Queryable after two beats or after six.
    Queryable {
        /// Six.
        long: bool,
    },
    /// At most once.
    Opaque,
}

/// Names a fence that the store has handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fences {
    /// Counted back from the latest grant, which is 0.
    pub back: u8,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What is wrong with a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Nothing.
    None,
    /// Its epoch is one lower.
    Epoch,
    /// Its nonce is another one.
    Nonce,
}

/// The epoch that a judge saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// The current one.
    Current,
    /// That of a grant on the record, counted back from the latest.
    Grant(u8),
}

impl Op {
    /// A claim of two beats that asks for request 1.
    pub fn claim(key: u8, nonce: u8, effect: Effects) -> Self {
        Self::Claim { key, nonce, request: 1, lease: 2, effect, attempts_max: 4 }
    }

    /// A renewal of the grant that is `back` before the latest.
    pub fn renew(back: u8, lease: u8) -> Self {
        Self::Renew { fence: Fences::sound(back), lease }
    }

    /// A recovery point of the grant that is `back` before the latest.
    pub fn checkpoint(back: u8) -> Self {
        Self::Checkpoint { fence: Fences::sound(back), point: 1 }
    }

    /// A completion of the grant that is `back` before the latest.
    pub fn complete(back: u8, keep: Option<u8>, grace: u8) -> Self {
        Self::Complete { fence: Fences::sound(back), answer: 1, keep, grace }
    }

    /// A doubt of the grant that is `back` before the latest.
    pub fn doubt(back: u8) -> Self {
        Self::Doubt { fence: Fences::sound(back) }
    }

    /// A release of the grant that is `back` before the latest.
    pub fn release(back: u8, memory: u8) -> Self {
        Self::Release { fence: Fences::sound(back), memory }
    }

    /// A ruling that nothing happened, by a judge who saw the current epoch.
    pub fn settle_as_nothing(key: u8, nonce: u8, memory: u8) -> Self {
        Self::Settle { key, seen: Seen::Current, nonce, ruling: None, beats: memory }
    }
}

impl Fences {
    fn sound(back: u8) -> Self {
        Self { back, flaw: Flaw::None }
    }
}

/// Lives of at most `longest` ops.
pub fn lives(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => steps(),
        3 => prop::collection::vec(steps(), 2..=6).prop_map(Op::Batch),
        1 => (0..KEYS).prop_map(|key| Op::Look { key }),
        1 => scans(),
        3 => prop_oneof![Just(1_u16), Just(1000)].prop_map(|rows| Op::Purge { rows }),
        5 => prop_oneof![4 => 1..=3_u8, 1 => 8..=30_u8].prop_map(|beats| Op::Pass { beats }),
    ];
    prop::collection::vec(op, 1..=longest)
}

fn steps() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => claims(),
        2 => (fences(), 0..=4_u8).prop_map(|(fence, lease)| Op::Renew { fence, lease }),
        2 => (fences(), 0..=2_u8).prop_map(|(fence, point)| Op::Checkpoint { fence, point }),
        3 => (fences(), 0..=2_u8, prop::option::of(0..=4_u8), 1..=4_u8).prop_map(
            |(fence, answer, keep, grace)| Op::Complete { fence, answer, keep, grace }
        ),
        2 => fences().prop_map(|fence| Op::Doubt { fence }),
        4 => (fences(), 1..=4_u8).prop_map(|(fence, memory)| Op::Release { fence, memory }),
        3 => rulings(),
    ]
}

fn claims() -> impl Strategy<Value = Op> {
    let effect = prop_oneof![
        4 => Just(Effects::Transactional),
        2 => any::<bool>().prop_map(|long| Effects::Keyed { long }),
        2 => any::<bool>().prop_map(|long| Effects::Queryable { long }),
        1 => Just(Effects::Opaque),
    ];
    let request = prop_oneof![6 => Just(1), 1 => 0..REQUESTS];
    (0..KEYS, 0..NONCES, request, 0..=3_u8, effect, 1..=4_u8).prop_map(
        |(key, nonce, request, lease, effect, attempts_max)| Op::Claim {
            key,
            nonce,
            request,
            lease,
            effect,
            attempts_max,
        },
    )
}

fn rulings() -> impl Strategy<Value = Op> {
    let seen = prop_oneof![3 => Just(Seen::Current), 1 => (0..4_u8).prop_map(Seen::Grant)];
    let nonce = prop_oneof![6 => Just(100), 1 => Just(101), 1 => 0..NONCES];
    (0..KEYS, seen, nonce, prop::option::of(0..=2_u8), 1..=4_u8).prop_map(
        |(key, seen, nonce, ruling, beats)| Op::Settle { key, seen, nonce, ruling, beats },
    )
}

fn scans() -> impl Strategy<Value = Op> {
    (prop::option::of(0..2_u8), prop::option::of(0..6_u8), 1..=4_u8)
        .prop_map(|(operation, status, limit)| Op::Scan { operation, status, limit })
}

fn fences() -> impl Strategy<Value = Fences> {
    let back = prop_oneof![4 => Just(0), 2 => Just(1), 1 => 2..6_u8];
    let flaw = prop_oneof![8 => Just(Flaw::None), 1 => Just(Flaw::Epoch), 1 => Just(Flaw::Nonce)];
    (back, flaw).prop_map(|(back, flaw)| Fences { back, flaw })
}
