//! The simulator: its strings, its truth, and notices made with its key.

use std::{net::SocketAddr, sync::LazyLock, time::Duration};

use form_urlencoded::Serializer;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{clock::soon, shop::client};
use hapax_pay::channel::alipay::PrivateKey;
use hapax_sim::{Account, RsaKeyPem, faults::Faults, generate_rsa_key_pem, wire};

/// The channel's key and those of the two apps. One is made afresh in each process; the others are
/// those of the test vectors, since an RSA key costs more than most tests.
pub(crate) static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let vectors: Value = serde_json::from_str(include_str!("../vectors/payments.json")).unwrap();
    let pair = |owner: &str| {
        let text = |name: &str| vectors["keys"][name].as_str().unwrap().to_owned();
        RsaKeyPem {
            private_pkcs8: text(&format!("{owner}_private_pkcs8")),
            public_spki: text(&format!("{owner}_public")),
        }
    };
    Keys { channel: pair("alipay"), north: generate_rsa_key_pem().unwrap(), south: pair("app") }
});

pub(crate) struct Keys {
    pub(crate) channel: RsaKeyPem,
    pub(crate) north: RsaKeyPem,
    pub(crate) south: RsaKeyPem,
}

pub(crate) const NORTH_APP: &str = "2026000000000001";
pub(crate) const SOUTH_APP: &str = "2026000000000002";
pub(crate) const NORTH_SELLER: &str = "2088000000000101";
pub(crate) const SOUTH_SELLER: &str = "2088000000000102";

/// A simulator on a port of its own.
pub(crate) struct Channel {
    pub(crate) address: SocketAddr,
    http: reqwest::Client,
    _stop: oneshot::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Channel {
    /// Opens one that delivers each notice by `schedule` and takes signatures of this age.
    pub(crate) async fn open(schedule: Vec<Duration>, tolerance: Duration) -> Self {
        let keys = &*KEYS;
        let account = Account::with_key(NORTH_APP, NORTH_SELLER, &keys.north.public_spki);
        let mut config = hapax_sim::Config::new(&keys.channel.private_pkcs8, account);
        config.accounts.push(Account::with_key(SOUTH_APP, SOUTH_SELLER, &keys.south.public_spki));
        config.notify_schedule = schedule;
        config.notify_timeout = Duration::from_secs(3);
        config.timestamp_tolerance = Some(tolerance);
        config.seed = 42;
        let simulator = hapax_sim::bind(config).await.unwrap();
        let address = simulator.local_addr();
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let shutdown = async move { drop(stopped.await) };
            simulator.serve(shutdown).await.unwrap();
        });
        Self { address, http: client(), _stop: stop, _tasks: tasks }
    }

    /// Pulls a string and expects it to be done.
    pub(crate) async fn control(&self, what: &str, body: &Value) -> Value {
        let url = format!("http://{}/_sim/{what}", self.address);
        let response = self.http.post(url).json(body).send().await.unwrap();
        let (status, answer) = (response.status(), response.json::<Value>().await.unwrap());
        assert_eq!(status, 200, "{what} {body}: {answer}");
        answer
    }

    /// The buyer scans and pays.
    pub(crate) async fn pay(&self, no: &str) {
        self.control("pay", &json!({"out_trade_no": no})).await;
    }

    /// The buyer pays although the time is over.
    pub(crate) async fn pay_late(&self, no: &str) {
        self.control("pay", &json!({"out_trade_no": no, "late": true})).await;
    }

    pub(crate) async fn scan(&self, no: &str) {
        self.control("scan", &json!({"out_trade_no": no})).await;
    }

    /// Replaces what goes wrong.
    pub(crate) async fn faults(&self, faults: Value) {
        // Read here, a slip in a test is found at its place.
        let faults: Faults = serde_json::from_value(faults).unwrap();
        self.control("faults", &serde_json::to_value(faults).unwrap()).await;
    }

    /// No notice is ever delivered.
    pub(crate) async fn lose_notices(&self) {
        self.faults(json!({"notices": [{"fault": "lost"}]})).await;
    }

    /// Every call of `method` goes wrong like this, `times` times.
    pub(crate) async fn break_calls(&self, method: &str, fault: Value, times: Option<u32>) {
        let rule = json!({"fault": fault, "method": method, "when": {"times": times}});
        self.faults(json!({"calls": [rule]})).await;
    }

    /// The same, and only asking can tell how it ended.
    pub(crate) async fn break_silently(&self, method: &str, fault: Value, times: Option<u32>) {
        let rule = json!({"fault": fault, "method": method, "when": {"times": times}});
        self.faults(json!({"calls": [rule], "notices": [{"fault": "lost"}]})).await;
    }

    pub(crate) async fn truth(&self) -> wire::Truth {
        let url = format!("http://{}/_sim/truth", self.address);
        self.http.get(url).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn totals(&self) -> wire::Totals {
        self.truth().await.totals
    }

    pub(crate) async fn calls(&self, method: &str) -> u64 {
        self.totals().await.calls.get(method).copied().unwrap_or_default()
    }

    pub(crate) async fn find_trade(&self, no: &str) -> Option<wire::Trade> {
        self.truth().await.trades.into_iter().find(|trade| trade.out_trade_no == no)
    }

    pub(crate) async fn trade(&self, no: &str) -> wire::Trade {
        self.find_trade(no).await.unwrap()
    }

    /// The genuine deliveries about a trade.
    pub(crate) async fn deliveries(&self, no: &str) -> Vec<wire::Delivery> {
        let all = self.truth().await.deliveries;
        all.into_iter().filter(|it| it.out_trade_no == no && !it.hostile).collect()
    }

    /// Waits until a notice about a trade was acknowledged, and says which.
    pub(crate) async fn acknowledged(&self, no: &str) -> String {
        soon(&format!("a notice about {no} is acknowledged"), || async {
            let deliveries = self.deliveries(no).await;
            let taken = deliveries.iter().find(|it| it.outcome == wire::Outcome::Success);
            taken.map(|it| it.notify_id.clone())
        })
        .await
    }
}

/// Gaps between deliveries: the first at once, then many soon.
pub(crate) fn schedule(gap_ms: u64) -> Vec<Duration> {
    let rest = std::iter::repeat_n(Duration::from_millis(gap_ms), 63);
    std::iter::once(Duration::ZERO).chain(rest).collect()
}

/// A notice about a payment, as the channel would write it.
#[derive(Clone, Debug)]
pub(crate) struct Letter(Vec<(String, Vec<u8>)>);

impl Letter {
    /// That this payment of north's was paid.
    pub(crate) fn paid(no: &str) -> Self {
        let params = [
            ("gmt_create", "2026-10-01 08:00:02"),
            ("charset", "utf-8"),
            ("gmt_payment", "2026-10-01 08:00:30"),
            ("notify_time", "2026-10-01 08:00:31"),
            ("subject", "One month"),
            ("version", "1.0"),
            ("notify_id", &format!("n{no}")),
            ("notify_type", "trade_status_sync"),
            ("out_trade_no", no),
            ("total_amount", "88.80"),
            ("trade_status", "TRADE_SUCCESS"),
            ("trade_no", &format!("22001400{no}")),
            ("app_id", NORTH_APP),
            ("seller_id", NORTH_SELLER),
            ("sign_type", "RSA2"),
        ];
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        Self(params.iter().map(owned).collect())
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    /// The body, signed by the channel.
    pub(crate) fn signed(&self) -> String {
        self.signed_by(&KEYS.channel)
    }

    /// The body, signed by whoever has this key.
    pub(crate) fn signed_by(&self, key: &RsaKeyPem) -> String {
        let key = PrivateKey::parse(&key.private_pkcs8.as_str().into()).unwrap();
        let mut sorted: Vec<_> = self.0.iter().filter(|(name, _)| name != "sign_type").collect();
        sorted.sort();
        let mut text = Vec::new();
        for (name, value) in sorted {
            if !text.is_empty() {
                text.push(b'&');
            }
            text.extend_from_slice(name.as_bytes());
            text.push(b'=');
            text.extend_from_slice(value);
        }
        format!("{}&sign={}", self.encoded(), escaped(key.sign(&text).unwrap().as_bytes()))
    }

    /// The body without any signature.
    pub(crate) fn encoded(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

fn escaped(bytes: &[u8]) -> String {
    form_urlencoded::byte_serialize(bytes).collect()
}

/// A form that nobody signed.
pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(pairs).finish()
}
