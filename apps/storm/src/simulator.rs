//! The strings behind the channel: `/_sim/…`, spoken over HTTP only.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::client::{Call, Client};
use crate::clock::Until;
use crate::error::{Error, Kind};
use crate::mischief;
use crate::plan::Mischief;
use crate::target::{Target, local_page};

/// Tries of one string; the simulator is not killed, so more would not help.
const TRIES_MAX: u32 = 40;

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Buyers set to act at a moment. The simulator keeps a thousand rules and looks at each of them
/// at every close.
const HOOKS_MAX: u32 = 900;

/// The simulator, as seen by the attack.
#[derive(Debug)]
pub(crate) struct Simulator {
    target: Target,
    client: Client,
    until: Until,
    hooks: AtomicU32,
}

/// The moment that sets a buyer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    BeforeClose,
    AfterCloseNotExist,
}

/// Whether a payment is judged by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InTime,
    Late,
}

/// What came of pulling a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Done,
    Refused(String),
    /// The simulator did not answer.
    Silent(String),
}

#[derive(Debug, Deserialize)]
struct Truth {
    trades: Vec<Trade>,
    #[serde(default)]
    deliveries: Vec<Delivery>,
}

/// A trade as the channel knows it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Trade {
    pub(crate) status: String,
    pub(crate) paid_fen: i64,
    pub(crate) refunded_fen: i64,
    #[serde(default)]
    pub(crate) refunds: Vec<Refund>,
}

/// Refunds under one number.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refund {
    pub(crate) out_request_no: String,
    pub(crate) refunded_fen: i64,
    pub(crate) times: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Delivery {
    notify_id: String,
    #[serde(default)]
    hostile: bool,
    outcome: String,
}

impl Simulator {
    pub(crate) fn new(target: Target, client: Client, until: Until) -> Self {
        Self { target, client, until, hooks: AtomicU32::new(0) }
    }

    /// Sets what goes wrong from now on.
    ///
    /// # Errors
    /// `Kind::Unreachable` or `Kind::Simulator`.
    pub(crate) async fn arm(&self, mischief: &Mischief) -> Result<(), Error> {
        self.set(mischief::rules(mischief)).await
    }

    /// Takes all faults away, so that what is under way can come to rest.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub(crate) async fn heal(&self) -> Result<(), Error> {
        self.set(json!({})).await
    }

    async fn set(&self, rules: Value) -> Result<(), Error> {
        match self.pull("faults", &rules).await {
            Pulled::Done => Ok(()),
            Pulled::Refused(why) => {
                Err(Error::new(Kind::Simulator, format!("set the channel's faults: {why}")))
            }
            Pulled::Silent(why) => Err(Error::new(
                Kind::Unreachable,
                format!("reach the simulator: {why}; start it first, or give its right address"),
            )),
        }
    }

    /// Sets the buyer of one trade to pay at a moment; refused when too many are set already.
    pub(crate) async fn hook(&self, moment: Moment, number: &str, delay_ms: u64) -> Pulled {
        if self.hooks.fetch_add(1, Ordering::Relaxed) >= HOOKS_MAX {
            return Pulled::Refused("as many buyers are set as the simulator keeps".to_owned());
        }
        let at = match moment {
            Moment::BeforeClose => "before_close",
            Moment::AfterCloseNotExist => "after_close_not_exist",
        };
        let when = json!({"out_trade_no": number, "times": 1});
        self.pull("hook", &json!({"at": at, "do": "pay", "delay_ms": delay_ms, "when": when})).await
    }

    pub(crate) async fn scan(&self, number: &str) -> Pulled {
        self.pull("scan", &json!({"out_trade_no": number})).await
    }

    pub(crate) async fn pay(&self, number: &str, arrival: Arrival) -> Pulled {
        let late = arrival == Arrival::Late;
        self.pull("pay", &json!({"out_trade_no": number, "late": late})).await
    }

    /// Delivers a notice once more.
    pub(crate) async fn resend(&self, notify_id: &str) -> Pulled {
        self.pull("notify/resend", &json!({"notify_id": notify_id})).await
    }

    /// Opens the page that the buyer was sent to, as a browser does, until it shows.
    pub(crate) async fn open(&self, page: &str) -> Pulled {
        let Some(url) = local_page(page) else {
            return Pulled::Refused(format!("{page} is not on this machine"));
        };
        let call = request(Method::GET, url, None);
        match self.ask(&call, |answer| answer.status < 500).await {
            Ok(answer) if answer.status < 400 => Pulled::Done,
            Ok(answer) => Pulled::Refused(answer.quote()),
            Err(why) => Pulled::Silent(why),
        }
    }

    /// What really happened to a trade; `Ok(None)` if the channel does not know it.
    pub(crate) async fn trade(&self, number: &str) -> Result<Option<Trade>, String> {
        Ok(self.truth(number, "false").await?.trades.into_iter().next())
    }

    /// The notices of a trade that were sent at least once.
    pub(crate) async fn sent_notices(&self, number: &str) -> Result<Vec<String>, String> {
        let deliveries = self.truth(number, "true").await?.deliveries;
        let sent = deliveries.into_iter().filter(|d| !d.hostile && d.outcome != "not_sent");
        let mut ids: Vec<String> = sent.map(|delivery| delivery.notify_id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    async fn truth(&self, number: &str, deliveries: &str) -> Result<Truth, String> {
        let mut url = self.target.at(&["_sim", "truth"]);
        url.query_pairs_mut()
            .append_pair("out_trade_no", number)
            .append_pair("deliveries", deliveries);
        let call = request(Method::GET, url, None);
        let answer = self.ask(&call, Answer::is_success).await?;
        answer.read().ok_or_else(|| format!("the channel's truth reads {}", answer.quote()))
    }

    async fn pull(&self, string: &str, body: &Value) -> Pulled {
        let path: Vec<&str> = std::iter::once("_sim").chain(string.split('/')).collect();
        let body = Bytes::from(body.to_string());
        let call = request(Method::POST, self.target.at(&path), Some(body));
        match self.ask(&call, |answer| answer.status < 500).await {
            Ok(answer) if answer.is_success() => Pulled::Done,
            Ok(answer) => Pulled::Refused(answer.quote()),
            Err(why) => Pulled::Silent(why),
        }
    }

    /// Sends until an answer is as wanted.
    async fn ask(&self, call: &Call, wanted: impl Fn(&Answer) -> bool) -> Result<Answer, String> {
        let mut last = String::new();
        for _ in 0..TRIES_MAX {
            match self.client.send(call, None).await {
                Ok(answer) if wanted(&answer) => return Ok(answer),
                Ok(answer) => last = answer.quote(),
                Err(silence) => last = silence.describe(),
            }
            if self.until.is_over() {
                break;
            }
            self.until.pause(PAUSE).await;
        }
        Err(last)
    }
}

fn request(method: Method, url: Url, body: Option<Bytes>) -> Call {
    Call { kind: "simulator", method, url, headers: HeaderMap::new(), body }
}
