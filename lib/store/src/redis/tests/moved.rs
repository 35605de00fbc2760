//! The shipped scripts on a clock that can be moved: the whole contract in seconds.
//!
//! One line differs from what is shipped, the one that reads the time. The contract on the
//! server's own clock is in `tests/redis`.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::redis::{RedisStore, script::Scripts};
use hapax_contract::{BoxFuture, Subject, locks::Place};
use hapax_core::{lock::Locks, store::Store};
use hapax_testkit::Redis;

/// The line that reads the server's clock, and the one that adds what it was moved by.
const STILL: &str = "time[1] * 1000 + math.floor(time[2] / 1000)";
const MOVED: &str =
    "time[1] * 1000 + math.floor(time[2] / 1000) + (redis.call('GET', 'moved') or 0)";

/// The text of a script on the clock that can be moved.
pub(super) fn moved(text: &str) -> String {
    assert_eq!(text.matches(STILL).count(), 1, "the clock is read in one place");
    text.replace(STILL, MOVED)
}

static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| {
    Scripts::made_by(|parts| moved(&parts.iter().map(|p| p.1).collect::<String>()))
});

/// A server with a clock that can be moved. Each store has a namespace of its own.
pub(super) struct Moved {
    server: Redis,
    scripts: &'static Scripts,
    stores: AtomicU32,
}

impl Moved {
    pub(super) fn new() -> Self {
        Self::running(&SCRIPTS)
    }

    pub(super) fn running(scripts: &'static Scripts) -> Self {
        Self { server: super::server(), scripts, stores: AtomicU32::new(0) }
    }

    /// The same server with other scripts.
    pub(super) fn rerun(&mut self, scripts: &'static Scripts) {
        self.scripts = scripts;
    }

    pub(super) async fn store(&self) -> RedisStore {
        let serial = self.stores.fetch_add(1, Ordering::Relaxed);
        let fleet = RedisStore::at(&self.server.url()).fleet().await.unwrap();
        RedisStore::with(fleet, format!("store{serial}"), self.scripts)
    }

    async fn move_on(&self, span: Duration) {
        let mut incr = redis::cmd("INCRBY");
        incr.arg("moved").arg(hapax_core::millis(span));
        let fleet = RedisStore::at(&self.server.url()).fleet().await.unwrap();
        fleet.masters()[0].ask(&incr).await.unwrap();
    }
}

const BEAT: Duration = Duration::from_secs(60);

macro_rules! on_trial {
    ($trait:path, $opened:ty) => {
        impl $trait for Moved {
            fn name(&self) -> &'static str {
                "redis"
            }

            fn open(&self) -> BoxFuture<'_, $opened> {
                Box::pin(async { Arc::new(self.store().await) as $opened })
            }

            fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
                Box::pin(self.move_on(span))
            }

            fn beat(&self) -> Duration {
                BEAT
            }
        }
    };
}

on_trial!(Subject, Arc<dyn Store>);
on_trial!(Place, Arc<dyn Locks>);

mod records {
    use super::Moved;

    hapax_contract::suite!(Moved::new());
}

mod locks {
    use super::Moved;

    hapax_contract::locks_suite!(Moved::new());
}
