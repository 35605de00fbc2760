//! Turnstiles and guards on the memory of this process.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all, poll_immediate, ready};

use super::*;
use crate::{
    Error, Kind,
    id::Tenant,
    record::Nonce,
    store::{Fault, FaultKind},
    testing::{Seen, VirtualClock},
    time::{Clock, TestClock, Timestamp},
};

const LEASE: Duration = Duration::from_millis(900);
const SECOND: Duration = Duration::from_secs(1);

fn name(object: &str) -> LockName {
    LockName::of(&Tenant::parse("shop").unwrap(), "order", object)
}

/// Memory that can be cut off, and that writes down what it is asked.
#[derive(Clone)]
struct Wire {
    locks: MemoryLocks,
    is_cut: Arc<AtomicBool>,
    calls: Seen<(&'static str, Nonce)>,
}

impl Wire {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { locks: MemoryLocks::on(clock), is_cut: Arc::default(), calls: Seen::new() }
    }

    fn through<T: Send + 'static>(
        &self,
        call: &'static str,
        owner: Nonce,
        go: impl FnOnce() -> BoxFuture<'static, Result<T, Fault>>,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        self.calls.add((call, owner));
        if self.is_cut.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(Fault::new(FaultKind::Unavailable, "cut"))));
        }
        go()
    }
}

impl Locks for Wire {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.through("acquire", owner, || self.locks.acquire(name, owner, lease))
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.through("renew", owner, || self.locks.renew(name, owner, lease))
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        self.through("release", owner, || self.locks.release(name, owner))
    }

    fn freed(&self, name: LockName) -> BoxFuture<'static, ()> {
        self.locks.freed(name)
    }
}

fn stile(wire: &Wire, clock: Arc<dyn Clock>) -> (Turnstile, Seen<Happening>) {
    let seen = Seen::new();
    let stile = Turnstile::new(Arc::new(wire.clone()));
    (stile.lease(LEASE).clock(clock).witness(seen.clone()), seen)
}

async fn mine(stile: &Turnstile, name: LockName) -> Guard {
    match stile.acquire(name, Duration::ZERO).await.unwrap() {
        Acquired::Mine(guard) => guard,
        Acquired::Taken { .. } => panic!("taken"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_renewed_and_keeps_others_away() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let guard = mine(&stile, name("1")).await;
    clock.sleep(LEASE * 20).await;
    let renewals = wire.calls.count(|(call, _)| *call == "renew");
    assert!((59..=61).contains(&renewals), "one a third of the lease: {renewals}");
    let other = stile.acquire(name("1"), Duration::ZERO).await.unwrap();
    assert!(matches!(other, Acquired::Taken { retry_after } if retry_after <= LEASE));
    assert!(!guard.lost().is_cancelled());
    assert!(matches!(stile.acquire(name("2"), Duration::ZERO).await, Ok(Acquired::Mine(_))));
    assert!(guard.release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_renewed_after_release() {
    let clock = Arc::new(TestClock::at(Timestamp::from_millis(1_000)));
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    for cycle in 0..10_000_u32 {
        let guard = mine(&stile, name("1")).await;
        if cycle % 2 == 0 {
            clock.advance(LEASE / 3);
        }
        // A renewal wakes after some of these pauses, so it falls due before, with and after the
        // release, whatever the machine.
        for _ in 0..cycle % 251 {
            tokio::task::yield_now().await;
        }
        if cycle % 5 == 0 {
            drop(guard);
        } else {
            assert!(guard.release().await.unwrap());
        }
        clock.advance(LEASE / 3);
    }
    clock.advance(LEASE * 10);
    stile.drain().await;
    let mut released = std::collections::HashSet::new();
    let mut renewals = 0;
    for (call, owner) in wire.calls.all() {
        match call {
            "release" => assert!(released.insert(owner.as_bytes().to_owned()), "released once"),
            "renew" => {
                renewals += 1;
                assert!(!released.contains(owner.as_bytes()), "renewed after its release");
            }
            _ => {}
        }
    }
    assert_eq!(released.len(), 10_000);
    assert!(renewals > 50, "the race was run: {renewals}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_is_told_before_the_lease_ends() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, seen) = stile(&wire, clock.clone());
    let guard = mine(&stile, name("1")).await;
    let gained_at = clock.now();
    wire.is_cut.store(true, Ordering::SeqCst);
    guard.lost().cancelled().await;
    let told_after = clock.now().duration_since(gained_at);
    assert!(told_after < LEASE && told_after > LEASE / 2, "{told_after:?}");
    assert_eq!(seen.count(|event| *event == Happening::Lost), 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nobody_the_lock() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let guard = mine(&stile, name("1")).await;
    for _ in 0..5 {
        wire.is_cut.store(true, Ordering::SeqCst);
        clock.sleep(LEASE / 2).await;
        wire.is_cut.store(false, Ordering::SeqCst);
        clock.sleep(LEASE / 2).await;
    }
    assert!(!guard.lost().is_cancelled());
    assert!(guard.release().await.unwrap());
}

#[tokio::test]
async fn a_holder_that_was_paused_is_told_and_its_work_is_dropped() {
    let clock = Arc::new(TestClock::at(Timestamp::from_millis(1_000)));
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let guard = mine(&stile, name("1")).await;
    let (fence, effects) = (guard.fence(), AtomicU32::new(0));
    let other = {
        let work = async {
            std::future::pending::<()>().await;
            effects.fetch_add(1, Ordering::SeqCst);
        };
        let mut work = pin!(guard.protect(work));
        assert!(poll_immediate(&mut work).await.is_none());
        // The whole process stands still for longer than the lease; somebody else goes on.
        clock.advance(LEASE * 2);
        let other = mine(&stile, name("1")).await;
        assert_eq!(work.await, None, "the work was cancelled");
        other
    };
    assert!(other.fence() > fence, "what the first one writes now is refused");
    assert!(!guard.release().await.unwrap(), "it cannot give back what is not its own");
    assert!(matches!(stile.acquire(name("1"), Duration::ZERO).await, Ok(Acquired::Taken { .. })));
    assert_eq!(effects.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_gives_the_lock_back() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let mut tasks = tokio::task::JoinSet::new();
    let inside = stile.clone();
    tasks.spawn(async move {
        let _guard = mine(&inside, name("1")).await;
        panic!("the work fails");
    });
    assert!(tasks.join_next().await.unwrap().is_err());
    let guard = mine(&stile, name("1")).await;
    guard.release().await.unwrap();
    stile.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_the_release() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, seen) = stile(&wire, clock.clone());
    let guard = mine(&stile, name("1")).await;
    let waiting = stile.acquire(name("1"), SECOND * 60);
    let releasing = async {
        clock.sleep(SECOND * 20).await;
        guard.release().await.unwrap();
        clock.now()
    };
    let (acquired, released_at) = futures_util::join!(waiting, releasing);
    assert!(matches!(acquired, Ok(Acquired::Mine(_))));
    assert!(clock.now().duration_since(released_at) < Duration::from_millis(2), "no poll");
    assert_eq!(seen.count(|event| *event == Happening::Contended), 1, "one caller, one count");
}

/// Memory whose bell is broken.
struct Silent(MemoryLocks);

impl Locks for Silent {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.0.acquire(name, owner, lease)
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.0.renew(name, owner, lease)
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        self.0.release(name, owner)
    }

    fn freed(&self, _: LockName) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_hints_comes_within_the_poll_bound() {
    let clock = VirtualClock::new();
    let stile = Turnstile::new(Arc::new(Silent(MemoryLocks::on(clock.clone()))));
    let stile = stile.clock(clock.clone()).lease(LEASE);
    let guard = mine(&stile, name("1")).await;
    let waiting = stile.acquire(name("1"), SECOND * 60);
    let releasing = async {
        clock.sleep(SECOND * 20).await;
        guard.release().await.unwrap();
        clock.now()
    };
    let (acquired, released_at) = futures_util::join!(waiting, releasing);
    assert!(matches!(acquired, Ok(Acquired::Mine(_))));
    assert!(clock.now().duration_since(released_at) <= Duration::from_millis(251));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_no_lock() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    wire.is_cut.store(true, Ordering::SeqCst);
    let mut asking = Box::pin(stile.acquire(name("1"), SECOND * 60));
    assert!(poll_immediate(&mut asking).await.is_none());
    wire.is_cut.store(false, Ordering::SeqCst);
    drop(asking);
    let (first, last) = (wire.calls.all()[0], *wire.calls.all().last().unwrap());
    assert_eq!((first.0, last.0), ("acquire", "release"));
    assert_eq!(first.1.as_bytes(), last.1.as_bytes(), "perhaps granted, surely given back");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_does_not_answer_is_unavailable_after_the_wait() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    wire.is_cut.store(true, Ordering::SeqCst);
    let begun_at = clock.now();
    let error = stile.acquire(name("1"), SECOND).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.is_retryable());
    assert_eq!(clock.now().duration_since(begun_at), SECOND);
}

/// An order that can be paid twice if nobody takes care: reading and writing are two steps.
#[derive(Default)]
struct Order {
    paid: Mutex<Option<u32>>,
    payments: AtomicU32,
    looks: AtomicUsize,
}

impl Order {
    fn look(&self) -> Result<Option<u32>, Error> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(*self.paid.lock().unwrap())
    }

    async fn pay(&self, clock: &VirtualClock, takes: Duration) -> Result<u32, Error> {
        clock.sleep(takes).await;
        let serial = self.payments.fetch_add(1, Ordering::SeqCst) + 1;
        *self.paid.lock().unwrap() = Some(serial);
        Ok(serial)
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_done_once_and_every_loser_gets_the_result() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let order = Arc::new(Order::default());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (stile, order, clock) = (stile.clone(), Arc::clone(&order), clock.clone());
        tasks.spawn(async move {
            let look = async || order.look();
            let work = async |_| order.pay(&clock, SECOND / 5).await;
            stile.once(name("1"), SECOND, look, work).await
        });
    }
    let answers: Vec<_> =
        tasks.join_all().await.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Once::Worked(1)).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Once::Found(1)).count(), 49);
    assert_eq!(order.payments.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_loser_is_told_processing_and_never_a_failure() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, seen) = stile(&wire, clock.clone());
    let order = Order::default();
    let once = |wait| {
        let look = async || order.look();
        let work = async |_| order.pay(&clock, SECOND * 5).await;
        stile.once(name("1"), wait, look, work)
    };
    let begun_at = clock.now();
    let late = async {
        let answer = once(SECOND).await;
        (answer, clock.now().duration_since(begun_at))
    };
    let (winner, (loser, waited)) = futures_util::join!(once(SECOND), late);
    assert_eq!(winner.unwrap(), Once::Worked(1));
    assert!(matches!(loser.unwrap(), Once::Processing { retry_after } if !retry_after.is_zero()));
    assert!(waited >= SECOND && waited < SECOND * 2, "{waited:?}");
    assert_eq!(seen.count(|event| *event == Happening::GaveUp), 1);
    let impatient = join_all((0..3).map(|_| once(Duration::ZERO))).await;
    assert!(impatient.iter().all(|answer| matches!(answer, Ok(Once::Found(1)))));
    assert_eq!(order.payments.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_state_is_read_again_after_the_lock_was_gained() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let order = Order::default();
    *order.paid.lock().unwrap() = Some(9);
    let look = async || order.look();
    let work = async |_| order.pay(&clock, SECOND).await;
    let answer = stile.once(name("1"), SECOND, look, work).await.unwrap();
    assert_eq!(answer, Once::Found(9));
    assert_eq!(order.looks.load(Ordering::SeqCst), 1);
    assert_eq!(wire.calls.count(|(call, _)| *call == "release"), 1, "and the lock given back");
}

#[tokio::test(start_paused = true)]
async fn work_that_lost_its_lock_is_not_called_a_failure() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let order = Order::default();
    let look = async || order.look();
    let work = async |turn: Turn| {
        wire.is_cut.store(true, Ordering::SeqCst);
        assert!(!turn.lost().is_cancelled());
        order.pay(&clock, SECOND * 60).await
    };
    let answer = stile.once(name("1"), SECOND, look, work).await.unwrap();
    assert!(matches!(answer, Once::Processing { .. }), "{answer:?}");
    assert_eq!(order.payments.load(Ordering::SeqCst), 0, "the work was dropped");
}

#[tokio::test(start_paused = true)]
async fn failed_work_frees_the_object_for_the_next() {
    let clock = VirtualClock::new();
    let wire = Wire::new(clock.clone());
    let (stile, _) = stile(&wire, clock.clone());
    let order = Order::default();
    let look = async || order.look();
    let failing = async |_| Err(Error::new(Kind::Unavailable, "reach the channel"));
    let answer = stile.once(name("1"), SECOND, look, failing).await;
    assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable);
    let work = async |_| order.pay(&clock, SECOND).await;
    let answer = stile.once(name("1"), Duration::ZERO, look, work).await;
    assert_eq!(answer.unwrap(), Once::Worked(1));
}

#[tokio::test]
async fn memory_forgets_what_is_over_and_its_fences_still_rise() {
    let clock = Arc::new(TestClock::at(Timestamp::from_millis(1_000)));
    let locks = MemoryLocks::on(clock.clone());
    let mut last = None;
    for round in 0..100_u8 {
        let owner = Nonce::from_bytes([round; 16]);
        let hold = locks.acquire(name("1"), owner, LEASE).await.unwrap();
        let Hold::Mine { fence } = hold else { panic!("{hold:?}") };
        assert!(last < Some(fence), "also within one millisecond");
        last = Some(fence);
        if round % 2 == 0 {
            locks.release(name("1"), owner).await.unwrap();
        } else {
            clock.advance(LEASE);
        }
    }
    let Hold::Mine { .. } =
        locks.acquire(name("2"), Nonce::from_bytes([200; 16]), LEASE).await.unwrap()
    else {
        panic!("free")
    };
    assert!(format!("{locks:?}").contains("held: 1"), "{locks:?}");
}
