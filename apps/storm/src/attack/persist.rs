//! Sends one request until it is decided: always the same bytes, always the same key.
//!
//! Invariant: nothing but a decision or the end of the attack ends the retries: no broken
//! connection, no 500, no "in progress" (`storm_gets_through_a_killed_service`). A 202 is a promise
//! that is looked at (`a_202_that_leads_nowhere_is_found_out`).

use std::time::Duration;

use super::ground::Ground;
use crate::answer::{Answer, Next};
use crate::book::About;
use crate::client::{Call, Silence};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rule::Rule;
use crate::wire::Stateful;

/// Tries of one request. With the pauses between them, the deadline comes first.
const TRIES_MAX: u32 = 10_000;

/// Questions at one `Location` before the request itself is sent again.
const ASKS_MAX: u32 = 100;

/// First and longest pause between two tries.
const PAUSE_MS: (u64, u64) = (20, 1_000);

/// Doublings of the first pause; more would go beyond the longest one anyway.
const DOUBLINGS_MAX: u32 = 6;

/// What a 202 means for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Accepted<'a> {
    /// Ask at `Location`, then send the request again to get its answer. The place must know of
    /// what was accepted about this order.
    Undecided(About<'a>),
    /// The same for a request that will be refused: a refusal need not be known there.
    RefusedLater,
    /// The service will see to it; what became of it is looked at later.
    Enough,
}

/// What a request came to.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Decided(Answer),
    /// The attack ended first; this is what was seen last.
    Never(String),
    /// The attack was over before the request was sent at all.
    Unsent,
}

impl Outcome {
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Decided(answer) => Some(answer),
            Self::Never(_) | Self::Unsent => None,
        }
    }

    pub(crate) fn quote(&self) -> String {
        match self {
            Self::Decided(answer) => answer.quote(),
            Self::Never(last) => format!("no final answer; the last one was {last}"),
            Self::Unsent => "not sent".to_owned(),
        }
    }
}

impl Ground {
    /// Sends until decided. With `hang_up`, the caller drops the first try after that time.
    pub(crate) async fn persist(
        &self,
        tenant: usize,
        call: &Call,
        accepted: Accepted<'_>,
        hang_up: Option<Duration>,
        dice: &mut Dice,
    ) -> Outcome {
        let (mut last, kills) = (None, self.kills());
        for tries in 0..TRIES_MAX {
            if self.until.is_over() {
                break;
            }
            if tries > 0 {
                self.book.count(|counts| counts.retries += 1);
            }
            let patience = hang_up.filter(|_| tries == 0);
            let rest = match self.once(call, patience).await {
                Err(silence) => {
                    last = Some(silence.describe());
                    Duration::ZERO
                }
                Ok(answer) => {
                    last = Some(answer.quote());
                    match (answer.next(), accepted) {
                        (Next::Decided, _) | (Next::Ask, Accepted::Enough) => {
                            return Outcome::Decided(answer);
                        }
                        (Next::Ask, Accepted::Undecided(about)) => {
                            let lead = self.ask(tenant, &answer, dice).await;
                            self.judge_lead(about, lead, self.kills() > kills);
                            Duration::ZERO
                        }
                        (Next::Ask, Accepted::RefusedLater) => {
                            self.ask(tenant, &answer, dice).await;
                            Duration::ZERO
                        }
                        (Next::Again, _) => answer.rest(),
                    }
                }
            };
            self.until.pause(std::cmp::max(rest, pause(tries, dice))).await;
        }
        last.map_or(Outcome::Unsent, Outcome::Never)
    }

    /// Sends once and books what came back.
    pub(crate) async fn once(
        &self,
        call: &Call,
        hang_up: Option<Duration>,
    ) -> Result<Answer, Silence> {
        let start = Clock.now();
        let sent = self.client.send(call, hang_up).await;
        let took = Clock.now().saturating_duration_since(start);
        match &sent {
            Ok(answer) => {
                self.book.timed(call.kind, took);
                self.book.answered(answer.status, answer.code());
                self.book.count(|counts| counts.replays += u64::from(answer.replayed));
            }
            Err(silence) => self.book.count(|counts| match silence {
                Silence::Unreachable(_) => counts.unreachable += 1,
                Silence::Timeout => counts.timeouts += 1,
                Silence::HungUp => counts.hang_ups += 1,
            }),
        }
        self.book.count(|counts| counts.sent += 1);
        sent
    }

    /// Asks at the `Location` of a 202 until the work is not running any more, or asking fails.
    async fn ask(&self, tenant: usize, accepted: &Answer, dice: &mut Dice) -> Lead {
        self.until.pause(accepted.rest()).await;
        let location = accepted.location.as_deref().and_then(|to| self.service.follow(to));
        let Some(location) = location else {
            return Lead::Nowhere(format!("it names no place here: {}", accepted.quote()));
        };
        let question = self.question(tenant, location);
        for tries in 0..ASKS_MAX {
            if self.until.is_over() {
                return Lead::On;
            }
            let Ok(answer) = self.once(&question, None).await else { return Lead::Unclear };
            match lead(question.url.path(), &answer) {
                Lead::On => {}
                lead => return lead,
            }
            self.until.pause(std::cmp::max(answer.rest(), pause(tries, dice))).await;
        }
        Lead::On
    }

    /// Holds a 202 to where it led. A service that was killed meanwhile may have lost what it had
    /// not begun, and says so: that is no lie.
    fn judge_lead(&self, about: About<'_>, lead: Lead, was_killed: bool) {
        match lead {
            Lead::Back => self.book.held(Rule::StatusByKey),
            Lead::Nowhere(told) if !was_killed => {
                self.broken(Rule::StatusByKey, about, &format!("a 202 led nowhere: {told}"));
            }
            Lead::Nowhere(_) | Lead::On | Lead::Unclear => {}
        }
    }

    /// Rises whenever the service may just have been killed.
    fn kills(&self) -> u64 {
        self.book.unreachable().saturating_add(self.meter.marked())
    }
}

/// Where the place that a 202 names leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lead {
    /// The work goes on: ask again.
    On,
    /// Something came of it: send the request again for its answer.
    Back,
    /// What was accepted is not known there; with what was said instead.
    Nowhere(String),
    /// The place gave no answer that says anything.
    Unclear,
}

fn lead(place: &str, answer: &Answer) -> Lead {
    let nowhere = || Lead::Nowhere(format!("{place} says {}", answer.quote()));
    if answer.status == 404 {
        return nowhere();
    }
    let state: Option<Stateful> = answer.read().filter(|_| answer.status < 400);
    match state.as_ref().map(|stateful| stateful.status.as_str()) {
        None => Lead::Unclear,
        Some("running" | "processing" | "pending" | "in progress" | "in_progress") => Lead::On,
        Some("open") => nowhere(),
        Some(_) => Lead::Back,
    }
}

/// The pause before the next try: doubled up to the longest, then between a half and the whole.
pub(crate) fn pause(tries: u32, dice: &mut Dice) -> Duration {
    let (first, longest) = PAUSE_MS;
    let whole = std::cmp::min(first << std::cmp::min(tries, DOUBLINGS_MAX), longest);
    Duration::from_millis(dice.between(whole / 2, whole))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_place_that_does_not_know_what_was_accepted_leads_nowhere() {
        let lead = |status, state: &str| {
            let body = Bytes::from(format!(r#"{{"status":"{state}"}}"#));
            let (retry_after, location) = (None, None);
            lead("/p", &Answer { status, body, replayed: false, retry_after, location })
        };
        for state in ["running", "processing", "pending", "in progress"] {
            assert_eq!(lead(200, state), Lead::On, "{state}");
        }
        for state in ["completed", "unknown", "expired", "paying", "paid", "closed"] {
            assert_eq!(lead(200, state), Lead::Back, "{state}");
        }
        for (status, state) in [(200, "open"), (404, "completed")] {
            let told = format!("/p says {status} {{\"status\":\"{state}\"}}");
            assert_eq!(lead(status, state), Lead::Nowhere(told));
        }
        for status in [401, 429, 500, 503] {
            assert_eq!(lead(status, "running"), Lead::Unclear, "{status}");
        }
    }

    #[test]
    fn pauses_grow_up_to_their_bound_and_differ() {
        let mut dice = Dice::new(1, 1);
        for tries in 0..200 {
            let pause = pause(tries, &mut dice);
            assert!((Duration::from_millis(10)..=Duration::from_secs(1)).contains(&pause));
            assert!(tries < 6 || pause >= Duration::from_millis(500));
        }
        let of_sixth: std::collections::BTreeSet<Duration> =
            (0..50).map(|_| pause(6, &mut dice)).collect();
        assert!(of_sixth.len() > 30, "jitter");
    }
}
