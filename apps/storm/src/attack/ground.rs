//! What all stories share.

use std::sync::{Mutex, PoisonError};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, Url};

use super::last::Settled;
use super::persist::{Outcome, pause};
use crate::book::{About, Book, News};
use crate::client::{Call, Client};
use crate::clock::{Clock, Until};
use crate::dice::Dice;
use crate::merchant::View;
use crate::plan::Tenant;
use crate::progress::Meter;
use crate::rule::Rule;
use crate::script::Purchase;
use crate::simulator::Simulator;
use crate::target::Target;
use crate::wire::Payment;

/// What all stories share.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) seed: u64,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) service: Target,
    pub(crate) client: Client,
    pub(crate) simulator: Simulator,
    pub(crate) merchant: View,
    pub(crate) book: Book,
    /// Payments at rest, for the last look.
    pub(crate) settled: Mutex<Vec<Settled>>,
    pub(crate) meter: Meter,
    pub(crate) until: Until,
}

impl Ground {
    /// A call that no tenant makes.
    pub(crate) fn call(&self, kind: &'static str, method: Method, path: &[&str]) -> Call {
        let url = self.service.at(path);
        Call { kind, method, url, headers: HeaderMap::new(), body: None }
    }

    /// A call of a tenant, given by its place in the plan.
    pub(crate) fn call_of(
        &self,
        tenant: usize,
        kind: &'static str,
        method: Method,
        path: &[&str],
    ) -> Call {
        let mut call = self.call(kind, method, path);
        call.headers = self.credentials(tenant);
        call
    }

    /// A question of a tenant at an address that the service named.
    pub(crate) fn question(&self, tenant: usize, url: Url) -> Call {
        let headers = self.credentials(tenant);
        Call { kind: "ask", method: Method::GET, url, headers, body: None }
    }

    pub(crate) fn tenant(&self, tenant: usize) -> &str {
        self.tenants.get(tenant).map_or("", |tenant| tenant.name.as_str())
    }

    pub(crate) fn about<'a>(&'a self, purchase: &'a Purchase) -> About<'a> {
        About { tenant: self.tenant(purchase.tenant), order_id: &purchase.order_id }
    }

    /// Books that a rule was looked at; if it did not hold, with the evidence. Tells whether it
    /// held.
    pub(crate) fn judge(
        &self,
        rule: Rule,
        about: About<'_>,
        held: bool,
        evidence: impl FnOnce() -> String,
    ) -> bool {
        if held {
            self.book.held(rule);
        } else {
            self.broken(rule, about, &evidence());
        }
        held
    }

    pub(crate) fn broken(&self, rule: Rule, about: About<'_>, evidence: &str) {
        if self.book.broken(rule, about, evidence) == News::First {
            self.meter.broken(rule);
        }
    }

    /// Books that something did not happen before the deadline; nothing if the attack was stopped
    /// before it.
    pub(crate) fn overdue(&self, rule: Rule, about: About<'_>, evidence: &str) {
        if !self.until.is_stopped() {
            self.broken(rule, about, evidence);
        }
    }

    /// Books that a request was not decided before the deadline, if it was sent at all.
    pub(crate) fn unanswered(&self, about: About<'_>, what: &str, outcome: &Outcome) {
        if let Outcome::Never(_) = outcome {
            self.overdue(Rule::AnswersInTheEnd, about, &format!("{what}: {}", outcome.quote()));
        }
    }

    /// Keeps a payment at rest for the last look.
    pub(crate) fn keep(&self, tenant: usize, payment: Payment) {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.push(Settled { tenant, payment });
    }

    pub(crate) fn take_settled(&self) -> Vec<Settled> {
        std::mem::take(&mut self.settled.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rests between two looks, also when the time of the attack is over.
    pub(crate) async fn rest(&self, tries: u32) {
        Clock.sleep(pause(tries, &mut Dice::new(self.seed, u64::from(tries)))).await;
    }

    fn credentials(&self, tenant: usize) -> HeaderMap {
        let key = self.tenants.get(tenant).map_or("", |tenant| tenant.api_key.as_str());
        let mut headers = HeaderMap::new();
        // The plan was checked: an API key is visible ASCII, which a header takes.
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}")) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }
}
