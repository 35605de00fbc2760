//! Tenants: who may call, and what each of them sees.

use http::Method;
use serde_json::json;

use crate::{
    shop::{Answer, Shop, no, order},
    stage::{NORTH_KEY, Stage},
};
use hapax_pay::{Kind, Service, config::Config};

#[tokio::test]
async fn only_the_whole_key_opens_the_door() {
    let stage = Stage::open().await;
    let url = format!("http://{}/v1/orders/1001", stage.service.address);
    let get = async |headers: &[&str]| {
        let mut request = stage.http.get(&url);
        for header in headers {
            request = request.header("authorization", *header);
        }
        Answer::read(request.send().await.unwrap()).await.unwrap()
    };
    let key = NORTH_KEY;
    let (shorter, longer) = (&key[..key.len() - 1], format!("{key}x"));
    for header in [
        "".to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        key.to_owned(),
        format!("Basic {key}"),
        format!("Bearer {shorter}"),
        format!("Bearer {longer}"),
        format!("Bearer {}", key.to_uppercase()),
        format!("Bearer {key} {key}"),
        format!("Bearer \"{key}\""),
    ] {
        get(&[&header]).await.refused(401, "unauthenticated");
    }
    get(&[]).await.refused(401, "unauthenticated");
    let whole = format!("Bearer {key}");
    get(&[&whole, &whole]).await.refused(401, "unauthenticated");
    get(&[&whole]).await.refused(404, "not_found");
    get(&[&format!("bearer {key}")]).await.refused(404, "not_found");
}

#[tokio::test]
async fn every_route_of_a_tenant_asks_for_the_key() {
    let stage = Stage::open().await;
    let stranger = Shop::new(&stage.http, stage.service.address, "nobody");
    for (method, path) in [
        (Method::POST, "/v1/payments"),
        (Method::GET, "/v1/payments/P1"),
        (Method::POST, "/v1/payments/P1/close"),
        (Method::POST, "/v1/payments/P1/refunds"),
        (Method::GET, "/v1/payments/P1/refunds/R1"),
        (Method::GET, "/v1/orders/1001"),
        (Method::POST, "/v1/tokens"),
        (Method::GET, "/v1/operations/payment.create/k"),
        (Method::GET, "/v1/operations/payment.create/k/answer"),
    ] {
        let headers = [("idempotency-key", "k")];
        stranger.send(method, path, &headers, "{}").await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_tenant_sees_nothing_of_another() {
    let stage = Stage::open().await;
    let (north, south) = (stage.shop(), stage.other_shop());
    let payment = no(&north.settle("k1", &order("1001")).await.is(201));
    stage.channel.pay(&payment).await;
    north.becomes(&payment, "paid").await;
    north.refund(&payment, "R1", "1.00").await;
    north.refund_becomes(&payment, "R1", "done").await;

    south.get(&format!("/v1/payments/{payment}")).await.refused(404, "not_found");
    south.get("/v1/orders/1001").await.refused(404, "not_found");
    south.close(&payment).await.refused(404, "not_found");
    south.refund(&payment, "R2", "1.00").await.refused(404, "not_found");
    let refund = format!("/v1/payments/{payment}/refunds/R1");
    south.get(&refund).await.refused(404, "not_found");
    south.get("/v1/operations/payment.create/k1").await.refused(404, "key_unknown");
    south.get("/v1/operations/payment.create/k1/answer").await.refused(404, "key_unknown");
    stage.audit().await;
    assert_eq!(stage.south.deliveries().len(), 0, "nor is it told anything");
}

#[tokio::test]
async fn two_tenants_use_the_same_numbers_beside_each_other() {
    let stage = Stage::open().await;
    let (north, south) = (stage.shop(), stage.other_shop());
    let mut payments = Vec::new();
    for shop in [&north, &south] {
        let answer = shop.create("k1", &order("1001")).await;
        assert!(!answer.is_replayed());
        let payment = no(&answer.is(201));
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
        shop.refund(&payment, "R1", "8.03").await;
        let refund = shop.refund_becomes(&payment, "R1", "done").await;
        assert_eq!(refund["payment_no"], json!(payment));
        payments.push(payment);
    }
    assert_ne!(payments[0], payments[1]);
    stage.audit().await;
    for (receiver, payment) in [(&stage.north, &payments[0]), (&stage.south, &payments[1])] {
        let deliveries = receiver.deliveries();
        assert!(deliveries.len() >= 3, "{deliveries:?}");
        assert!(deliveries.iter().all(|it| it.json()["payment_no"] == **payment));
    }
}

/// A notice names its app, a request its key: neither may lead to two tenants.
#[tokio::test]
async fn tenants_that_cannot_be_told_apart_are_refused_at_the_start() {
    let stage = Stage::open().await;
    let file = stage.config_at("127.0.0.1:0".parse().unwrap());
    let refused = async |change: &dyn Fn(&mut Config)| {
        let mut config = Config::read(&file).unwrap();
        change(&mut config);
        let error = Service::open(config, None).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Config, "{error}");
        std::error::Error::source(&error).unwrap().to_string()
    };
    let same_app = refused(&|config| {
        let app_id = config.tenants[0].alipay.as_ref().unwrap().app_id.clone();
        config.tenants[1].alipay.as_mut().unwrap().app_id = app_id;
    });
    assert!(same_app.await.contains("app_id"));
    let same_key = refused(&|config| {
        config.tenants[1].api_key_file = config.tenants[0].api_key_file.clone();
    });
    assert!(same_key.await.contains("API key"));
}
