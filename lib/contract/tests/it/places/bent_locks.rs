//! Places of locks that break one rule each; the suite must see it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::is_refused;
use hapax_contract::{
    BoxFuture,
    locks::{self, Memory, Place},
    run,
};
use hapax_core::{
    Epoch, Nonce,
    lock::{Hold, LockName, Locks},
    store::Fault,
};

/// What is wrong with the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bend {
    /// A release deletes whoever's lock it is.
    ReleaseIgnoresOwner,
    /// A renewal prolongs whoever's lock it is, by making its own.
    RenewalIgnoresOwner,
    /// A renewal that came too late takes the lock again.
    RenewalRevives,
    /// Each holder has the same fence.
    FenceStands,
    /// The lease has no end.
    LeaseNeverEnds,
    /// The renewal does nothing.
    RenewalIsForgotten,
    /// An owner that asks again is another holder.
    AgainIsTaken,
    /// All objects share one lock.
    OneLock,
    /// A call begins when it is first polled.
    Lazy,
}

struct Bent(Memory, Bend);

/// The place, its bend, and the first name that it heard.
struct BentLocks(Arc<dyn Locks>, Bend, OnceLock<LockName>);

impl Place for Bent {
    fn name(&self) -> &'static str {
        "bent"
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Locks>> {
        Box::pin(async {
            let locks = BentLocks(self.0.open().await, self.1, OnceLock::new());
            Arc::new(locks) as Arc<dyn Locks>
        })
    }

    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.pass(span)
    }

    fn beat(&self) -> Duration {
        self.0.beat()
    }
}

/// Every owner that a case knows.
fn owners() -> impl Iterator<Item = Nonce> {
    (0..=u8::MAX).map(|owner| Nonce::from_bytes([owner; 16]))
}

impl Locks for BentLocks {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let (locks, bend) = (Arc::clone(&self.0), self.1);
        let name = match bend {
            Bend::OneLock => *self.2.get_or_init(|| name),
            _ => name,
        };
        let lease = if bend == Bend::LeaseNeverEnds { lease * 1000 } else { lease };
        if bend == Bend::Lazy {
            return Box::pin(async move { locks.acquire(name, owner, lease).await });
        }
        let held_before = (bend == Bend::AgainIsTaken).then(|| locks.renew(name, owner, lease));
        let asked = locks.acquire(name, owner, lease);
        Box::pin(async move {
            if let Some(renewal) = held_before
                && matches!(renewal.await, Ok(Hold::Mine { .. }))
            {
                let now = hapax_core::Timestamp::default();
                return Ok(Hold::Taken { until: now.plus(lease), now });
            }
            match asked.await {
                Ok(Hold::Mine { .. }) if bend == Bend::FenceStands => {
                    Ok(Hold::Mine { fence: Epoch::from_stored(1) })
                }
                hold => hold,
            }
        })
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let (locks, bend) = (Arc::clone(&self.0), self.1);
        match bend {
            Bend::RenewalRevives => locks.acquire(name, owner, lease),
            Bend::RenewalIsForgotten => locks.renew(name, owner, Duration::from_millis(1)),
            Bend::RenewalIgnoresOwner => Box::pin(async move {
                for owner in owners() {
                    if let Ok(Hold::Mine { fence }) = locks.renew(name, owner, lease).await {
                        return Ok(Hold::Mine { fence });
                    }
                }
                locks.renew(name, owner, lease).await
            }),
            _ => locks.renew(name, owner, lease),
        }
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let (locks, bend) = (Arc::clone(&self.0), self.1);
        if bend != Bend::ReleaseIgnoresOwner {
            return locks.release(name, owner);
        }
        Box::pin(async move {
            for owner in owners() {
                if locks.release(name, owner).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn freed(&self, name: LockName) -> BoxFuture<'static, ()> {
        self.0.freed(name)
    }
}

macro_rules! bent {
    ($($fact:ident: $bend:ident => $case:ident;)+) => {$(
        #[test]
        fn $fact() {
            let place = Bent(Memory::new(), Bend::$bend);
            assert!(is_refused(|| run(locks::$case(&place))), "the suite does not see it");
        }
    )+};
}

bent! {
    a_release_of_anybodys_lock_is_found: ReleaseIgnoresOwner => a_foreign_release_changes_nothing;
    a_renewal_of_anybodys_lock_is_found: RenewalIgnoresOwner => a_foreign_renewal_changes_nothing;
    a_renewal_from_the_dead_is_found: RenewalRevives => a_lease_that_is_over_is_not_renewed;
    a_fence_that_stands_is_found: FenceStands => a_fence_rises_with_every_holder;
    a_lease_without_end_is_found: LeaseNeverEnds => a_lock_is_free_after_its_lease;
    a_renewal_that_is_forgotten_is_found: RenewalIsForgotten => a_renewal_counts_from_now;
    an_owner_that_may_not_ask_again_is_found:
        AgainIsTaken => the_same_owner_gains_again_under_the_same_fence;
    one_lock_for_everything_is_found: OneLock => another_name_is_another_lock;
    a_lazy_call_is_found: Lazy => a_dropped_call_abandons_only_the_answer;
}

#[test]
fn a_random_search_finds_what_is_bent() {
    for bend in [Bend::ReleaseIgnoresOwner, Bend::RenewalRevives, Bend::LeaseNeverEnds] {
        let place = Bent(Memory::new(), bend);
        assert!(locks::search(&place, 200).is_err(), "{bend:?}");
    }
}
