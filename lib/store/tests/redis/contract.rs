//! The contract of stores and locks on real servers and on their own clock: through one handle,
//! and through two in turn.
//!
//! What waits really waits here, so random lives are few; many more are played on a clock that
//! can be moved, and against the pure rule (`redis::tests` in the crate).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use hapax_testkit::Redis;

use crate::{
    cluster::Cluster,
    stage::{self, namespace},
};
use hapax_contract::{Alternate, BoxFuture, CASES, Subject, locks::Place};
use hapax_core::{lock::Locks, store::Store};
use hapax_store::redis::RedisStore;

/// Long against what a case does on a loaded machine.
const BEAT: Duration = Duration::from_millis(120);
/// Random lives of one test; each waits for some seconds.
const LIVES: u32 = 3;

/// How a store on trial is reached.
#[derive(Clone, Copy)]
enum Door {
    One,
    Two,
}

enum Servers {
    One(Redis),
    Cluster(Cluster),
}

struct Trial {
    door: Door,
    servers: Servers,
    beat: Duration,
}

impl Trial {
    /// On a server of its own.
    fn by(door: Door) -> Self {
        let servers = Servers::One(block_on(stage::server()));
        Self { door, servers, beat: BEAT }
    }

    async fn store(&self, namespace: &str) -> RedisStore {
        match &self.servers {
            Servers::One(server) => {
                RedisStore::at(&server.url()).namespace(namespace).open().await.unwrap()
            }
            Servers::Cluster(cluster) => cluster.store_in(namespace).await,
        }
    }

    async fn doors(&self) -> Arc<dyn Store> {
        let namespace = namespace();
        let store = Arc::new(self.store(&namespace).await);
        match self.door {
            Door::One => store,
            Door::Two => {
                Arc::new(Alternate::new([store, Arc::new(self.store(&namespace).await)]))
            }
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

macro_rules! on_trial {
    ($trait:path, $opened:ty, $open:expr) => {
        impl $trait for Trial {
            fn name(&self) -> &'static str {
                "redis"
            }

            fn open(&self) -> BoxFuture<'_, $opened> {
                Box::pin($open(self))
            }

            fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
                Box::pin(stage::pass(span))
            }

            fn beat(&self) -> Duration {
                self.beat
            }
        }
    };
}

on_trial!(Subject, Arc<dyn Store>, async |trial: &'_ Trial| trial.doors().await);
on_trial!(Place, Arc<dyn Locks>, async |trial: &'_ Trial| {
    Arc::new(trial.store(&namespace()).await) as Arc<dyn Locks>
});

mod one_door {
    use super::{Door, LIVES, Trial};

    hapax_contract::suite!(Trial::by(Door::One), LIVES);
}

mod two_doors {
    use super::{Door, LIVES, Trial};

    hapax_contract::suite!(Trial::by(Door::Two), LIVES);
}

mod locks {
    use super::{Door, Trial};

    hapax_contract::locks_suite!(Trial::by(Door::One));
}

/// Cases of the contract that are tried at once on one cluster: most of them wait.
const LANES: usize = 6;
/// Six cases at once want a longer beat.
const CLUSTER_BEAT: Duration = Duration::from_millis(250);

/// Tries every case, and some random lives, on one cluster.
fn holds_on_a_cluster(door: Door) {
    let servers = Servers::Cluster(block_on(Cluster::start(0)));
    let trial = Trial { door, servers, beat: CLUSTER_BEAT };
    let (queue, failed) = (Mutex::new(CASES.iter()), Mutex::new(Vec::new()));
    let lane = || {
        loop {
            let Some(case) = queue.lock().unwrap().next() else { break };
            if catch_unwind(AssertUnwindSafe(|| case.run(&trial))).is_err() {
                failed.lock().unwrap().push(case.name);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    assert_eq!(failed.into_inner().unwrap(), [""; 0]);
}

#[test]
fn the_contract_holds_on_a_cluster() {
    holds_on_a_cluster(Door::One);
}

#[test]
fn the_contract_holds_on_a_cluster_by_two_doors() {
    holds_on_a_cluster(Door::Two);
}

#[test]
fn random_lives_on_a_cluster_match_the_reference() {
    let servers = Servers::Cluster(block_on(Cluster::start(0)));
    let trial = Trial { door: Door::Two, servers, beat: BEAT };
    hapax_contract::oracle::search(&trial, LIVES).unwrap();
    hapax_contract::oracle::search_losses(&trial, LIVES).unwrap();
}

#[test]
fn the_contract_of_locks_holds_on_a_cluster() {
    let servers = Servers::Cluster(block_on(Cluster::start(0)));
    let trial = Trial { door: Door::One, servers, beat: BEAT };
    macro_rules! hold {
        ($($case:ident)+) => {$(
            hapax_contract::run(hapax_contract::locks::$case(&trial));
        )+};
    }
    hold! {
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
    }
}
