//! The contract of stores and locks on real servers and on their own clock: through one handle,
//! and through two in turn.
//!
//! What waits really waits here, so random lives are few; many more are played on a clock that
//! can be moved, and against the pure rule (`redis::tests` in the crate).

use std::{sync::Arc, time::Duration};

use crate::stage::{self, namespace};
use hapax_contract::{Alternate, BoxFuture, Subject, locks::Place};
use hapax_core::{lock::Locks, store::Store};
use hapax_store::redis::RedisStore;
use hapax_testkit::{Redis, redis_cluster, shared::SharedCluster};

/// Long against what a case does on a loaded machine.
const BEAT: Duration = Duration::from_millis(120);
const CLUSTER_BEAT: Duration = Duration::from_millis(250);
/// Random lives of one test; each waits for some seconds.
const LIVES: u32 = 2;

/// How a store on trial is reached.
#[derive(Clone, Copy)]
enum Door {
    One,
    Two,
}

enum Servers {
    One(Redis),
    Cluster(SharedCluster),
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

    /// On the cluster of the run, whose disks are waited for.
    fn on_the_cluster(door: Door) -> Self {
        let servers = Servers::Cluster(block_on(redis_cluster()).unwrap());
        Self { door, servers, beat: CLUSTER_BEAT }
    }

    /// Locks are tried on many random lives, of few steps each.
    fn of_locks(self) -> Self {
        Self { beat: BEAT, ..self }
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

    async fn doors(&self) -> Arc<dyn Store> {
        let namespace = namespace();
        let store = Arc::new(self.store(&namespace).await);
        match self.door {
            Door::One => store,
            Door::Two => Arc::new(Alternate::new([store, Arc::new(self.store(&namespace).await)])),
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

mod cluster_by_one_door {
    use super::{Door, LIVES, Trial};

    hapax_contract::suite!(Trial::on_the_cluster(Door::One), LIVES);
}

mod cluster_by_two_doors {
    use super::{Door, LIVES, Trial};

    hapax_contract::suite!(Trial::on_the_cluster(Door::Two), LIVES);
}

mod locks_on_the_cluster {
    use super::{Door, Trial};

    hapax_contract::locks_suite!(Trial::on_the_cluster(Door::One).of_locks());
}
