//! What every place of locks must hold, case by case, and compared with the memory on random
//! sequences.

#![expect(clippy::missing_panics_doc, reason = "a case panics if its fact does not hold")]

use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

use hapax_core::{
    Epoch, Nonce, Tenant, TestClock, Timestamp,
    lock::{Hold, LockName, Locks, MemoryLocks},
    store::Fault,
};

/// Owners that race in one case.
const RACERS: u8 = 32;
/// How often the work of a dropped call is looked for.
const LOOKS: u32 = 500;
/// Steps of the longest random life.
const LIFE_STEPS_MAX: usize = 24;
/// Random lives that the suite plays.
pub const LIVES: u32 = 48;

/// Locks on trial, and the clock that judges them.
///
/// The cases count time in beats, as those of [`Subject`](crate::Subject) do.
pub trait Place: Send + Sync + 'static {
    /// The name of the place, for messages.
    fn name(&self) -> &str;

    /// Opens a place without locks.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Locks>>;

    /// Makes the clock of every place that was opened here move on by `span`, a whole number of
    /// beats. It may run on by itself meanwhile, but by less than one beat in one case.
    fn pass(&self, span: Duration) -> BoxFuture<'_, ()>;

    /// The unit of time, from 10 ms to 5 min.
    fn beat(&self) -> Duration;
}

/// The memory on a clock that stands still until it is moved.
#[derive(Debug)]
pub struct Memory {
    clock: Arc<TestClock>,
}

impl Memory {
    /// The memory, somewhere in 2026.
    pub fn new() -> Self {
        Self { clock: Arc::new(TestClock::at(Timestamp::from_millis(1_790_000_000_000))) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Place for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Locks>> {
        let locks = MemoryLocks::on(Arc::clone(&self.clock) as Arc<_>);
        Box::pin(ready(Arc::new(locks) as Arc<dyn Locks>))
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.clock.advance(span);
        Box::pin(ready(()))
    }

    fn beat(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// Makes one test of every case of locks, and one of random sequences against the memory.
///
/// The first argument is an expression that makes a fresh [`Place`](crate::locks::Place); each
/// test evaluates it for itself. The second is the number of random lives.
#[macro_export]
macro_rules! locks_suite {
    ($place:expr) => {
        $crate::locks_suite!($place, $crate::locks::LIVES);
    };
    ($place:expr, $lives:expr) => {
        $crate::locks_suite!([$place]
            a_free_lock_is_gained
            a_held_lock_is_taken
            another_name_is_another_lock
            the_same_owner_gains_again_under_the_same_fence
            a_lock_is_free_after_its_lease
            a_lock_is_free_after_its_release
            a_fence_rises_with_every_holder
            a_renewal_counts_from_now
            a_renewal_may_shorten_the_lease
            a_lease_that_is_over_is_not_renewed
            a_foreign_renewal_changes_nothing
            a_foreign_release_changes_nothing
            a_repeated_release_changes_nothing
            owners_at_once_give_one_holder
            a_dropped_call_abandons_only_the_answer
            a_hint_is_only_a_hint
        );

        #[test]
        fn random_sequences_match_the_memory() {
            $crate::locks::search(&$place, $lives).unwrap();
        }
    };
    ([$place:expr] $($case:ident)+) => {$(
        #[test]
        fn $case() {
            let place = $place;
            $crate::run($crate::locks::$case(&place));
        }
    )+};
}

/// A place on trial and the words to ask it.
struct Ward<'a> {
    place: &'a dyn Place,
    locks: Arc<dyn Locks>,
}

impl<'a> Ward<'a> {
    async fn open(place: &'a dyn Place) -> Self {
        Self { place, locks: place.open().await }
    }

    fn beats(&self, count: u32) -> Duration {
        self.place.beat() * count
    }

    async fn pass(&self, beats: u32) {
        self.place.pass(self.beats(beats)).await;
    }

    async fn acquire(&self, name: LockName, owner: u8, beats: u32) -> Hold {
        answered(self.locks.acquire(name, nonce(owner), self.beats(beats)).await)
    }

    async fn renew(&self, name: LockName, owner: u8, beats: u32) -> Hold {
        answered(self.locks.renew(name, nonce(owner), self.beats(beats)).await)
    }

    async fn release(&self, name: LockName, owner: u8) -> bool {
        answered(self.locks.release(name, nonce(owner)).await)
    }

    /// Takes a lock that must be free; its fence.
    async fn gain(&self, name: LockName, owner: u8, beats: u32) -> Epoch {
        fence(self.acquire(name, owner, beats).await)
    }

    /// Asserts that somebody else has it, by asking.
    async fn is_taken(&self, name: LockName) -> bool {
        // An owner that never holds anything: had it gained the lock, it gives it back at once.
        let taken = matches!(self.acquire(name, u8::MAX, 1).await, Hold::Taken { .. });
        if !taken {
            self.release(name, u8::MAX).await;
        }
        taken
    }
}

fn answered<T>(answer: Result<T, Fault>) -> T {
    answer.unwrap_or_else(|fault| panic!("the place of locks did not answer: {fault:?}"))
}

fn fence(hold: Hold) -> Epoch {
    match hold {
        Hold::Mine { fence } => fence,
        Hold::Taken { .. } => panic!("the lock must be ours, but the place said {hold:?}"),
    }
}

fn name(object: &str) -> LockName {
    let tenant = Tenant::parse("contract");
    let tenant = tenant.unwrap_or_else(|invalid| panic!("the suite has a bad constant: {invalid}"));
    LockName::of(&tenant, "order", object)
}

fn nonce(owner: u8) -> Nonce {
    Nonce::from_bytes([owner; 16])
}

/// A lock that nobody has is gained.
pub async fn a_free_lock_is_gained(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 2).await;
    assert!(ward.is_taken(name("1")).await);
}

/// Who comes second is told until when, by the place's own clock.
pub async fn a_held_lock_is_taken(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 3).await;
    match ward.acquire(name("1"), 2, 3).await {
        Hold::Taken { until, now } => {
            let left = until.since(now);
            assert!(left <= ward.beats(3) && left > ward.beats(2), "{left:?} are left");
        }
        Hold::Mine { .. } => panic!("two owners of one lock"),
    }
}

/// Locks of other objects are not in the way.
pub async fn another_name_is_another_lock(place: &dyn Place) {
    let ward = Ward::open(place).await;
    for (owner, object) in (0..).zip(["1", "2", "01", "1 ", "ａ", ""]) {
        ward.gain(name(object), owner, 2).await;
    }
}

/// An owner whose answer was lost asks again and is still the same holder.
pub async fn the_same_owner_gains_again_under_the_same_fence(place: &dyn Place) {
    let ward = Ward::open(place).await;
    let first = ward.gain(name("1"), 1, 3).await;
    ward.pass(1).await;
    assert_eq!(ward.gain(name("1"), 1, 3).await, first);
    assert_eq!(fence(ward.renew(name("1"), 1, 3).await), first);
}

/// A holder that says nothing loses the lock when its lease is over, and not before.
pub async fn a_lock_is_free_after_its_lease(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 2).await;
    ward.pass(1).await;
    assert!(ward.is_taken(name("1")).await);
    ward.pass(1).await;
    ward.gain(name("1"), 2, 2).await;
}

/// A lock that was given back is free at once.
pub async fn a_lock_is_free_after_its_release(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 2).await;
    assert!(ward.release(name("1"), 1).await);
    ward.gain(name("1"), 2, 2).await;
}

/// However a holder ends, the next one's fence is higher, also within one millisecond.
pub async fn a_fence_rises_with_every_holder(place: &dyn Place) {
    let ward = Ward::open(place).await;
    let mut last = None;
    for owner in 0..20 {
        let fence = ward.gain(name("1"), owner, 1).await;
        assert!(Some(fence) > last, "{fence:?} after {last:?}");
        last = Some(fence);
        if owner % 7 == 6 {
            ward.pass(1).await;
        } else {
            assert!(ward.release(name("1"), owner).await);
        }
    }
    let again = ward.gain(name("1"), 0, 1).await;
    assert!(Some(again) > last, "an owner that comes back is a new holder");
}

/// A renewal makes the lease end so long from now, not so long from its old end.
pub async fn a_renewal_counts_from_now(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 3).await;
    ward.pass(1).await;
    ward.renew(name("1"), 1, 3).await;
    ward.pass(2).await;
    assert!(ward.is_taken(name("1")).await, "the old end would be now");
    ward.pass(1).await;
    assert!(!ward.is_taken(name("1")).await, "three beats from the renewal, not six in all");
}

/// A renewal for a shorter time is obeyed too.
pub async fn a_renewal_may_shorten_the_lease(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 9).await;
    ward.renew(name("1"), 1, 1).await;
    ward.pass(1).await;
    assert!(!ward.is_taken(name("1")).await);
}

/// Too late is too late, also if nobody came meanwhile: the place may have forgotten it.
pub async fn a_lease_that_is_over_is_not_renewed(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 1).await;
    ward.pass(1).await;
    match ward.renew(name("1"), 1, 9).await {
        Hold::Taken { until, now } => assert!(until <= now, "it is nobody's"),
        Hold::Mine { .. } => panic!("a lease that was over is renewed"),
    }
    assert!(!ward.is_taken(name("1")).await);
}

/// Nobody prolongs the lock of another.
pub async fn a_foreign_renewal_changes_nothing(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 2).await;
    assert!(matches!(ward.renew(name("1"), 2, 9).await, Hold::Taken { .. }));
    ward.pass(2).await;
    assert!(!ward.is_taken(name("1")).await);
    assert!(matches!(ward.renew(name("2"), 1, 9).await, Hold::Taken { .. }), "no such lock");
    assert!(!ward.is_taken(name("2")).await, "a renewal makes no lock");
}

/// Nobody gives back the lock of another.
pub async fn a_foreign_release_changes_nothing(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 1).await;
    ward.pass(1).await;
    ward.gain(name("1"), 2, 2).await;
    assert!(!ward.release(name("1"), 1).await, "the one that woke too late");
    assert!(ward.is_taken(name("1")).await);
    assert!(ward.release(name("1"), 2).await);
}

/// A release whose answer was lost is sent again.
pub async fn a_repeated_release_changes_nothing(place: &dyn Place) {
    let ward = Ward::open(place).await;
    ward.gain(name("1"), 1, 2).await;
    assert!(ward.release(name("1"), 1).await);
    assert!(!ward.release(name("1"), 1).await);
    ward.gain(name("1"), 2, 2).await;
    assert!(!ward.release(name("1"), 1).await);
    assert!(ward.is_taken(name("1")).await);
    assert!(!ward.release(name("never"), 1).await);
}

/// Of many that ask at once one gets it.
pub async fn owners_at_once_give_one_holder(place: &dyn Place) {
    let ward = Ward::open(place).await;
    for round in 0..8_u32 {
        let name = name(&round.to_string());
        let asking = (0..RACERS).map(|owner| ward.acquire(name, owner, 2));
        let holds = join_all(asking).await;
        let gained = holds.iter().filter(|hold| matches!(hold, Hold::Mine { .. })).count();
        assert_eq!(gained, 1, "round {round}");
    }
}

/// The work of a call begins with the call.
pub async fn a_dropped_call_abandons_only_the_answer(place: &dyn Place) {
    let ward = Ward::open(place).await;
    drop(ward.locks.acquire(name("1"), nonce(1), ward.beats(4)));
    // A renewal takes nothing; whoever asked for the lock itself could come before the dropped
    // call's work.
    let is_held = async || matches!(ward.renew(name("1"), 1, 4).await, Hold::Mine { .. });
    looked_for("a dropped call gains", is_held).await;
    drop(ward.locks.release(name("1"), nonce(1)));
    looked_for("a dropped call gives back", async || !ward.is_taken(name("1")).await).await;
}

async fn looked_for(what: &str, has_come: impl AsyncFn() -> bool) {
    for _ in 0..LOOKS {
        if has_come().await {
            return;
        }
        tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await.ok();
    }
    panic!("{what}: it was never seen");
}

/// Hints may come or not; waiting for one takes nothing from anybody.
pub async fn a_hint_is_only_a_hint(place: &dyn Place) {
    let ward = Ward::open(place).await;
    let (early, dropped) = (ward.locks.freed(name("1")), ward.locks.freed(name("1")));
    drop(dropped);
    ward.gain(name("1"), 1, 2).await;
    let waiting = ward.locks.freed(name("1"));
    assert!(ward.is_taken(name("1")).await);
    assert!(ward.release(name("1"), 1).await);
    ward.gain(name("1"), 2, 2).await;
    for hint in [early, waiting] {
        tokio::time::timeout(Duration::from_millis(20), hint).await.ok();
    }
    assert!(ward.is_taken(name("1")).await);
}

/// One step of a random life: on one of three locks, by one of three owners.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire { lock: u8, owner: u8, beats: u32 },
    Renew { lock: u8, owner: u8, beats: u32 },
    Release { lock: u8, owner: u8 },
    Pass { beats: u32 },
}

/// What a place said: fences as their change since the lock's last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Mine { is_new: bool },
    Taken,
    Released(bool),
    Passed,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (lock, owner, beats) = (0_u8..3, 0_u8..3, 1_u32..4);
    let step = prop_oneof![
        4 => (lock.clone(), owner.clone(), beats.clone())
            .prop_map(|(lock, owner, beats)| Step::Acquire { lock, owner, beats }),
        3 => (lock.clone(), owner.clone(), beats)
            .prop_map(|(lock, owner, beats)| Step::Renew { lock, owner, beats }),
        2 => (lock, owner).prop_map(|(lock, owner)| Step::Release { lock, owner }),
        2 => (1_u32..3).prop_map(|beats| Step::Pass { beats }),
    ];
    proptest::collection::vec(step, 1..LIFE_STEPS_MAX)
}

async fn play(place: &dyn Place, steps: &[Step]) -> Vec<Said> {
    let (ward, mut fences, mut said) = (Ward::open(place).await, HashMap::new(), Vec::new());
    for step in steps {
        let (lock, hold) = match *step {
            Step::Acquire { lock, owner, beats } => {
                (lock, ward.acquire(name(&lock.to_string()), owner, beats).await)
            }
            Step::Renew { lock, owner, beats } => {
                (lock, ward.renew(name(&lock.to_string()), owner, beats).await)
            }
            Step::Release { lock, owner } => {
                said.push(Said::Released(ward.release(name(&lock.to_string()), owner).await));
                continue;
            }
            Step::Pass { beats } => {
                ward.pass(beats).await;
                said.push(Said::Passed);
                continue;
            }
        };
        said.push(match hold {
            Hold::Mine { fence } => {
                let last = fences.insert(lock, fence);
                assert!(last <= Some(fence), "{step:?}: {fence:?} after {last:?}");
                Said::Mine { is_new: last != Some(fence) }
            }
            Hold::Taken { .. } => Said::Taken,
        });
    }
    said
}

/// Plays random lives on the place and on the memory.
///
/// # Errors
/// The smallest life that was found in which they say different things.
pub fn search(place: &dyn Place, lives: u32) -> Result<(), String> {
    let config = Config { cases: lives, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let tried = runner.run(&steps(), |steps| {
        let (mut said, mut expected) = (Vec::new(), Vec::new());
        crate::run(async {
            expected = play(&Memory::new(), &steps).await;
            said = play(place, &steps).await;
        });
        if said == expected {
            return Ok(());
        }
        Err(TestCaseError::fail(format!("said {said:?}\n  the memory said {expected:?}")))
    });
    tried.map_err(|parted| format!("{} parts from the memory: {parted}", place.name()))
}
