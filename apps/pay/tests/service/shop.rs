//! A merchant's back end: what it sends to the service and what it reads.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::clock::soon;

/// An answer, whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Self { status, headers, body: response.bytes().await? })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// The problem that it must be; every problem has the same shape.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)));
        assert!(problem["type"].is_string() && problem["title"].is_string(), "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{problem}");
        problem
    }
}

/// A tenant's view of one instance of the service.
#[derive(Clone)]
pub(crate) struct Shop {
    http: reqwest::Client,
    pub(crate) base: String,
    api_key: String,
}

/// An order that anybody might make.
pub(crate) fn order(order_id: &str) -> Value {
    json!({"order_id": order_id, "amount": "88.80", "currency": "CNY", "subject": "One month",
        "benefits": ["vip_month"]})
}

/// The number of a payment.
pub(crate) fn no(payment: &Value) -> String {
    payment["payment_no"].as_str().unwrap_or_else(|| panic!("no payment: {payment}")).to_owned()
}

/// A client without proxies that follows nothing.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

impl Shop {
    pub(crate) fn new(http: &reqwest::Client, address: SocketAddr, api_key: &str) -> Self {
        let base = format!("http://{address}");
        Self { http: http.clone(), base, api_key: api_key.to_owned() }
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<Answer> {
        let url = format!("{}{path}", self.base);
        let mut request = self.http.request(method, url).bearer_auth(&self.api_key).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Answer::read(request.send().await?).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        self.try_send(method, path, headers, body).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, body.to_string()).await
    }

    /// Sends one request to create a payment.
    pub(crate) async fn create(&self, key: &str, body: &Value) -> Answer {
        self.try_create(key, body).await.unwrap()
    }

    pub(crate) async fn try_create(&self, key: &str, body: &Value) -> reqwest::Result<Answer> {
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        self.try_send(Method::POST, "/v1/payments", &headers, body.to_string()).await
    }

    /// Sends it until it is decided, as the documentation says.
    pub(crate) async fn settle(&self, key: &str, body: &Value) -> Answer {
        soon("a request is decided", || async {
            let answer = self.create(key, body).await;
            (answer.status != 202).then_some(answer)
        })
        .await
    }

    /// Opens a payment for an order under a key of its own.
    pub(crate) async fn buy(&self, order_id: &str) -> Value {
        self.settle(&format!("key-{order_id}"), &order(order_id)).await.is(201)
    }

    pub(crate) async fn payment(&self, no: &str) -> Value {
        self.get(&format!("/v1/payments/{no}")).await.is(200)
    }

    pub(crate) async fn order(&self, order_id: &str) -> Value {
        self.get(&format!("/v1/orders/{order_id}")).await.is(200)
    }

    /// Waits until a payment has this status.
    pub(crate) async fn becomes(&self, no: &str, status: &str) -> Value {
        soon(&format!("the payment {no} is {status}"), || async {
            let payment = self.payment(no).await;
            (payment["status"] == status).then_some(payment)
        })
        .await
    }

    /// Waits until every benefit of a payment has this status.
    pub(crate) async fn benefits_become(&self, no: &str, status: &str) {
        soon(&format!("the benefits of {no} are {status}"), || async {
            let payment = self.payment(no).await;
            let benefits = payment["benefits"].as_array().unwrap();
            benefits.iter().all(|benefit| benefit["status"] == status).then_some(())
        })
        .await;
    }

    pub(crate) async fn close(&self, no: &str) -> Answer {
        self.send(Method::POST, &format!("/v1/payments/{no}/close"), &[], "").await
    }

    pub(crate) async fn refund(&self, no: &str, refund_no: &str, amount: &str) -> Answer {
        let body = json!({"refund_no": refund_no, "amount": amount, "reason": "damaged"});
        self.post(&format!("/v1/payments/{no}/refunds"), &body).await
    }

    pub(crate) async fn refund_becomes(&self, no: &str, refund_no: &str, status: &str) -> Value {
        let path = format!("/v1/payments/{no}/refunds/{refund_no}");
        soon(&format!("the refund {refund_no} is {status}"), || async {
            let refund = self.get(&path).await.is(200);
            (refund["status"] == status).then_some(refund)
        })
        .await
    }

    /// Waits until surplus money went back.
    pub(crate) async fn goes_back(&self, no: &str) {
        let path = format!("/v1/payments/{no}/refunds/auto_{no}");
        soon(&format!("the money of {no} went back"), || async {
            let answer = self.get(&path).await;
            (answer.status == 200 && answer.json()["status"] == "done").then_some(())
        })
        .await;
    }

    /// Asks for a token.
    pub(crate) async fn token(&self, order_id: &str, user: &str, session: &str) -> Answer {
        let body = json!({"operation": "payment.create", "order_id": order_id, "user": user,
            "session": session});
        self.post("/v1/tokens", &body).await
    }

    /// Sends one request to create a payment with a token.
    pub(crate) async fn redeem(&self, token: &str, body: &Value) -> Answer {
        let headers = [("idempotent-token", token), ("content-type", "application/json")];
        self.send(Method::POST, "/v1/payments", &headers, body.to_string()).await
    }
}
