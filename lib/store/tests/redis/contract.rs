//! The contract of stores and locks on real servers and on their own clock: through two handles
//! in turn.
//!
//! What waits really waits here, so a beat is long and all cases wait at once. The contract on a
//! clock that can be moved, random lives included, is in the crate (`redis::tests`).

use std::{sync::Arc, thread, time::Duration};

use crate::stage::{self, namespace};
use hapax_contract::{Alternate, BoxFuture, CASES, Subject, locks::Place};
use hapax_core::{lock::Locks, store::Store};
use hapax_store::redis::RedisStore;
use hapax_testkit::{Redis, redis_cluster, shared::SharedCluster};

/// Long against what a case does while all others do theirs, on a loaded machine.
const BEAT: Duration = Duration::from_secs(1);
/// Random lives of locks; each waits for many beats.
const LIVES: u32 = 1;

enum Servers {
    One(Redis),
    Cluster(SharedCluster),
}

struct Trial {
    servers: Servers,
}

impl Trial {
    /// On a server of its own.
    fn on_a_server() -> Self {
        let servers = Servers::One(block_on(stage::server()));
        Self { servers }
    }

    /// On the cluster of the run, whose disks are waited for.
    fn on_the_cluster() -> Self {
        let servers = Servers::Cluster(block_on(redis_cluster()).unwrap());
        Self { servers }
    }

    async fn store(&self, namespace: &str) -> RedisStore {
        match &self.servers {
            Servers::One(server) => {
                RedisStore::at(&server.url()).namespace(namespace).open().await.unwrap()
            }
            Servers::Cluster(cluster) => {
                let opening = RedisStore::at(&cluster.urls().join(",")).namespace(namespace);
                opening.accept_no_replica_quorum().open().await.unwrap()
            }
        }
    }

    /// Two handles on the same records, in turn.
    async fn doors(&self) -> Arc<dyn Store> {
        let namespace = namespace();
        let (left, right) = (self.store(&namespace).await, self.store(&namespace).await);
        Arc::new(Alternate::new([Arc::new(left), Arc::new(right)]))
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
                BEAT
            }
        }
    };
}

on_trial!(Subject, Arc<dyn Store>, async |trial: &'_ Trial| trial.doors().await);
on_trial!(Place, Arc<dyn Locks>, async |trial: &'_ Trial| {
    Arc::new(trial.store(&namespace()).await) as Arc<dyn Locks>
});

/// Tries every case, all at once.
fn try_all(trial: Trial) {
    let trial = Arc::new(trial);
    let trials = CASES.iter().map(|case| {
        let trial = Arc::clone(&trial);
        (case.name, thread::spawn(move || case.run(&*trial)))
    });
    let trials: Vec<_> = trials.collect();
    let broken = trials.into_iter().filter_map(|(name, trial)| trial.join().err().map(|_| name));
    assert_eq!(broken.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_case_holds() {
    try_all(Trial::on_a_server());
}

#[test]
fn every_case_holds_on_a_cluster() {
    try_all(Trial::on_the_cluster());
}

mod locks_on_the_cluster {
    use super::{LIVES, Trial};

    hapax_contract::locks_suite!(Trial::on_the_cluster(), LIVES);
}
