//! Starts a simulator and offers what most tests need.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::client::{Call, key, verified};
use crate::shop::Shop;
use hapax_sim::faults::Faults;
use hapax_sim::{Account, Config, bind, wire};

/// Nothing here should take longer; the limit is for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(15);

#[expect(clippy::disallowed_methods, reason = "the tests watch a server in real time")]
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Waits until it is so.
pub(crate) async fn soon(what: &str, ready: impl Fn() -> bool) {
    let waiting = async {
        while !ready() {
            pause(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "in time: {what}");
}

pub(crate) struct Stage {
    pub(crate) addr: SocketAddr,
    pub(crate) http: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    tasks: JoinSet<()>,
}

pub(crate) fn config() -> Config {
    let account = Account::with_key("2026000000000001", "2088000000000002", key("app_public"));
    let mut config = Config::new(key("alipay_private_pkcs8"), account);
    // Eight deliveries in about a second.
    config.time_scale = 100_000.0;
    config.seed = 42;
    config
}

impl Stage {
    pub(crate) async fn open() -> Self {
        Self::with(config()).await
    }

    pub(crate) async fn with_faults(faults: Value) -> Self {
        let faults: Faults = serde_json::from_value(faults).unwrap();
        let mut config = config();
        config.faults = faults;
        Self::with(config).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let simulator = bind(config).await.unwrap();
        let addr = simulator.local_addr();
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let shutdown = async move { drop(stopped.await) };
            simulator.serve(shutdown).await.unwrap();
        });
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { addr, http, stop: Some(stop), tasks }
    }

    /// Tells the simulator to stop and waits until it did.
    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        let ended = tokio::time::timeout(PATIENCE, self.tasks.join_next()).await;
        assert!(matches!(ended, Ok(Some(Ok(())))), "it stops: {ended:?}");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Posts a call as it is.
    pub(crate) async fn send(&self, call: &Call) -> reqwest::Result<(u16, Vec<u8>)> {
        let request = self
            .http
            .post(self.url("/gateway.do"))
            .header("content-type", "application/x-www-form-urlencoded;charset=utf-8")
            .body(call.wire());
        let response = request.send().await?;
        let status = response.status().as_u16();
        Ok((status, response.bytes().await?.to_vec()))
    }

    /// Makes a signed call and verifies the answer.
    pub(crate) async fn call(&self, method: &str, biz: &Value) -> Value {
        self.ask(method, Call::new(method, biz)).await
    }

    pub(crate) async fn ask(&self, method: &str, call: Call) -> Value {
        let (status, body) = self.send(&call.signed()).await.unwrap();
        assert_eq!(status, 200);
        verified(&node(method), &body)
    }

    pub(crate) async fn precreate(&self, number: &str, shop: Option<&Shop>) -> Value {
        let biz = json!({"out_trade_no": number, "total_amount": "88.80", "subject": "会员 1"});
        let mut call = Call::new("alipay.trade.precreate", &biz);
        if let Some(shop) = shop {
            call = call.with("notify_url", &shop.url());
        }
        self.ask("alipay.trade.precreate", call).await
    }

    /// Makes a trade and pays it.
    pub(crate) async fn paid(&self, number: &str, shop: Option<&Shop>) {
        assert_eq!(self.precreate(number, shop).await["code"], "10000");
        self.control("pay", &json!({"out_trade_no": number})).await;
    }

    pub(crate) async fn query(&self, number: &str) -> Value {
        self.call("alipay.trade.query", &json!({"out_trade_no": number})).await
    }

    pub(crate) async fn close_trade(&self, number: &str) -> Value {
        self.call("alipay.trade.close", &json!({"out_trade_no": number})).await
    }

    pub(crate) async fn refund(&self, number: &str, request: &str, amount: &str) -> Value {
        let biz = json!({
            "out_trade_no": number, "out_request_no": request, "refund_amount": amount,
        });
        self.call("alipay.trade.refund", &biz).await
    }

    /// Calls `/_sim/…` and expects it to be done.
    pub(crate) async fn control(&self, what: &str, body: &impl Serialize) -> Value {
        let (status, answer) = self.try_control(what, body).await;
        assert_eq!(status, 200, "{what}: {answer}");
        answer
    }

    pub(crate) async fn try_control(&self, what: &str, body: &impl Serialize) -> (u16, Value) {
        let url = self.url(&format!("/_sim/{what}"));
        let response = self.http.post(url).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    pub(crate) async fn truth(&self) -> wire::Truth {
        self.http.get(self.url("/_sim/truth")).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn totals(&self) -> wire::Totals {
        self.truth().await.totals
    }

    pub(crate) async fn trade(&self, number: &str) -> wire::Trade {
        let trades = self.truth().await.trades;
        trades.into_iter().find(|trade| trade.out_trade_no == number).unwrap()
    }

    /// Waits until the totals are so.
    pub(crate) async fn totals_reach(
        &self,
        what: &str,
        ready: impl Fn(&wire::Totals) -> bool,
    ) -> wire::Totals {
        let waiting = async {
            loop {
                let totals = self.totals().await;
                if ready(&totals) {
                    return totals;
                }
                pause(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, waiting).await;
        reached.unwrap_or_else(|_| panic!("in time: {what}"))
    }
}

pub(crate) fn node(method: &str) -> String {
    format!("{}_response", method.replace('.', "_"))
}

pub(crate) fn counted(totals: &wire::Totals, fault: &str) -> u64 {
    totals.faults.get(fault).copied().unwrap_or_default()
}
