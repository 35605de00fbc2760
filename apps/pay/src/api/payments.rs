//! Payments and orders: ask and close.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    App,
    body::payment_no,
    create::show,
    problem::{self, NOT_CLOSABLE, NOT_FOUND},
    view::{OrderView, PaymentView},
    who::Me,
};
use crate::{
    db::{
        benefits, orders,
        payments::{self, Payment},
    },
    error::Error,
    flow::{Desk, on},
    merchant::Merchant,
    order::OrderId,
    payment::Status,
};
use hapax::http::Problem;

/// One payment.
#[utoipa::path(
    get, path = "/v1/payments/{payment_no}", tag = "payments",
    params(("payment_no" = String, Path)),
    responses((status = 200, body = PaymentView), (status = 404, description = "not_found")),
    security(("api_key" = []))
)]
pub(super) async fn payment(
    State(app): State<App>,
    axum::Extension(me): Me,
    Path(no): Path<String>,
) -> Response {
    match mine(&app.desk, &me, &no).await {
        Ok(Some(payment)) => shown(&app.desk, StatusCode::OK, &payment).await,
        Ok(None) => Problem::of(&NOT_FOUND).into_response(),
        Err(error) => problem::failed(&error).into_response(),
    }
}

/// The caller's payment of this number.
pub(super) async fn mine(desk: &Desk, me: &Merchant, no: &str) -> Result<Option<Payment>, Error> {
    let Some(no) = payment_no(no) else { return Ok(None) };
    let mut reader = desk.reader().await?;
    let payment = payments::find(on(&mut reader), &no).await?;
    Ok(payment.filter(|payment| payment.tenant == me.tenant))
}

async fn shown(desk: &Desk, status: StatusCode, payment: &Payment) -> Response {
    match show(desk, payment).await {
        Ok(view) => (status, Json(view)).into_response(),
        Err(error) => problem::failed(&error).into_response(),
    }
}

/// The newest round of an order.
#[utoipa::path(
    get, path = "/v1/orders/{order_id}", tag = "orders",
    params(("order_id" = String, Path)),
    responses((status = 200, body = OrderView), (status = 404, description = "not_found")),
    security(("api_key" = []))
)]
pub(super) async fn order(
    State(app): State<App>,
    axum::Extension(me): Me,
    Path(order_id): Path<String>,
) -> Response {
    match find_order(&app.desk, &me, &order_id).await {
        Ok(Some(view)) => Json(view).into_response(),
        Ok(None) => Problem::of(&NOT_FOUND).into_response(),
        Err(error) => problem::failed(&error).into_response(),
    }
}

async fn find_order(
    desk: &Desk,
    me: &Merchant,
    order_id: &str,
) -> Result<Option<OrderView>, Error> {
    let Some(order_id) = OrderId::parse(order_id) else { return Ok(None) };
    let mut reader = desk.reader().await?;
    let Some(order) = orders::newest(on(&mut reader), &me.tenant, &order_id).await? else {
        return Ok(None);
    };
    let at = orders::Round { tenant: &me.tenant, order_id: &order_id, round: order.round };
    let attempts = payments::of_order(on(&mut reader), at).await?;
    let benefits = benefits::of_order(on(&mut reader), at).await?;
    Ok(Some(OrderView::of(&order, &attempts, &benefits)))
}

/// Closes a payment that is not paid.
#[utoipa::path(
    post, path = "/v1/payments/{payment_no}/close", tag = "payments",
    params(("payment_no" = String, Path)),
    responses(
        (status = 200, description = "Closed; or paid, if the buyer was faster",
            body = PaymentView),
        (status = 202, description = "The channel has not confirmed yet", body = PaymentView),
        (status = 404, description = "not_found"), (status = 409, description = "not_closable"),
    ),
    security(("api_key" = []))
)]
pub(super) async fn close(
    State(app): State<App>,
    axum::Extension(me): Me,
    Path(no): Path<String>,
) -> Response {
    let payment = match mine(&app.desk, &me, &no).await {
        Ok(Some(payment)) => payment,
        Ok(None) => return Problem::of(&NOT_FOUND).into_response(),
        Err(error) => return problem::failed(&error).into_response(),
    };
    if payment.status == Status::Failed {
        return Problem::of(&NOT_CLOSABLE).into_response();
    }
    // A caller that goes away leaves the close to the engine and, at the latest, to the sweep.
    let desk = Arc::clone(&app.desk);
    let closing = app.desk.create.own(async move { close_now(&desk, &payment).await });
    match closing.await.unwrap_or_else(|cause| Err(Error::system("close a payment", cause))) {
        Ok(Some(payment)) if payment.status.is_live() => {
            shown(&app.desk, StatusCode::ACCEPTED, &payment).await
        }
        Ok(Some(payment)) => shown(&app.desk, StatusCode::OK, &payment).await,
        Ok(None) => Problem::of(&NOT_FOUND).into_response(),
        Err(error) => problem::failed(&error).into_response(),
    }
}

async fn close_now(desk: &Arc<Desk>, payment: &Payment) -> Result<Option<Payment>, Error> {
    let Some(asked) = desk.ask_to_close(&payment.payment_no).await? else { return Ok(None) };
    if asked.status == Status::Closing {
        let now = desk.now().await?;
        desk.try_close(&asked, now).await?;
    }
    let mut reader = desk.reader().await?;
    payments::find(on(&mut reader), &payment.payment_no).await
}
