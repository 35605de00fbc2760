//! `POST /v1/payments`.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    App,
    body::{CreatePayment, Creation},
    problem::{self, CHANNEL_MISSING, CHANNEL_REFUSED},
    view::PaymentView,
    who::Me,
};
use crate::{
    db::{benefits, orders, payments::Payment},
    error::Error,
    flow::{Desk, create::Created, on},
    ledger::create::Wanted,
    merchant::Merchant,
};
use hapax::{
    Tenant, Work,
    http::{Ended, Idempotent, Problem},
};

/// Creates a payment, or answers the one that the order has.
#[utoipa::path(
    post, path = "/v1/payments", tag = "payments", request_body = CreatePayment,
    params(
        ("Idempotency-Key" = Option<String>, Header,
            description = "A key of the caller's own; or send Idempotent-Token"),
    ),
    responses(
        (status = 201, description = "Ready to be paid", body = PaymentView),
        (status = 200, description = "Another key: the order's open or paid attempt",
            body = PaymentView),
        (status = 202, description = "Not decided yet; ask at Location"),
        (status = 409, description = "order_conflict, token_expired, in_progress"),
        (status = 422, description = "key_reused, channel_refused"),
    ),
    security(("api_key" = []))
)]
pub(super) async fn create(
    State(app): State<App>,
    axum::Extension(me): Me,
    idempotent: Idempotent,
    body: Bytes,
) -> Response {
    let (sent, creation) = match read(&body) {
        Ok(read) => read,
        Err(complaint) => return refuse(&idempotent, problem::body_invalid(complaint)),
    };
    let expires_in = match expires_in(&app.desk, &sent) {
        Ok(expires_in) => expires_in,
        Err(complaint) => return refuse(&idempotent, problem::body_invalid(complaint)),
    };
    if me.channel(creation.channel).is_none() {
        return refuse(&idempotent, Problem::of(&CHANNEL_MISSING));
    }
    idempotent.enter();
    let wanted = wanted(&me, creation);
    let request = match kept(&sent) {
        Ok(request) => request,
        Err(error) => return (Ended::NoEffect, problem::failed(&error)).into_response(),
    };
    match app.desk.create(wanted, expires_in, &request, &idempotent).await {
        Ok(Created::Unfit(why)) => refuse(&idempotent, problem::body_invalid(why.to_string())),
        // Not decided: nothing is stored, and whoever comes next goes on.
        Ok(Created::Processing { retry_after }) => {
            (Ended::Unknown, idempotent.still_at_work(retry_after)).into_response()
        }
        Ok(created) => answer(&app.desk, created).await,
        Err(error) => (Ended::Unknown, problem::failed(&error)).into_response(),
    }
}

/// Says no before anything was done: the key stays free for a corrected request.
fn refuse(idempotent: &Idempotent, problem: Problem) -> Response {
    idempotent.refuse();
    problem.into_response()
}

fn read(body: &Bytes) -> Result<(CreatePayment, Creation), String> {
    let sent: CreatePayment =
        serde_json::from_slice(body).map_err(|why| format!("the body is not understood: {why}"))?;
    let creation = sent.read()?;
    Ok((sent, creation))
}

fn expires_in(desk: &Desk, sent: &CreatePayment) -> Result<Duration, String> {
    let periods = &desk.config.periods;
    let Some(seconds) = sent.expires_in else { return Ok(periods.expiry.0) };
    let (least, most) = (periods.expiry_min.0, periods.expiry_max.0);
    let asked = Duration::from_secs(u64::from(seconds));
    if (least..=most).contains(&asked) {
        return Ok(asked);
    }
    Err(format!("`expires_in` must be {} to {} seconds", least.as_secs(), most.as_secs()))
}

/// Asks again for what a request asked that was told to wait, as its client would.
pub(crate) async fn again(
    desk: &Arc<Desk>,
    tenant: &Tenant,
    request: &Bytes,
    work: &Work,
) -> Result<Created, Error> {
    let (sent, creation) = read(request).map_err(Error::corrupt)?;
    let expires_in = expires_in(desk, &sent).map_err(Error::corrupt)?;
    let merchant = desk.merchants.find(tenant);
    let merchant = merchant.ok_or_else(|| Error::corrupt("a request of nobody we know"))?;
    desk.create(wanted(merchant, creation), expires_in, request, work).await
}

/// The request as its recovery point keeps it: what the books need, which is bounded by what
/// [`read`] takes, and nothing of who asked.
fn kept(sent: &CreatePayment) -> Result<Bytes, Error> {
    serde_json::to_vec(sent).map(Bytes::from).map_err(Error::corrupt)
}

fn wanted(me: &Merchant, creation: Creation) -> Wanted {
    Wanted {
        tenant: me.tenant.clone(),
        order_id: creation.order_id,
        content: creation.content,
        channel: creation.channel,
        way: creation.way,
        is_repurchase: creation.is_repurchase,
        again_after: None,
    }
}

/// Shows what a request came to.
pub(crate) async fn answer(desk: &Desk, created: Created) -> Response {
    match created {
        Created::Ready { payment, is_fresh } => match show(desk, &payment).await {
            Ok(view) => {
                let status = if is_fresh { StatusCode::CREATED } else { StatusCode::OK };
                (status, Ended::Final, Json(view)).into_response()
            }
            Err(error) => (Ended::Unknown, problem::failed(&error)).into_response(),
        },
        Created::Conflict(conflicts) => {
            (Ended::Final, problem::order_conflict(&conflicts)).into_response()
        }
        Created::Refused(payment) => {
            let why = payment.failure.unwrap_or_default();
            (Ended::Final, Problem::of(&CHANNEL_REFUSED).detail(why)).into_response()
        }
        Created::Unfit(why) => {
            (Ended::NoEffect, problem::body_invalid(why.to_string())).into_response()
        }
        Created::Processing { .. } => (StatusCode::ACCEPTED, Ended::Unknown, ()).into_response(),
    }
}

/// A payment with its order and benefits, read as it stands.
pub(super) async fn show(desk: &Desk, payment: &Payment) -> Result<PaymentView, Error> {
    let mut reader = desk.reader().await?;
    let order = orders::find(on(&mut reader), payment.at()).await?;
    let order = order.ok_or_else(|| Error::corrupt("a payment without its order"))?;
    let benefits = benefits::of_order(on(&mut reader), payment.at()).await?;
    Ok(PaymentView::of(payment, &order, &benefits))
}
