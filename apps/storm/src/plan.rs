//! What an attack is asked to do.
//!
//! Invariant: a plan with one seed is one workload: orders, stories, keys, amounts
//! (`the_same_seed_gives_the_same_workload`). Only the timing is not in it.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::script::Script;
use crate::target::Target;

/// Orders of one attack. A story takes some kilobytes while it runs.
pub const ORDERS_MAX: u32 = 20_000;

/// Submits of one order: below, the mix does not fit; above, it is another kind of test.
pub const SUBMITS: std::ops::RangeInclusive<u32> = 5..=64;

/// Tenants of one attack.
const TENANTS_MAX: usize = 64;

/// Bytes of a tenant's name: it is part of the address for its notices.
const NAME_MAX: usize = 64;

/// Marks on the way; each one is a kill.
const MARKS_MAX: usize = 64;

/// The longest attack of this version.
const DEADLINE_MAX: Duration = Duration::from_secs(4 * 60 * 60);

/// What an attack is asked to do. Made by [`Plan::new`]; every field may be changed afterwards.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides the whole workload.
    pub seed: u64,
    /// How many orders, from 1 to [`ORDERS_MAX`].
    pub orders: u32,
    /// How many requests to pay one order fly at once, within [`SUBMITS`].
    pub submits_per_order: u32,
    /// The merchants; with two or more, they also try each other's keys.
    pub tenants: Vec<Tenant>,
    /// Base address of the service, on this machine.
    pub service: String,
    /// Base address of the channel simulator, on this machine.
    pub simulator: String,
    /// What happens to how many orders.
    pub shares: Shares,
    /// What goes wrong at the channel.
    pub mischief: Mischief,
    /// How fast and how long.
    pub pace: Pace,
    /// Shares of the submitted orders at which `Progress::Mark` is sent, between 0 and 1.
    pub marks: Vec<f64>,
}

/// A merchant of the service.
#[derive(Clone)]
pub struct Tenant {
    /// The name under which the service knows it: 1–64 letters, digits, `_` and `-`.
    pub name: String,
    /// Its API key.
    pub api_key: String,
    /// The secret that signs its notices; without one, no notices are expected.
    pub notice_secret: Option<String>,
}

/// What happens to how many of the orders, each from 0 to 1.
///
/// The first group are stories: an order has one, so together they are at most 1; the orders that
/// are left are paid at once. The second group can happen to any order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The buyer pays at the moment in which the merchant's close arrives at the channel.
    pub close_races: f64,
    /// The buyer pays late: one half while the close is under way, the other after the expiry.
    pub late_payments: f64,
    /// Nobody ever pays; the order expires.
    pub abandoned: f64,
    /// The merchant closes before anybody paid.
    pub closed: f64,
    /// Paid and refunded as a whole, the request repeated at once.
    pub full_refunds: f64,
    /// Paid and refunded in parts, one after another, each one repeated.
    pub partial_refunds: f64,
    /// Paid, then five refunds at once of which only three fit.
    pub concurrent_refunds: f64,
    /// Paid, then bought once more.
    pub repurchases: f64,

    /// Some of the submits redeem a one-time token, twice.
    pub tokens: f64,
    /// The buyer is sent to a page instead of being shown a code.
    pub pages: f64,
    /// Another tenant uses the same order number and the same key text.
    pub shadows: f64,
    /// The same key comes with another amount, and another key too.
    pub conflicts: f64,
    /// The channel's callbacks arrive eight times, first one after another, then at once.
    pub echoes: f64,
    /// The caller hangs up on the first try of some of the submits.
    pub hang_ups: f64,
}

/// What goes wrong at the channel, each the chance of one notice or one call, from 0 to 1.
///
/// Set at the start of the attack by `POST /_sim/faults`, which replaces what was set before, and
/// taken away at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mischief {
    /// A callback never comes.
    pub lost_callbacks: f64,
    /// A delivery is lost; the channel sends again.
    pub dropped_deliveries: f64,
    /// A delivery comes as eight copies at once.
    pub parallel_callbacks: f64,
    /// A delivery follows a forged one.
    pub forged_callbacks: f64,
    /// A buyer pays and the callback comes before the service has its answer to the request for a
    /// code.
    pub early_payments: f64,
    /// A call fails: refused or answered, the answer lost, late, cut, unsigned, `20000`,
    /// `ACQ.SYSTEM_ERROR`, done or not.
    pub failing_calls: f64,
}

/// How fast and how long an attack goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Orders whose submits are in flight at once.
    pub waves: u32,
    /// Requests in flight at once.
    pub requests: u32,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long the attack may take; what is open then is a finding.
    pub deadline: Duration,
    /// Expiry of orders that are to expire, whole seconds.
    pub expiry_short: Duration,
    /// Expiry of the others, whole seconds.
    pub expiry_long: Duration,
}

impl Plan {
    /// A plan of 200 orders of five submits each, with the default mix.
    #[must_use]
    pub fn new(
        service: impl Into<String>,
        simulator: impl Into<String>,
        tenants: Vec<Tenant>,
    ) -> Self {
        Self {
            seed: 0,
            orders: 200,
            submits_per_order: *SUBMITS.start(),
            tenants,
            service: service.into(),
            simulator: simulator.into(),
            shares: Shares::default(),
            mischief: Mischief::default(),
            pace: Pace::default(),
            marks: vec![0.5],
        }
    }

    /// The workload that this plan is.
    ///
    /// # Errors
    /// `Kind::Plan` with a sentence that says which member is wrong, `Kind::Target` if a server is
    /// not on this machine.
    pub fn script(&self) -> Result<Script, Error> {
        self.targets()?;
        self.check()?;
        Ok(Script::new(self))
    }

    pub(crate) fn targets(&self) -> Result<(Target, Target), Error> {
        let service = Target::parse(&self.service, "service")?;
        let simulator = Target::parse(&self.simulator, "simulator")?;
        Ok((service, simulator))
    }

    fn check(&self) -> Result<(), Error> {
        let Pace { waves, requests, request_timeout, deadline, expiry_short, expiry_long } =
            self.pace;
        let whole = |span: Duration| span.subsec_nanos() == 0 && !span.is_zero();
        let rules = [
            ((1..=ORDERS_MAX).contains(&self.orders), "orders must be from 1 to 20000"),
            (SUBMITS.contains(&self.submits_per_order), "submits_per_order must be from 5 to 64"),
            (
                (1..=TENANTS_MAX).contains(&self.tenants.len()),
                "tenants needs 1 to 64 entries, each with a name and an API key",
            ),
            (
                self.tenants.iter().all(Tenant::is_named_well),
                "a tenant's name must be 1 to 64 letters, digits, _ and -",
            ),
            (self.names_differ(), "two tenants have the same name"),
            (
                self.tenants.iter().all(Tenant::has_a_key),
                "a tenant's API key must be visible ASCII",
            ),
            (self.shares.are_shares(), "each share must be from 0 to 1"),
            (self.shares.stories() <= 1.0, "the shares of the stories are more than 1 together"),
            (self.mischief.is_chances(), "each chance in mischief must be from 0 to 1"),
            ((1..=1_024).contains(&waves), "pace.waves must be from 1 to 1024"),
            ((1..=1_024).contains(&requests), "pace.requests must be from 1 to 1024"),
            (!request_timeout.is_zero(), "pace.request_timeout must not be zero"),
            (
                !deadline.is_zero() && deadline <= DEADLINE_MAX,
                "pace.deadline must be above zero and at most four hours",
            ),
            (
                whole(expiry_short) && whole(expiry_long),
                "pace.expiry_short and pace.expiry_long must be whole seconds",
            ),
            (
                self.marks.len() <= MARKS_MAX
                    && self.marks.iter().all(|mark| *mark > 0.0 && *mark < 1.0),
                "marks needs at most 64 numbers between 0 and 1",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, sentence)) => Err(Error::new(Kind::Plan, format!("use the plan: {sentence}"))),
            None => Ok(()),
        }
    }

    fn names_differ(&self) -> bool {
        let mut names: Vec<&str> = self.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        names.sort_unstable();
        !names.array_windows().any(|[left, right]| left == right)
    }
}

impl Tenant {
    fn is_named_well(&self) -> bool {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=NAME_MAX).contains(&self.name.len()) && self.name.bytes().all(legal)
    }

    fn has_a_key(&self) -> bool {
        !self.api_key.is_empty() && self.api_key.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            close_races: 0.10,
            late_payments: 0.10,
            abandoned: 0.05,
            closed: 0.05,
            full_refunds: 0.06,
            partial_refunds: 0.06,
            concurrent_refunds: 0.06,
            repurchases: 0.06,
            tokens: 0.25,
            pages: 0.20,
            shadows: 0.40,
            conflicts: 0.30,
            echoes: 0.20,
            hang_ups: 0.20,
        }
    }
}

impl Shares {
    /// Every order is paid at once and nothing else happens.
    #[must_use]
    pub fn none() -> Self {
        Self {
            close_races: 0.0,
            late_payments: 0.0,
            abandoned: 0.0,
            closed: 0.0,
            full_refunds: 0.0,
            partial_refunds: 0.0,
            concurrent_refunds: 0.0,
            repurchases: 0.0,
            tokens: 0.0,
            pages: 0.0,
            shadows: 0.0,
            conflicts: 0.0,
            echoes: 0.0,
            hang_ups: 0.0,
        }
    }

    fn story_shares(&self) -> [f64; 8] {
        [
            self.close_races,
            self.late_payments,
            self.abandoned,
            self.closed,
            self.full_refunds,
            self.partial_refunds,
            self.concurrent_refunds,
            self.repurchases,
        ]
    }

    fn stories(&self) -> f64 {
        self.story_shares().into_iter().sum()
    }

    fn are_shares(&self) -> bool {
        let extras =
            [self.tokens, self.pages, self.shadows, self.conflicts, self.echoes, self.hang_ups];
        self.story_shares().into_iter().chain(extras).all(is_share)
    }
}

impl Default for Mischief {
    fn default() -> Self {
        Self {
            lost_callbacks: 0.20,
            dropped_deliveries: 0.05,
            parallel_callbacks: 0.20,
            forged_callbacks: 0.05,
            early_payments: 0.03,
            failing_calls: 0.10,
        }
    }
}

impl Mischief {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self {
            lost_callbacks: 0.0,
            dropped_deliveries: 0.0,
            parallel_callbacks: 0.0,
            forged_callbacks: 0.0,
            early_payments: 0.0,
            failing_calls: 0.0,
        }
    }

    fn is_chances(&self) -> bool {
        let Self {
            lost_callbacks,
            dropped_deliveries,
            parallel_callbacks,
            forged_callbacks,
            early_payments,
            failing_calls,
        } = *self;
        let of_callbacks =
            [lost_callbacks, dropped_deliveries, parallel_callbacks, forged_callbacks];
        of_callbacks.into_iter().chain([early_payments, failing_calls]).all(is_share)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            waves: 16,
            requests: 256,
            request_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(120),
            expiry_short: Duration::from_secs(4),
            expiry_long: Duration::from_secs(600),
        }
    }
}

/// False for NaN too.
fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant { name: name.to_owned(), api_key: "key-of-shop".to_owned(), notice_secret: None }
    }

    fn plan() -> Plan {
        let tenants = vec![tenant("shop"), tenant("other")];
        Plan::new("http://127.0.0.1:1", "http://127.0.0.1:2", tenants)
    }

    fn refusal(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = plan();
        change(&mut plan);
        plan.script().unwrap_err().to_string()
    }

    #[test]
    fn the_default_plan_can_be_used() {
        plan().script().unwrap();
    }

    #[test]
    fn senseless_plans_are_refused_with_a_sentence() {
        assert!(refusal(|p| p.orders = 0).contains("orders must be"));
        assert!(refusal(|p| p.orders = ORDERS_MAX + 1).contains("orders must be"));
        assert!(refusal(|p| p.submits_per_order = 4).contains("submits_per_order"));
        assert!(refusal(|p| p.tenants.clear()).contains("tenants needs"));
        assert!(refusal(|p| p.tenants.push(tenant("shop"))).contains("same name"));
        assert!(refusal(|p| p.tenants.push(tenant("a/b"))).contains("tenant's name"));
        assert!(refusal(|p| p.shares.pages = 1.5).contains("each share"));
        assert!(refusal(|p| p.shares.pages = f64::NAN).contains("each share"));
        assert!(refusal(|p| p.shares.abandoned = 0.9).contains("more than 1 together"));
        assert!(refusal(|p| p.mischief.lost_callbacks = -0.1).contains("each chance"));
        assert!(refusal(|p| p.pace.waves = 0).contains("pace.waves"));
        assert!(refusal(|p| p.pace.deadline = Duration::ZERO).contains("pace.deadline"));
        assert!(refusal(|p| p.pace.expiry_short = Duration::from_millis(1)).contains("whole"));
        assert!(refusal(|p| p.marks = vec![1.0]).contains("marks"));
        assert!(refusal(|p| p.service = "http://10.0.0.1".to_owned()).contains("this machine"));
        assert!(refusal(|p| p.simulator = "x".to_owned()).contains("simulator"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut plan = plan();
        plan.tenants[0].notice_secret = Some("hush-hush".to_owned());
        let printed = format!("{plan:?}");
        assert!(!printed.contains("key-of-shop") && !printed.contains("hush"), "{printed}");
    }
}
