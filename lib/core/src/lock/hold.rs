//! What a lock is called and what a place of locks must do.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::{
    id::{Framed, Tenant},
    record::{Epoch, Nonce},
    store::Fault,
    time::Timestamp,
};

const LOCK_DOMAIN: &[u8] = b"hapax.lock.v1";

/// The name of a lock: one business object of one tenant, never an operation or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName([u8; 32]);

impl LockName {
    /// The lock of one object, such as `("order", "1001")`.
    pub fn of(tenant: &Tenant, kind: &str, object: &str) -> Self {
        let mut hash = Framed::new(LOCK_DOMAIN);
        for part in [tenant.as_str(), kind, object] {
            hash.part(part.as_bytes());
        }
        Self(hash.finish())
    }

    /// The bytes of the unique column.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What a lock store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is ours or it is not")]
pub enum Hold {
    /// Ours until the lease ends. The fence rises with every new holder.
    Mine {
        /// Rises with every new holder.
        fence: Epoch,
    },
    /// Not ours: somebody else's, or, if `until` is not after `now`, nobody's.
    Taken {
        /// When it ends unless it is renewed.
        until: Timestamp,
        /// The store's time.
        now: Timestamp,
    },
}

/// A place where locks live.
///
/// A lease that has ended is over: it can be taken anew, by anybody, but not renewed. So a store
/// may forget it, and nobody can tell whether it did.
///
/// # Cancellation
/// The work of a call begins with the call. Dropping the future abandons the answer only; asking
/// again with the same owner is safe.
pub trait Locks: Send + Sync + 'static {
    /// Takes the lock if it is free or its lease has ended; idempotent for one owner.
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>>;

    /// Makes the lease end `lease` from the store's now, if the lock is still the owner's.
    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>>;

    /// Gives the lock back; of somebody else's, or given back already, nothing changes.
    /// `true`: it was the owner's.
    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Completes on a hint that the lock may be free: early, late or never.
    fn freed(&self, name: LockName) -> BoxFuture<'static, ()>;
}
