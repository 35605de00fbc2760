//! Judges each delivery: genuine or not, new or known, to be taken or to be failed on purpose.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderMap, StatusCode};

use super::journal::{Arrival, Delivered, Journal, Notice};
use super::signature::{Flaw, verify};
use super::{Manner, Reception};
use crate::dice::Dice;
use crate::plan::Tenant;
use crate::report::NoticeCounts;
use crate::rule::Rule;

/// Complaints that wait to be taken.
const COMPLAINTS_MAX: usize = 1_000;

/// A rule that a notice broke.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    pub(crate) rule: Rule,
    pub(crate) tenant: String,
    pub(crate) order_id: String,
    pub(crate) evidence: String,
}

/// Where notices are taken in.
pub(super) struct Desk {
    seed: u64,
    manner: Manner,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    secrets: HashMap<String, String>,
    journal: Journal,
    complaints: Vec<Complaint>,
}

impl Desk {
    pub(super) fn new(seed: u64, manner: Manner) -> Self {
        Self { seed, manner, state: Mutex::default() }
    }

    pub(super) fn expect(&self, tenants: &[Tenant]) {
        let secrets = tenants.iter().filter_map(|tenant| {
            let secret = tenant.notice_secret.clone()?;
            Some((tenant.name.clone(), secret))
        });
        self.state().secrets.extend(secrets);
    }

    pub(super) fn serves(&self, tenant: &str) -> bool {
        self.state().secrets.contains_key(tenant)
    }

    pub(super) fn knows(&self, tenant: &str, payment_no: &str, kinds: &[&str]) -> bool {
        self.state().journal.knows(tenant, payment_no, kinds)
    }

    pub(super) fn counts(&self) -> NoticeCounts {
        self.state().journal.counts.clone()
    }

    pub(super) fn take_complaints(&self) -> Vec<Complaint> {
        std::mem::take(&mut self.state().complaints)
    }

    /// Takes one delivery in.
    pub(super) fn receive(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        body: &[u8],
        now_s: u64,
    ) -> Reception {
        let mut state = self.state();
        let Some(secret) = state.secrets.get(tenant) else {
            return Reception::Refused(StatusCode::SERVICE_UNAVAILABLE);
        };
        let delivered = match read(tenant, secret, headers, body, now_s) {
            Ok(delivered) => delivered,
            Err(flaw) => {
                state.journal.counts.deliveries += 1;
                state.journal.counts.forged += 1;
                state.complain(Rule::NoticeGenuine, tenant, "", flaw);
                return Reception::Refused(StatusCode::UNAUTHORIZED);
            }
        };
        let (arrival, broken) = state.journal.arrive(&delivered);
        for (rule, evidence) in broken {
            state.complain(rule, tenant, &delivered.notice.order_id, evidence);
        }
        let reception = match arrival {
            Arrival::First => self.manner_of(&delivered),
            Arrival::Again => Reception::Taken,
            Arrival::Full => Reception::Refused(StatusCode::INSUFFICIENT_STORAGE),
        };
        match reception {
            Reception::Taken => state.journal.acknowledge(&delivered),
            Reception::Held(_) => state.journal.counts.held += 1,
            Reception::Refused(_) => state.journal.counts.refused += 1,
        }
        reception
    }

    /// What the seed has in store for the first delivery of an event.
    fn manner_of(&self, delivered: &Delivered<'_>) -> Reception {
        let Notice { kind, order_id, round, .. } = &delivered.notice;
        let name = format!("{}|{order_id}|{round}|{kind}", delivered.tenant);
        let mut dice = Dice::new(self.seed, Dice::lane(&name));
        if !dice.chance(self.manner.failures) {
            Reception::Taken
        } else if dice.chance(0.5) {
            Reception::Refused(StatusCode::INTERNAL_SERVER_ERROR)
        } else {
            Reception::Held(self.manner.hold)
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A delivery that panicked left at most its own entry half made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn complain(&mut self, rule: Rule, tenant: &str, order_id: &str, evidence: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            let (tenant, order_id) = (tenant.to_owned(), order_id.to_owned());
            self.complaints.push(Complaint { rule, tenant, order_id, evidence });
        }
    }
}

/// Reads a delivery, or says why it is not genuine.
fn read<'a>(
    tenant: &'a str,
    secret: &str,
    headers: &'a HeaderMap,
    body: &'a [u8],
    now_s: u64,
) -> Result<Delivered<'a>, String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signature = text("hapax-signature").ok_or(Flaw::Missing);
    signature
        .and_then(|signature| verify(signature, body, secret.as_bytes(), now_s))
        .map_err(|flaw| flaw.sentence().to_owned())?;
    let event_id = text("hapax-event-id").unwrap_or_default();
    if event_id.len() != 32 || !event_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("Hapax-Event-Id is {event_id:?}, not 32 hex digits"));
    }
    let sequence = text("hapax-sequence").unwrap_or_default();
    let sequence =
        sequence.parse().map_err(|_| format!("Hapax-Sequence is {sequence:?}, not a number"))?;
    let notice: Notice =
        serde_json::from_slice(body).map_err(|error| format!("the body does not fit: {error}"))?;
    if notice.event_id != event_id {
        return Err(format!("the body tells of event {:?}, not {event_id}", notice.event_id));
    }
    if notice.tenant != tenant {
        return Err(format!("the notice tells of tenant {:?}, not {tenant}", notice.tenant));
    }
    Ok(Delivered { tenant, event_id, sequence, body, notice })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::merchant::sign;

    const NOW: u64 = 1_800_000_000;

    fn desk(failures: f64) -> Desk {
        let desk = Desk::new(1, Manner { failures, hold: Duration::from_millis(1) });
        let (name, api_key) = ("shop".to_owned(), "k".to_owned());
        desk.expect(&[Tenant { name, api_key, notice_secret: Some("secret".to_owned()) }]);
        desk
    }

    fn deliver(
        desk: &Desk,
        nth: u32,
        change: impl FnOnce(&mut String, &mut HeaderMap),
    ) -> Reception {
        let event_id = format!("{nth:032x}");
        let mut body = format!(
            r#"{{"event_id":"{event_id}","type":"payment.paid","tenant":"shop",
            "order_id":"{nth}","round":1,"payment_no":"P{nth}"}}"#
        );
        let mut headers = HeaderMap::new();
        headers.insert("hapax-event-id", event_id.parse().unwrap());
        headers.insert("hapax-sequence", (nth + 1).into());
        headers.insert("hapax-signature", sign(body.as_bytes(), b"secret", NOW).parse().unwrap());
        change(&mut body, &mut headers);
        desk.receive("shop", &headers, body.as_bytes(), NOW)
    }

    #[test]
    fn a_notice_without_a_good_signature_is_not_acknowledged() {
        let desk = desk(0.0);
        let refused = Reception::Refused(StatusCode::UNAUTHORIZED);
        assert_eq!(deliver(&desk, 1, |body, _| body.push(' ')), refused);
        let unsigned = deliver(&desk, 1, |_, headers| {
            headers.remove("hapax-signature");
        });
        assert_eq!(unsigned, refused);
        let other_event = deliver(&desk, 1, |_, headers| {
            headers.insert("hapax-event-id", "0".repeat(32).parse().unwrap());
        });
        assert_eq!(other_event, refused);
        assert!(!desk.knows("shop", "P1", &["payment.paid"]));
        let complaints = desk.take_complaints();
        assert_eq!(complaints.len(), 3);
        assert!(complaints.iter().all(|complaint| complaint.rule == Rule::NoticeGenuine));
        assert_eq!(deliver(&desk, 1, |_, _| ()), Reception::Taken);
        assert!(desk.knows("shop", "P1", &["payment.paid"]));
        assert_eq!(desk.counts().forged, 3);
    }

    #[test]
    fn what_fails_the_first_time_is_taken_the_second_time() {
        let desk = desk(0.5);
        let first: Vec<Reception> = (0..100).map(|nth| deliver(&desk, nth, |_, _| ())).collect();
        let failed = first.iter().filter(|reception| **reception != Reception::Taken).count();
        assert!((30..70).contains(&failed), "about a half: {failed}");
        assert!(first.iter().any(|reception| matches!(reception, Reception::Held(_))));
        for nth in 0..100 {
            assert_eq!(deliver(&desk, nth, |_, _| ()), Reception::Taken);
        }
        let counts = desk.counts();
        assert_eq!((counts.first, counts.repeats, counts.forged), (100, 100, 0));
        assert_eq!(usize::try_from(counts.refused + counts.held).unwrap(), failed);
        assert!(desk.take_complaints().is_empty());
    }

    #[test]
    fn a_tenant_without_a_secret_is_not_served() {
        let desk = Desk::new(1, Manner::default());
        let refused = Reception::Refused(StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(deliver(&desk, 1, |_, _| ()), refused);
    }
}
