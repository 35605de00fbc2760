//! How the toy takes a request to pay.

use serde_json::{Value, json};

use super::flaw::Flaw;
use super::money;
use super::shop::{Done, Payment, Round, Running, Shop, Trade};

/// How long the slow toy takes.
const SLOW_MS: u64 = 60;

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) is_replay: bool,
    pub(crate) location: Option<String>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: &Value) -> Self {
        let body = body.to_string().into_bytes();
        Self { status, body, is_replay: false, location: None }
    }

    pub(crate) fn refuse(status: u16, code: &str) -> Self {
        Self::new(status, &json!({"code": code, "status": status}))
    }
}

/// What was asked to be paid, if it can be read.
struct Asked {
    order_id: String,
    amount: i64,
    content: Value,
    benefits: Vec<String>,
    way: String,
    expires_in_s: u64,
    is_repurchase: bool,
}

impl Shop {
    pub(crate) fn create(&mut self, tenant: &str, key: &str, request: &[u8], now: u64) -> Reply {
        if self.flaw == Flaw::AlwaysFails {
            return Reply::refuse(500, "internal");
        }
        let scope = if self.flaw == Flaw::KeyOfAnyTenant { "all" } else { tenant };
        let id = (scope.to_owned(), key.to_owned());
        if let Some(done) = self.keys.get(&id) {
            return self.replay(done, request);
        }
        if matches!(self.flaw, Flaw::Slow | Flaw::LeadsNowhere) {
            let location = format!("/v1/operations/payment.create/{}", escaped(key));
            let until_ms = now + SLOW_MS;
            let request = request.to_vec();
            let running = self.running.entry(id.clone()).or_insert(Running { request, until_ms });
            if running.until_ms > now {
                let mut reply = Reply::new(202, &json!({"status": "processing"}));
                reply.location = Some(location);
                return reply;
            }
            self.finish(tenant, &id, now);
            return self.replay(&self.keys[&id], &self.keys[&id].request);
        }
        let reply = self.work(tenant, request, now);
        if reply.status < 300 {
            let (status, body) = (reply.status, reply.body.clone());
            self.keys.insert(id, Done { request: request.to_vec(), status, body });
        }
        reply
    }

    /// Ends what the slow toy has been doing.
    pub(crate) fn finish(&mut self, tenant: &str, id: &(String, String), now: u64) {
        let Some(running) = self.running.get(id).filter(|running| running.until_ms <= now) else {
            return;
        };
        let request = running.request.clone();
        let Reply { status, body, .. } = self.work(tenant, &request, now);
        self.running.remove(id);
        self.keys.insert(id.clone(), Done { request, status, body });
    }

    fn replay(&self, done: &Done, request: &[u8]) -> Reply {
        if done.request != request && self.flaw != Flaw::IgnoresFingerprint {
            return Reply::refuse(422, "key_reused");
        }
        let mut body = done.body.clone();
        if self.flaw == Flaw::OtherBytes {
            body.push(b' ');
        }
        let is_replay = self.flaw != Flaw::UnmarkedReplay;
        Reply { status: done.status, body, is_replay, location: None }
    }

    fn work(&mut self, tenant: &str, request: &[u8], now: u64) -> Reply {
        let Some(asked) = read(request, self.flaw) else {
            return Reply::refuse(400, "body_invalid");
        };
        let line = (tenant.to_owned(), asked.order_id.clone());
        let rounds = self.orders.entry(line).or_default();
        let newest = rounds.last().and_then(|round| round.payments.last());
        let newest = newest.and_then(|no| self.payments.get(no)).cloned();
        if let (Some(round), Some(newest)) = (rounds.last(), newest)
            && !(asked.is_repurchase && newest.status == "paid")
        {
            let conflicts = conflicts(&round.content, &asked.content);
            if !conflicts.is_empty() && self.flaw != Flaw::IgnoresConflict {
                let mut refusal = json!({"code": "order_conflict", "conflicts": conflicts});
                if self.flaw == Flaw::UnnamedConflict {
                    refusal["conflicts"] = json!([]);
                }
                return Reply::new(409, &refusal);
            }
            if self.flaw == Flaw::RefusesOtherKeys {
                return Reply::refuse(409, "order_exists");
            }
            let is_over = newest.status == "closed";
            if !is_over && self.flaw != Flaw::PaymentPerKey {
                return Reply::new(200, &newest.json(self.channel));
            }
        } else {
            rounds.push(Round { content: asked.content.clone(), payments: Vec::new() });
        }
        self.open(tenant, asked, now)
    }

    /// Makes a new attempt in the newest round.
    fn open(&mut self, tenant: &str, asked: Asked, now: u64) -> Reply {
        let no = self.number("P");
        let line = (tenant.to_owned(), asked.order_id.clone());
        let rounds = self.orders.get_mut(&line).unwrap();
        let round = rounds.len();
        let payments = &mut rounds.last_mut().unwrap().payments;
        payments.push(no.clone());
        let attempt = if self.flaw == Flaw::PaymentPerKey { 1 } else { payments.len() };
        let payment = Payment {
            no: no.clone(),
            tenant: tenant.to_owned(),
            order_id: asked.order_id,
            round,
            attempt,
            amount: asked.amount,
            benefits: asked.benefits,
            way: asked.way,
            status: "paying",
            benefit: "none",
            surplus: false,
            refunds: std::collections::BTreeMap::new(),
            refunded: 0,
            expires_at_ms: now + asked.expires_in_s * 1_000,
            paid_at_ms: 0,
        };
        self.creates += 1;
        let mut json = payment.json(self.channel);
        if self.flaw == Flaw::OtherOrder && self.creates.is_multiple_of(4) {
            json["order_id"] = json!("another");
        }
        if payment.way == "code" {
            self.trades.insert(no.clone(), Trade { total: payment.amount, ..Trade::default() });
        }
        if !(self.flaw == Flaw::ForgetsPayments && self.creates.is_multiple_of(4)) {
            self.payments.insert(no, payment);
        }
        Reply::new(201, &json)
    }
}

fn read(request: &[u8], flaw: Flaw) -> Option<Asked> {
    let body: Value = serde_json::from_slice(request).ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let amount = money::parse(body["amount"].as_str()?);
    let amount = if flaw == Flaw::TakesRubbish { amount.or(Some(1)) } else { amount };
    let benefits = body["benefits"].as_array().cloned().unwrap_or_default();
    let benefits = benefits.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let (subject, granted) = (&body["subject"], &body["benefits"]);
    Some(Asked {
        order_id: text("order_id")?,
        amount: amount?,
        content: json!({"amount": amount, "subject": subject, "benefits": granted}),
        benefits,
        way: text("way").unwrap_or_else(|| "code".to_owned()),
        expires_in_s: body["expires_in"].as_u64().unwrap_or(600),
        is_repurchase: body["repurchase"].as_bool().unwrap_or_default(),
    })
}

fn conflicts(stored: &Value, given: &Value) -> Vec<Value> {
    let fields = ["amount", "subject", "benefits"].into_iter();
    fields
        .filter(|field| stored[field] != given[field])
        .map(|field| json!({"field": field}))
        .collect()
}

fn escaped(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
