//! A declared operation and one call of it.

use std::{future::Future, sync::Arc, time::Duration};

use super::{
    Shared,
    owned::Owned,
    policy::{Busy, Policy},
};
use crate::{
    error::Error,
    fingerprint::Prints,
    id::{
        Actor, BusinessKey, Channel, ChannelKey, Id, Identity, OperationName, Principal,
        RequestKey, Tenant,
    },
    record::{Class, Nonce},
    store::{Claim, Found},
    time::Clock,
};

/// A declared operation. Cheap to clone.
#[derive(Clone)]
pub struct Operation {
    pub(super) shared: Arc<Shared>,
    pub(super) declared: Arc<Declared>,
}

/// What was declared.
pub(super) struct Declared {
    /// The name it has today: metrics and operators see it.
    pub(super) name: OperationName,
    /// The name that ids are made with: the oldest one.
    pub(super) root: OperationName,
    pub(super) policy: Policy,
}

impl Operation {
    /// The declared name.
    pub fn name(&self) -> &OperationName {
        &self.declared.name
    }

    /// The declared policy.
    pub fn policy(&self) -> &Policy {
        &self.declared.policy
    }

    /// The class of the declared effect.
    pub fn class(&self) -> Class {
        self.declared.policy.effect.class()
    }

    /// The largest answer that is kept whole, in bytes.
    pub fn outcome_bytes_max(&self) -> usize {
        self.declared.policy.outcome_bytes_max
    }

    /// The clock of this process.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Owns `work`: it is polled where its caller waits, and goes on if the caller goes away.
    pub fn own<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Owned<T> {
        Owned::begin(&self.shared.tasks, work)
    }

    /// The name that ids are made with: the oldest one.
    pub(crate) fn root(&self) -> &OperationName {
        &self.declared.root
    }

    /// A call about a business object of the tenant, such as an order.
    pub fn business(&self, tenant: Tenant, key: BusinessKey) -> Call {
        self.call(Identity::business(tenant, self.declared.root.clone(), key))
    }

    /// A call that a client made under a key of its own.
    pub fn request(&self, tenant: Tenant, principal: Principal, key: RequestKey) -> Call {
        self.call(Identity::request(tenant, principal, self.declared.root.clone(), key))
    }

    /// A call that a channel made under a key of its own.
    pub fn channel(&self, tenant: Tenant, channel: Channel, key: ChannelKey) -> Call {
        self.call(Identity::channel(tenant, channel, self.declared.root.clone(), key))
    }

    /// A call that goes on with an abandoned record; it compares no request.
    pub(super) fn resume(&self, identity: Identity) -> Call {
        self.call(identity)
    }

    fn call(&self, identity: Identity) -> Call {
        Call {
            operation: self.clone(),
            id: identity.id(),
            identity,
            prints: Prints::NONE,
            caller: self.shared.name.clone(),
            busy: self.declared.policy.busy,
        }
    }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operation({})", self.declared.name)
    }
}

/// One call of an operation, ready to begin.
#[derive(Clone, Debug)]
#[must_use = "a call does nothing until it begins"]
pub struct Call {
    pub(super) operation: Operation,
    pub(super) identity: Identity,
    pub(super) id: Id,
    prints: Prints,
    caller: Actor,
    pub(super) busy: Busy,
}

impl Call {
    /// What is asked: repeats must ask the same. Without it nothing is compared.
    pub fn prints(self, prints: Prints) -> Self {
        Self { prints, ..self }
    }

    /// Who asks; the name of this process unless said otherwise.
    pub fn caller(self, caller: Actor) -> Self {
        Self { caller, ..self }
    }

    /// How long this caller wants to wait for a running attempt, instead of the policy's word.
    pub fn wait(self, longest: Duration) -> Self {
        Self { busy: Busy::Wait(longest), ..self }
    }

    /// The record that the call is about.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The record as it stands, without a claim: ask first.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) and
    /// [`Kind::Corrupt`](crate::Kind::Corrupt), from the store.
    pub async fn look(&self) -> Result<Found, Error> {
        self.operation.shared.look(self.id).await
    }

    pub(super) fn claim(&self, nonce: Nonce) -> Claim {
        let policy = &self.operation.declared.policy;
        Claim {
            id: self.id,
            identity: self.identity.clone(),
            nonce,
            prints: self.prints,
            lease: policy.lease,
            effect: policy.effect,
            attempts_max: policy.attempts_max,
            caller: self.caller.clone(),
        }
    }
}
