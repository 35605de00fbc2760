//! What axum handlers extract.

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, OptionalFromRequestParts, Request},
    response::{IntoResponse, Response},
};
use http::request::Parts;

use crate::{
    idempotent::Idempotent,
    problem::{Code, Problem},
};

/// The handler counts on a layer that is not around its route, or that let the request pass.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NotGuarded;

impl IntoResponse for NotGuarded {
    fn into_response(self) -> Response<Body> {
        tracing::error!("a handler counts on an idempotency layer that is not around its route");
        Problem::new(Code::NotGuarded).into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Idempotent {
    type Rejection = NotGuarded;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotGuarded> {
        parts.extensions.get::<Self>().cloned().ok_or(NotGuarded)
    }
}

/// `None`: the key is optional and was not sent, or the store is down and the operation runs
/// unprotected.
impl<S: Sync> OptionalFromRequestParts<S> for Idempotent {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Option<Self>, std::convert::Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

/// Extracts `E` and tells the layer whether the work begins: what `E` refuses frees the key, so
/// that a corrected request can come with it.
///
/// ```
/// use axum::{Json, http::StatusCode};
/// use hapax_http::{Checked, Idempotent};
///
/// # #[derive(serde::Deserialize)]
/// # struct Order { amount: u32 }
/// async fn create(
///     idempotent: Idempotent,
///     Checked(Json(order)): Checked<Json<Order>>,
/// ) -> StatusCode {
///     let _downstream_key = idempotent.child_key("charge");
///     if order.amount > 0 { StatusCode::CREATED } else { StatusCode::UNPROCESSABLE_ENTITY }
/// }
/// # let _: axum::Router = axum::Router::new().route("/", axum::routing::post(create));
/// ```
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is taken apart in the handler's arguments")]
pub struct Checked<E>(pub E);

impl<S, E> FromRequest<S> for Checked<E>
where
    S: Send + Sync,
    E: FromRequest<S>,
{
    type Rejection = E::Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, E::Rejection> {
        let idempotent = request.extensions().get::<Idempotent>().cloned();
        let extracted = E::from_request(request, state).await;
        if let Some(idempotent) = idempotent {
            match extracted {
                Ok(_) => idempotent.enter(),
                Err(_) => idempotent.refuse(),
            }
        }
        extracted.map(Self)
    }
}
