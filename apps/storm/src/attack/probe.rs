//! Requests that no service should take, once for each attack.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::create::{KEY, TOKEN};
use super::ground::Ground;
use super::persist::{Accepted, Outcome};
use crate::book::About;
use crate::dice::Dice;
use crate::rule::Rule;
use crate::script::KEY_MAX;

/// The lane of the dice.
const PROBES: u64 = 0xB_0B;

/// Amounts that are none.
const BAD_AMOUNTS: [&str; 10] =
    ["1e2", "-1", "1.001", "０.01", "0", "0.00", "", "NaN", "100000000.01", " 1.00"];

/// A bad request and how it is to be refused.
struct Probe {
    name: String,
    body: Bytes,
    headers: Vec<(HeaderName, String)>,
    caller: Caller,
    status: u16,
    code: Option<&'static str>,
}

enum Caller {
    Tenant,
    Stranger,
}

/// Sends all bad requests and looks whether they left an order behind.
pub(crate) async fn play(ground: &Ground) {
    let mut dice = Dice::new(ground.seed, PROBES);
    let probes = probes(ground.seed, &mut dice);
    for (nth, probe) in probes.iter().enumerate() {
        let order_id = order_id(ground.seed, nth);
        let about = About { tenant: ground.tenant(0), order_id: &order_id };
        let outcome = send(ground, probe, &mut dice).await;
        let Some(answer) = outcome.answer() else {
            ground.unanswered(about, &probe.name, &outcome);
            continue;
        };
        let code = answer.code();
        let refused = answer.status == probe.status
            && probe.code.is_none_or(|wanted| code.as_deref() == Some(wanted));
        ground.judge(Rule::BadRequestRefused, about, refused, || {
            let wanted = (probe.status, probe.code.unwrap_or("any code"));
            format!("{}: {wanted:?} is right, it was {}", probe.name, answer.quote())
        });
        let path = ["v1", "orders", &order_id];
        let call = ground.call_of(0, "read", Method::GET, &path);
        let left = ground.persist(0, &call, Accepted::Enough, None, &mut dice).await;
        let Outcome::Decided(left) = left else { continue };
        ground.judge(Rule::BadRequestRefused, about, left.status == 404, || {
            format!("{}: it left an order behind: {}", probe.name, left.quote())
        });
    }
}

async fn send(ground: &Ground, probe: &Probe, dice: &mut Dice) -> Outcome {
    let mut call = ground.payment_call(0, probe.body.clone(), &probe.headers);
    if let Caller::Stranger = probe.caller {
        call.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer nobody-has-this-key"));
    }
    ground.persist(0, &call, Accepted::RefusedLater, None, dice).await
}

fn probes(seed: u64, dice: &mut Dice) -> Vec<Probe> {
    let mut probes: Vec<Probe> = Vec::new();
    let mut add = |name: &str, amount: &str, status, code| {
        let body = body(seed, probes.len(), amount);
        let (name, headers) = (name.to_owned(), vec![(KEY, dice.hex())]);
        probes.push(Probe { name, body, headers, caller: Caller::Tenant, status, code });
    };
    for amount in BAD_AMOUNTS {
        add(&format!("amount {amount:?}"), amount, 400, Some("body_invalid"));
    }
    add("malformed JSON", "1.00", 400, Some("body_invalid"));
    if let Some(probe) = probes.last_mut() {
        probe.body = probe.body.slice(..probe.body.len() - 1);
    }
    let mut add = |name: &str, headers: Vec<(HeaderName, String)>, status, code| {
        let body = body(seed, probes.len(), "1.00");
        let (name, caller) = (name.to_owned(), Caller::Tenant);
        probes.push(Probe { name, body, headers, caller, status, code });
    };
    let (key, token) = (dice.hex(), dice.hex());
    add("no key", Vec::new(), 400, Some("key_missing"));
    let both = vec![(KEY, key.clone()), (TOKEN, token.clone())];
    add("key and token", both, 400, Some("key_invalid"));
    add("a key too long", vec![(KEY, "k".repeat(KEY_MAX + 1))], 400, Some("key_invalid"));
    add("a made-up token", vec![(TOKEN, token)], 400, None);
    add("a stranger", vec![(KEY, key)], 401, None);
    if let Some(probe) = probes.last_mut() {
        probe.caller = Caller::Stranger;
    }
    probes
}

fn body(seed: u64, nth: usize, amount: &str) -> Bytes {
    let body = serde_json::json!({
        "order_id": order_id(seed, nth),
        "amount": amount,
        "currency": "CNY",
        "subject": "probe",
        "user": "prober",
        "session": "storm",
    });
    Bytes::from(body.to_string())
}

fn order_id(seed: u64, nth: usize) -> String {
    format!("S{seed:016x}-probe-{nth}")
}
