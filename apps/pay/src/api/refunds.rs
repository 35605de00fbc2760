//! Refunds: the refund number is the key.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    App,
    body::CreateRefund,
    payments::mine,
    problem::{
        self, NOT_FOUND, NOT_REFUNDABLE, REFUND_CONFLICT, REFUND_EXCEEDS, REFUNDS_UNDER_WAY,
    },
    view::RefundView,
    who::Me,
};
use crate::{
    channel::RefundNo,
    db::{
        payments::Payment,
        refunds::{self, NewRefund, Refund},
    },
    error::Error,
    flow::on,
    ledger::refunds::Requested,
    refund::{Origin, Status},
};
use hapax::http::Problem;

/// Gives money back.
#[utoipa::path(
    post, path = "/v1/payments/{payment_no}/refunds", tag = "refunds", request_body = CreateRefund,
    params(("payment_no" = String, Path)),
    responses(
        (status = 201, description = "Done", body = RefundView),
        (status = 202, description = "The channel has not confirmed yet", body = RefundView),
        (status = 200, description = "The same number again", body = RefundView),
        (status = 409, description = "refund_conflict, not_refundable"),
        (status = 422, description = "refund_exceeds_payment"),
    ),
    security(("api_key" = []))
)]
pub(super) async fn create(
    State(app): State<App>,
    axum::Extension(me): Me,
    Path(no): Path<String>,
    body: Bytes,
) -> Response {
    let payment = match mine(&app.desk, &me, &no).await {
        Ok(Some(payment)) => payment,
        Ok(None) => return Problem::of(&NOT_FOUND).into_response(),
        Err(error) => return problem::failed(&error).into_response(),
    };
    let new = match read(&payment, &body) {
        Ok(new) => new,
        Err(complaint) => return problem::body_invalid(complaint).into_response(),
    };
    // A caller that goes away leaves the refund to the engine and, at the latest, to the sweep.
    let desk = Arc::clone(&app.desk);
    let asking = app.desk.create.own(async move { desk.refund(&payment, new).await });
    match asking.await.unwrap_or_else(|cause| Err(Error::system("refund a payment", cause))) {
        Ok(requested) => answer(&requested),
        Err(error) => problem::failed(&error).into_response(),
    }
}

fn read(payment: &Payment, body: &Bytes) -> Result<NewRefund, String> {
    let sent: CreateRefund =
        serde_json::from_slice(body).map_err(|why| format!("the body is not understood: {why}"))?;
    let (refund_no, amount, reason) = sent.read(payment.currency)?;
    Ok(NewRefund {
        tenant: payment.tenant.clone(),
        refund_no,
        payment_no: payment.payment_no.clone(),
        amount,
        currency: payment.currency,
        reason,
        origin: Origin::Merchant,
    })
}

fn answer(requested: &Requested) -> Response {
    match requested {
        Requested::New(refund) => shown(refund, StatusCode::CREATED),
        Requested::Known(refund) => shown(refund, StatusCode::OK),
        Requested::Conflict => Problem::of(&REFUND_CONFLICT).into_response(),
        Requested::NotPaid => Problem::of(&NOT_REFUNDABLE).into_response(),
        Requested::Undecided => {
            Problem::of(&REFUNDS_UNDER_WAY).retry_after(UNDER_WAY_RETRY).into_response()
        }
        Requested::TooMuch { left, currency } => {
            let left = left.text(*currency);
            let detail = format!("{left} {} is left of the payment; ask for less", currency.code());
            Problem::of(&REFUND_EXCEEDS).detail(detail).into_response()
        }
    }
}

/// When refunds under way are usually told of: the channel is asked ten seconds after each.
const UNDER_WAY_RETRY: Duration = Duration::from_secs(10);

fn shown(refund: &Refund, finished: StatusCode) -> Response {
    let status = match refund.status {
        Status::Reserved | Status::Sent => StatusCode::ACCEPTED,
        Status::Done | Status::Refused => finished,
    };
    (status, Json(RefundView::of(refund))).into_response()
}

/// One refund.
#[utoipa::path(
    get, path = "/v1/payments/{payment_no}/refunds/{refund_no}", tag = "refunds",
    params(("payment_no" = String, Path), ("refund_no" = String, Path)),
    responses((status = 200, body = RefundView), (status = 404, description = "not_found")),
    security(("api_key" = []))
)]
pub(super) async fn refund(
    State(app): State<App>,
    axum::Extension(me): Me,
    Path((payment_no, refund_no)): Path<(String, String)>,
) -> Response {
    let Ok(refund_no) = RefundNo::parse(&refund_no) else {
        return Problem::of(&NOT_FOUND).into_response();
    };
    let found = async {
        let mut reader = app.desk.reader().await?;
        refunds::find(on(&mut reader), &me.tenant, &refund_no).await
    };
    match found.await {
        Ok(Some(refund)) if refund.payment_no.as_str() == payment_no => {
            Json(RefundView::of(&refund)).into_response()
        }
        Ok(_) => Problem::of(&NOT_FOUND).into_response(),
        Err(error) => problem::failed(&error).into_response(),
    }
}
