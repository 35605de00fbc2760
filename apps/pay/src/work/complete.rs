//! Goes on with requests whose process died, and with those that were told to wait.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http_body_util::BodyExt;

use crate::{
    api,
    error::Error,
    flow::{
        Desk,
        point::{Point, asked_before},
    },
};
use hapax::{Actor, Completer, Identity, Lease, Tenant, http::Ended, store::Ruling};

/// The completer of `payment.create`.
pub(super) fn completer(desk: &Arc<Desk>) -> Completer {
    let resuming = Arc::clone(desk);
    let resume = move |lease: Lease, identity: Identity| -> BoxFuture<'static, ()> {
        let desk = Arc::clone(&resuming);
        Box::pin(async move {
            if let Err(error) = resume(&desk, lease, identity.scope().tenant()).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "an abandoned request was not finished"
                );
            }
        })
    };
    Completer::new(desk.hapax.clone(), desk.config.periods.complete.0)
        .on(desk.create.clone(), resume)
}

/// Finishes one request: with its payment, if it was written down; by asking again, if it was told
/// to wait; else it surely did nothing, and never will, since it opens an attempt only under the
/// claim that was taken from it.
async fn resume(desk: &Arc<Desk>, lease: Lease, tenant: &Tenant) -> Result<(), Error> {
    let created = match desk.pointed(&lease).await? {
        Some((Point::Own(..), payment)) => desk.drive(payment, true).await?,
        // Its own request, or the sweep, goes on with it.
        Some((_, payment)) => desk.told(Some(payment), false),
        None => match asked_before(&lease)? {
            Some(asked) => api::create_again(desk, tenant, &asked.request, &lease).await?,
            None => return give_back(desk, lease).await,
        },
    };
    let response = api::create_answer(desk, created).await;
    if response.extensions().get() != Some(&Ended::Final) {
        // Not decided yet: the next sweep goes on.
        return Ok(lease.hand_on().await?);
    }
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(Error::corrupt)?.to_bytes();
    let whole = http::Response::from_parts(parts, body);
    let outcome = api::create_layer(desk).outcome(&whole);
    Ok(lease.complete(outcome).await?)
}

/// Frees the key of a request that wrote nothing down: the channel is asked only afterwards.
///
/// The engine alone would not, since an earlier attempt of a keyed effect may have been sent; that
/// this one was not is known here, so it is ruled.
async fn give_back(desk: &Arc<Desk>, lease: Lease) -> Result<(), Error> {
    let (fence, memory) = (lease.fence(), lease.lease());
    lease.hand_on().await?;
    let by = Actor::parse("completer").map_err(Error::corrupt)?;
    let ruling = Ruling::NothingHappened { memory };
    let why = "the request ended before it wrote a payment down";
    desk.hapax.settle(fence.id, fence.epoch, ruling, by, why).await?;
    Ok(())
}
