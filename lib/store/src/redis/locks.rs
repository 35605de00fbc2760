//! Locks: one hash each, and one channel on which every release is told.
//!
//! Invariant: the fence of a name rises with every new holder, also when its key has expired
//! meanwhile: a key stays until the time alone gives a higher fence
//! (`a_fence_rises_over_the_loss_of_its_key`).

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::{BoxFuture, select},
};
use redis::{Cmd, Value, aio::PubSub};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    fleet::Fleet,
    record::Told,
    script::Script,
    store::{RedisStore, answer, next},
};
use crate::error::{Error, Kind};
use hapax_core::{
    Clock, Invalid, Nonce, SystemClock,
    lock::{Hold, LockName, Locks},
    millis,
    store::Fault,
};

/// Channels for hints in this process: few enough to keep, enough that unrelated waiters seldom
/// wake.
const BELLS: usize = 64;
/// Between two tries to hear what is published. Meanwhile waiters poll, as they always do.
const DEAF_PAUSE: Duration = Duration::from_millis(200);

/// What is heard of locks that were given back, anywhere.
pub(super) struct Ears {
    bells: Arc<Vec<watch::Sender<()>>>,
    channel: String,
    is_listening: AtomicBool,
    end: CancellationToken,
}

impl Ears {
    /// Deaf until [`listen`](Self::listen); for ever when the guard is dropped.
    pub(super) fn new(namespace: &str) -> (Self, DropGuard) {
        let end = CancellationToken::new();
        let bells = std::iter::repeat_with(|| watch::Sender::new(())).take(BELLS).collect();
        let ears = Self {
            bells: Arc::new(bells),
            channel: format!("{namespace}:freed"),
            is_listening: AtomicBool::new(false),
            end: end.clone(),
        };
        (ears, end.drop_guard())
    }

    pub(super) fn stop(&self) {
        self.end.cancel();
    }

    /// Begins to listen, once.
    fn listen(&self, fleet: &Arc<Fleet>) {
        if self.is_listening.swap(true, Ordering::AcqRel) || self.end.is_cancelled() {
            return;
        }
        // Neither the store nor its servers are kept alive by who listens.
        let (ring, channel) = (Arc::clone(&self.bells), self.channel.clone());
        let (weak, end) = (Arc::downgrade(fleet), self.end.clone());
        let listening = async move {
            let mut round = 0;
            while let Some(fleet) = weak.upgrade() {
                let masters = fleet.masters();
                drop(fleet);
                if let Some(master) = masters.get(round % std::cmp::max(masters.len(), 1)) {
                    match master.listen(&channel).await {
                        Ok(ear) => hear(ear, &ring).await,
                        Err(error) => {
                            let error = &error as &dyn std::error::Error;
                            tracing::debug!(error, "releases of locks are not heard; waiters poll");
                        }
                    }
                }
                round += 1;
                SystemClock.sleep(DEAF_PAUSE).await;
            }
        };
        // What is cut off is a wait for hints, which may be lost.
        let listening = async move {
            select(pin!(listening), pin!(end.cancelled())).await;
        };
        fleet.tasks.spawn_on(listening, &fleet.runtime);
    }

    fn bell(&self, first: u8) -> &watch::Sender<()> {
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
        &self.bells[usize::from(first) % BELLS]
    }
}

/// Rings for what is heard, until the connection ends.
async fn hear(ear: PubSub, bells: &[watch::Sender<()>]) {
    // Whatever was freed before may have been missed.
    bells.iter().for_each(|bell| bell.send_replace(()));
    let mut heard = ear.into_on_message();
    while let Some(message) = heard.next().await {
        let first = message.get_payload_bytes().first().copied().unwrap_or_default();
        if let Some(bell) = bells.get(usize::from(first) % BELLS) {
            bell.send_replace(());
        }
    }
}

impl RedisStore {
    async fn ask_lock(
        &self,
        name: LockName,
        script: &Script,
        args: impl FnOnce(&mut Cmd),
    ) -> Result<Value, Error> {
        let tag = hapax_core::Id::from_stored(*name.as_bytes()).hex();
        let key = format!("{}:lock:{{{tag}}}", self.shared().namespace);
        let mut call = script.on(&key, 3, 128);
        args(&mut call);
        self.shared().fleet.run(&tag, script, &call).await
    }

    fn hold(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
        script: fn(&super::script::Scripts) -> &Script,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let store = self.clone();
        answer(self.owned(async move {
            let script = script(store.shared().scripts);
            let args = |call: &mut Cmd| {
                call.arg(&owner.as_bytes()[..]).arg(millis(lease));
            };
            let told = store.ask_lock(name, script, args).await?;
            read(told).map_err(Error::torn)
        }))
    }
}

fn read(told: Value) -> Result<Hold, Invalid> {
    let mut told = Told::new(told)?;
    match &told.bytes()?[..] {
        b"mine" => Ok(Hold::Mine { fence: told.epoch()? }),
        b"taken" => {
            let now = told.time()?;
            Ok(Hold::Taken { until: told.time()?, now })
        }
        _ => Err(Invalid::new("answer of a script", "is none of those that it gives")),
    }
}

impl Locks for RedisStore {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.hold(name, owner, lease, |scripts| &scripts.lock_acquire)
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.hold(name, owner, lease, |scripts| &scripts.lock_renew)
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let store = self.clone();
        answer(self.owned(async move {
            let shared = store.shared();
            let args = |call: &mut Cmd| {
                call.arg(&owner.as_bytes()[..]).arg(&shared.ears.channel);
                call.arg(&name.as_bytes()[..]);
            };
            let told = store.ask_lock(name, &shared.scripts.lock_release, args).await?;
            let Value::Int(changed) = told else {
                return Err(Error::new(Kind::Corrupt, "read the answer of a script"));
            };
            let was_ours = changed == 1;
            if was_ours {
                let [first, ..] = name.as_bytes();
                shared.ears.bell(*first).send_replace(());
            }
            Ok(was_ours)
        }))
    }

    /// The first call begins to listen to what other processes release.
    fn freed(&self, name: LockName) -> BoxFuture<'static, ()> {
        let shared = self.shared();
        let [first, ..] = name.as_bytes();
        // Waits from before it listens: whoever begins to listen rings once.
        let rung = next(shared.ears.bell(*first));
        shared.ears.listen(&shared.fleet);
        rung
    }
}
