//! The sweeps: payments and refunds whose end is not known are asked about until it is.
//!
//! Invariant: a row is leased before it is asked about, so that instances and loops never ask
//! twice at once; a lapsed lease is taken over (`a_sweep_asks_about_each_payment_once`).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{
    channel::{PaymentNo, RefundNo},
    db::{conn, payments, refunds},
    error::Error,
    flow::{Desk, check::Next, on},
};
use hapax::{
    Nonce, Tenant, Timestamp,
    reconcile::{Reconcile, Reconciler, Verdict},
    store::{Fault, FaultKind},
};

/// A lease on a row lasts for this many channel time-outs: one question and its follow-up.
const LEASE_TIMEOUTS: u32 = 4;
/// Rows of one round.
const ROWS_MAX: u16 = 200;

/// A sweep over payments.
pub(super) fn payments(desk: &Arc<Desk>) -> Reconciler<Payments> {
    build(desk, Payments(Arc::clone(desk)))
}

/// A sweep over refunds.
pub(super) fn refunds(desk: &Arc<Desk>) -> Reconciler<Refunds> {
    build(desk, Refunds(Arc::clone(desk)))
}

fn build<R: Reconcile>(desk: &Arc<Desk>, what: R) -> Reconciler<R> {
    let (periods, bounds) = (&desk.config.periods, &desk.config.bounds);
    Reconciler::new(what, periods.sweep.0)
        .at_once(bounds.checks_at_once)
        .patience(periods.channel_timeout.0 * LEASE_TIMEOUTS)
        .steps(periods.checks.iter().map(|span| span.0).collect())
}

/// Payments that are due.
pub(super) struct Payments(Arc<Desk>);

/// Refunds that are due.
pub(super) struct Refunds(Arc<Desk>);

impl Reconcile for Payments {
    type Item = (PaymentNo, Nonce);

    fn due(&self, limit: u16) -> BoxFuture<'static, Result<Vec<Self::Item>, Fault>> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move { lease_payments(&desk, limit).await.map_err(fault) })
    }

    fn settle(&self, (no, token): Self::Item) -> BoxFuture<'static, Verdict> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move { verdict(settle_payment(&desk, no, token).await) })
    }
}

impl Reconcile for Refunds {
    type Item = (Tenant, RefundNo, Nonce);

    fn due(&self, limit: u16) -> BoxFuture<'static, Result<Vec<Self::Item>, Fault>> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move { lease_refunds(&desk, limit).await.map_err(fault) })
    }

    fn settle(&self, (tenant, no, token): Self::Item) -> BoxFuture<'static, Verdict> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move { verdict(settle_refund(&desk, tenant, no, token).await) })
    }
}

async fn lease_payments(desk: &Desk, limit: u16) -> Result<Vec<(PaymentNo, Nonce)>, Error> {
    let (token, now, until, rows) = leasing(desk, limit).await?;
    let leased = desk.sql.write("sweep.payments", async move |mut tx| {
        payments::lease(conn(&mut tx), token.as_bytes(), until, rows, now).await
    });
    Ok(leased.await?.into_iter().map(|no| (no, token)).collect())
}

async fn lease_refunds(desk: &Desk, limit: u16) -> Result<Vec<(Tenant, RefundNo, Nonce)>, Error> {
    let (token, now, until, rows) = leasing(desk, limit).await?;
    let leased = desk.sql.write("sweep.refunds", async move |mut tx| {
        refunds::lease(conn(&mut tx), token.as_bytes(), until, rows, now).await
    });
    Ok(leased.await?.into_iter().map(|(tenant, no)| (tenant, no, token)).collect())
}

async fn leasing(desk: &Desk, limit: u16) -> Result<(Nonce, Timestamp, Timestamp, u16), Error> {
    let now = desk.now().await?;
    let until = now.plus(desk.config.periods.channel_timeout.0 * LEASE_TIMEOUTS);
    Ok((Nonce::random()?, now, until, std::cmp::min(limit, ROWS_MAX)))
}

async fn settle_payment(desk: &Arc<Desk>, no: PaymentNo, token: Nonce) -> Result<(), Error> {
    let payment = {
        let mut reader = desk.reader().await?;
        payments::find(on(&mut reader), &no).await?
    };
    let Some(payment) = payment else { return Ok(()) };
    let asked = desk.check(&payment).await;
    let next = asked.as_ref().copied().unwrap_or(Next::Step { no_later_than: None });
    let now = desk.now().await?;
    let next_check_at = desk.next_check(next, payment.checks, now);
    desk.sql
        .write("sweep.checked", async move |mut tx| {
            payments::checked(conn(&mut tx), &no, token.as_bytes(), next_check_at).await
        })
        .await?;
    asked.map(|_| ())
}

async fn settle_refund(
    desk: &Arc<Desk>,
    tenant: Tenant,
    no: RefundNo,
    token: Nonce,
) -> Result<(), Error> {
    let refund = {
        let mut reader = desk.reader().await?;
        refunds::find(on(&mut reader), &tenant, &no).await?
    };
    let Some(refund) = refund else { return Ok(()) };
    let asked = desk.drive_refund(&refund).await;
    let next = asked.as_ref().copied().unwrap_or(Next::Step { no_later_than: None });
    let now = desk.now().await?;
    let next_check_at = desk.next_check(next, refund.checks, now);
    desk.sql
        .write("sweep.checked", async move |mut tx| {
            refunds::checked(conn(&mut tx), &tenant, &no, token.as_bytes(), next_check_at).await
        })
        .await?;
    asked.map(|_| ())
}

/// The row itself says when it is asked about next, so that it outlives the process.
fn verdict(settled: Result<(), Error>) -> Verdict {
    match settled {
        Ok(()) => Verdict::Settled,
        Err(error) => Verdict::Alarm(error.to_string()),
    }
}

fn fault(error: Error) -> Fault {
    Fault::new(FaultKind::Unavailable, error)
}
