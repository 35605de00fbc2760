//! When there is a token for an order.
//!
//! Invariant: a new token is not handed out over a request that still runs: two keys could open
//! two attempts (`no_token_is_issued_over_a_payment_that_is_being_created`).

use std::time::Duration;

use crate::{
    db::{Sql, payments},
    error::Error,
    order::OrderId,
    payment::Status,
    service::CREATE_OPERATION,
};
use hapax::{
    BusinessKey, Invalid, OperationName, Principal, Tenant,
    store::Found,
    token::{Binding, Issue, Session, Tokens},
};

/// What a token that creates the payment of an order is bound to.
pub(crate) fn binding(
    tenant: &Tenant,
    order_id: &OrderId,
    user: &str,
    session: &str,
) -> Result<Binding, Invalid> {
    Ok(Binding {
        tenant: tenant.clone(),
        operation: OperationName::parse(CREATE_OPERATION)?,
        object: BusinessKey::of(&[order_id.as_str()])?,
        user: Principal::parse(user)?,
        session: Session::parse(session)?,
    })
}

/// Issues a token for an order, or says why there is none now; `wait` is when to ask again.
pub(crate) async fn issue(
    sql: &Sql,
    tokens: &Tokens,
    binding: &Binding,
    order_id: &OrderId,
    wait: Duration,
) -> Result<Issue, Error> {
    let live = {
        let mut reader = sql.readers().acquire().await?;
        payments::live(&mut reader, &binding.tenant, order_id).await?
    };
    if live.is_some_and(|live| live.status == Status::Created) {
        return Ok(Issue::Unfinished { retry_after: wait });
    }
    let over = Found { record: None, now: sql.now().await? };
    Ok(tokens.issue(binding, &over)?)
}
