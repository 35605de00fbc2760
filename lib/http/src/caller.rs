//! Who calls. A key means nothing without its owner, so there is no default and no anonymous one.
//!
//! Invariant: every record belongs to a tenant and a principal that the application named
//! (`one_key_of_two_tenants_principals_and_operations_runs_eight_times`,
//! `a_request_without_a_caller_is_refused`).

use http::request::Parts;

use crate::problem::{Code, Problem};
use hapax_core::{Actor, Invalid, Principal, Tenant};

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an owner is these three and no more")]
pub struct Caller {
    /// The customer whose business it is.
    pub tenant: Tenant,
    /// A stable subject: a user or account id, never a token, session or API key.
    pub principal: Principal,
    /// Who is written into journals.
    pub actor: Actor,
}

impl Caller {
    /// Reads a caller whose principal is also the actor.
    ///
    /// # Errors
    /// [`Invalid`] says which name breaks which rule.
    pub fn parse(tenant: &str, principal: &str) -> Result<Self, Invalid> {
        Ok(Self {
            tenant: Tenant::parse(tenant)?,
            principal: Principal::parse(principal)?,
            actor: Actor::parse(principal)?,
        })
    }
}

/// Names the caller of a request.
///
/// Runs after the application's own authentication and reads what that left in the request's
/// extensions. It must not read a header that a client can choose.
pub trait Principals: Send + Sync + 'static {
    /// The caller, or why there is none.
    ///
    /// # Errors
    /// A [`Refusal`] becomes the answer; nothing else is done with the request.
    fn caller(&self, request: &Parts) -> Result<Caller, Refusal>;
}

impl<F> Principals for F
where
    F: Fn(&Parts) -> Result<Caller, Refusal> + Send + Sync + 'static,
{
    fn caller(&self, request: &Parts) -> Result<Caller, Refusal> {
        self(request)
    }
}

/// Takes the [`Caller`] that the application's authentication put into the request's extensions.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is a name and nothing else")]
pub struct FromExtension;

impl Principals for FromExtension {
    fn caller(&self, request: &Parts) -> Result<Caller, Refusal> {
        request.extensions.get::<Caller>().cloned().ok_or(Refusal::ScopeMissing)
    }
}

/// Why a request has no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody said whose key it is: 400 `scope_required`.
    ScopeMissing,
    /// The caller has not shown who it is: 401 `unauthenticated`.
    Unauthenticated,
    /// The caller may not do this: 403 `forbidden`.
    Forbidden,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(match refusal {
            Refusal::ScopeMissing => Code::ScopeRequired,
            Refusal::Unauthenticated => Code::Unauthenticated,
            Refusal::Forbidden => Code::Forbidden,
        })
    }
}
