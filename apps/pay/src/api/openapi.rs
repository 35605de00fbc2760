//! The description of the API, made from the handlers.

use axum::{Json, response::IntoResponse};
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

use super::{create, health, notify, payments, refunds, token, view};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hapax payment service",
        description = "However often a request, callback, message or job is repeated, the \
            business outcome is the same one outcome."
    ),
    paths(
        create::create,
        payments::payment,
        payments::close,
        payments::order,
        refunds::create,
        refunds::refund,
        token::issue,
        notify::alipay,
        health::live,
        health::ready,
        health::metrics,
    ),
    components(schemas(view::PaymentView, view::OrderView, view::RefundView)),
    modifiers(&ApiKey)
)]
struct Api;

struct ApiKey;

impl Modify for ApiKey {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_default();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
    }
}

/// The document.
pub(super) async fn document() -> impl IntoResponse {
    Json(Api::openapi())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_documentation_is_described() {
        let document = serde_json::to_value(Api::openapi()).unwrap();
        let paths = document.get("paths").unwrap().as_object().unwrap();
        for path in [
            "/v1/tokens",
            "/v1/payments",
            "/v1/payments/{payment_no}",
            "/v1/payments/{payment_no}/close",
            "/v1/payments/{payment_no}/refunds",
            "/v1/payments/{payment_no}/refunds/{refund_no}",
            "/v1/orders/{order_id}",
            "/v1/notify/alipay",
            "/livez",
            "/readyz",
            "/metrics",
        ] {
            assert!(paths.contains_key(path), "{path}");
        }
    }
}
