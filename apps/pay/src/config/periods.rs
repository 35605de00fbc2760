//! Every period of the service, with its default and its reason.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Unusable;
use hapax::message::{Backoff, Horizon, TRIES_MAX, Window};

/// A span of time, written like `15s`, `1m 30s` or `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    const fn ms(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    const fn s(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let span = jiff::SignedDuration::deserialize(source)?;
        let span = Duration::try_from(span);
        span.map(Self).map_err(|_| serde::de::Error::custom("a period must not be negative"))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        let span = jiff::SignedDuration::try_from(self.0).map_err(serde::ser::Error::custom)?;
        format!("{span:#}").serialize(target)
    }
}

/// Every period of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Periods {
    /// How long an attempt at a request lives without a renewal.
    pub lease: Span,
    /// How long a repeat waits for the first one before it is told "processing".
    pub wait: Span,
    /// How long answers are replayed under the caller's key. At least `redelivery`.
    pub keep: Span,
    /// The longest time over which a caller may send the same key again.
    pub redelivery: Span,
    /// How long after that the key is refused before it may run again.
    pub grace: Span,
    /// How long a payment can be paid unless the request says otherwise.
    pub expiry: Span,
    /// The shortest and the longest expiry that a request may ask for.
    pub expiry_min: Span,
    /// See `expiry_min`.
    pub expiry_max: Span,
    /// How long after its expiry a trade that nobody has seen counts as never paid: longer than
    /// the channel's clock and ours can differ.
    pub expiry_grace: Span,
    /// How long a closed payment is asked about, in case money came all the same.
    pub watch: Span,
    /// Pauses between the questions about one payment or refund; the last one repeats.
    pub checks: Vec<Span>,
    /// How long after a refund call the channel is asked for it; Alipay wants 10 s.
    pub refund_ask_after: Span,
    /// How often the service looks for something to do.
    pub sweep: Span,
    /// How often abandoned requests are looked for.
    pub complete: Span,
    /// How often expired records are removed.
    pub purge: Span,
    /// First pause before a notice that was refused is sent again; it doubles up to the last one.
    pub resend: Span,
    /// Longest pause before a notice that was refused is sent again.
    pub resend_max: Span,
    /// First pause before a merchant that does not answer is tried again; it doubles up to the
    /// last one.
    pub probe: Span,
    /// Longest pause before a merchant that does not answer is tried again: his notices wait as
    /// long once he is back.
    pub probe_max: Span,
    /// The longest that the service may be away as a whole: messages that wait for it meanwhile
    /// may be copies.
    pub outage: Span,
    /// How long notices that the channel sent are kept, and the journal of requests.
    pub keep_notices: Span,
    /// How long it is kept what happened to each key.
    pub keep_journal: Span,
    /// How long the consumer of benefits remembers a message: longer than any copy is on its way.
    pub keep_inbox: Span,
    /// How long messages that were given up can be sent again.
    pub keep_letters: Span,
    /// The head of a request must have come within this time; an idle connection is closed then.
    pub head_timeout: Span,
    /// The body of a request must have come within this time.
    pub body_timeout: Span,
    /// The channel must answer within this time.
    pub channel_timeout: Span,
    /// A merchant must acknowledge a notice within this time.
    pub notice_timeout: Span,
    /// How long a token may be used.
    pub token_life: Span,
    /// How long after that a used token still finds its first answer.
    pub token_buffer: Span,
    /// How long a shutdown waits for work in flight.
    pub drain: Span,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            lease: Span::s(15),
            wait: Span::s(1),
            keep: Span::s(7 * 86_400),
            // Clients that we know give up within a day.
            redelivery: Span::s(86_400),
            grace: Span::s(86_400),
            expiry: Span::s(15 * 60),
            expiry_min: Span::s(60),
            expiry_max: Span::s(15 * 86_400),
            expiry_grace: Span::s(60),
            watch: Span::s(86_400),
            checks: vec![
                Span::s(5),
                Span::s(15),
                Span::s(60),
                Span::s(300),
                Span::s(900),
                Span::s(3600),
            ],
            refund_ask_after: Span::s(10),
            sweep: Span::s(1),
            complete: Span::s(5),
            purge: Span::s(60),
            resend: Span::s(2),
            resend_max: Span::s(3600),
            // A host that is down costs little at this pace, and one that is back waits little.
            probe: Span::s(1),
            probe_max: Span::s(15),
            // A week of holidays in which nobody starts it again.
            outage: Span::s(7 * 86_400),
            keep_notices: Span::s(30 * 86_400),
            // Longer than keys live, and until the month's accounts are closed.
            keep_journal: Span::s(30 * 86_400),
            // The outage, the letters and the resends together, and a week to spare.
            keep_inbox: Span::s(45 * 86_400),
            // A month for somebody to look why they were given up.
            keep_letters: Span::s(30 * 86_400),
            // One packet, or the next request of a client that keeps its connection.
            head_timeout: Span::s(30),
            // A megabyte over a bad mobile line.
            body_timeout: Span::s(30),
            channel_timeout: Span::s(10),
            notice_timeout: Span::s(10),
            token_life: Span::s(30 * 60),
            token_buffer: Span::s(10 * 60),
            drain: Span::s(25),
        }
    }
}

impl Periods {
    /// The pause before question number `checks` about one payment or refund.
    pub fn check_after(&self, checks: u32) -> Duration {
        let step = usize::try_from(checks).unwrap_or(usize::MAX);
        let pause = self.checks.get(step).or_else(|| self.checks.last());
        pause.map_or(Duration::from_secs(3600), |span| span.0)
    }

    /// Pauses before a message that was refused is sent again.
    pub(crate) fn resends(&self) -> Backoff {
        Backoff::new(self.resend.0, self.resend_max.0)
    }

    /// How long the consumer of benefits remembers a message.
    ///
    /// # Errors
    /// [`Unusable`] if a copy could come after it was forgotten.
    pub(crate) fn inbox(&self) -> Result<Window, Unusable> {
        let (outage, replay) = (self.outage.0, self.keep_letters.0);
        let horizon = Horizon::of(self.resends(), TRIES_MAX, outage, replay);
        Window::new(self.keep_inbox.0, horizon).map_err(|_| {
            Unusable::new(
                "`periods.keep_inbox` is shorter than `periods.outage`, `periods.keep_letters` and \
                 all resends together, so that a late copy would run again; raise it",
            )
        })
    }

    pub(super) fn check(&self) -> Result<(), Unusable> {
        let rules = [
            (self.checks.is_empty(), "`periods.checks` is empty; give at least one pause"),
            (
                self.checks.iter().any(|pause| *pause < Span::ms(1)),
                "`periods.checks` has a pause below 1 ms",
            ),
            (
                self.expiry < self.expiry_min || self.expiry > self.expiry_max,
                "`periods.expiry` is not between `periods.expiry_min` and `periods.expiry_max`",
            ),
            (self.sweep < Span::ms(5), "`periods.sweep` is below 5 ms"),
            (
                self.keep.0 < self.token_life.0 + self.token_buffer.0,
                "`periods.keep` is shorter than `periods.token_life` and `periods.token_buffer`",
            ),
            (
                self.keep < self.redelivery,
                "`periods.keep` is shorter than `periods.redelivery`, so that a late repeat would \
                 run again; raise `keep`",
            ),
            (
                self.probe < Span::ms(1) || self.resend < Span::ms(1),
                "`periods.probe` or `periods.resend` is below 1 ms",
            ),
            (
                self.head_timeout < Span::ms(1) || self.body_timeout < Span::ms(1),
                "`periods.head_timeout` or `periods.body_timeout` is below 1 ms",
            ),
        ];
        match rules.iter().find(|(broken, _)| *broken) {
            Some((_, sentence)) => Err(Unusable::new(*sentence)),
            None => self.inbox().map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_their_own_rules() {
        Periods::default().check().unwrap();
    }

    #[test]
    fn what_would_let_a_repeat_run_again_is_refused() {
        let day = 86_400;
        let refused = |periods: Periods| periods.check().unwrap_err().to_string();
        let brief = Periods { keep: Span::s(day - 1), ..Periods::default() };
        let sentence = refused(brief.clone());
        assert!(sentence.contains("`periods.keep` is shorter than `periods.redelivery`"));
        Periods { redelivery: Span::s(day - 1), ..brief }.check().unwrap();
        let forgetful = Periods { keep_inbox: Span::s(37 * day), ..Periods::default() };
        assert!(refused(forgetful.clone()).contains("`periods.keep_inbox` is shorter"));
        Periods { outage: Span::s(6 * day), ..forgetful }.check().unwrap();
    }

    #[test]
    fn periods_are_written_as_people_write_them() {
        let periods: Periods = toml::from_str("wait = \"250ms\"\nlease = \"1m 30s\"").unwrap();
        assert_eq!(periods.wait, Span::ms(250));
        assert_eq!(periods.lease, Span::s(90));
        let written = toml::to_string(&periods).unwrap();
        assert_eq!(toml::from_str::<Periods>(&written).unwrap().lease, Span::s(90), "{written}");
        assert!(toml::from_str::<Periods>("wait = \"-1s\"").is_err());
    }

    #[test]
    fn the_last_pause_repeats() {
        let periods = Periods::default();
        assert_eq!(periods.check_after(0), Duration::from_secs(5));
        assert_eq!(periods.check_after(5), Duration::from_secs(3600));
        assert_eq!(periods.check_after(u32::MAX), Duration::from_secs(3600));
    }
}
