//! Receivers that are down: when they may be asked again.
//!
//! Pure: the time comes in as an argument. A receiver that answers anything, also a refusal, is
//! up and costs no memory here.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::backoff::Backoff;

/// Failures in a row after which a receiver counts as down. One alone may be the message's own
/// doing: some make a receiver hang.
const IN_A_ROW_MAX: u32 = 3;
/// Receivers that are remembered as down. Beyond this the one that may be asked next is
/// forgotten, which costs one send.
const DOWN_MAX: usize = 10_000;

/// Who is behind a send: the number of the transport, and the receiver if it has several.
pub(super) type Line = (usize, Option<String>);

/// The lines that have failed of late.
#[derive(Debug)]
pub(super) struct Circuits {
    lines: HashMap<Line, Failing>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Failing {
    in_a_row: u32,
    /// Before this moment nobody asks; the first one after it does, alone.
    ask_at: Instant,
    /// Somebody asks just now.
    is_probed: bool,
}

impl Failing {
    fn is_down(&self) -> bool {
        self.in_a_row >= IN_A_ROW_MAX
    }
}

/// Whether a message may be sent on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Send it; on a line that is down this is the one probe.
    Send,
    /// The line is down for this long at least.
    Wait(Duration),
}

impl Circuits {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { lines: HashMap::new(), backoff }
    }

    /// Asks for the way. `probe`: how long the answer to a probe may take.
    pub(super) fn pass(&mut self, line: &Line, now: Instant, probe: Duration) -> Pass {
        let Some(failing) = self.lines.get_mut(line).filter(|failing| failing.is_down()) else {
            return Pass::Send;
        };
        if failing.ask_at > now {
            return Pass::Wait(failing.ask_at.duration_since(now));
        }
        // Whoever comes before the probe has answered waits for it.
        failing.ask_at = now + probe;
        failing.is_probed = true;
        Pass::Send
    }

    /// The receiver answered. `true`: it had been down.
    pub(super) fn answered(&mut self, line: &Line) -> bool {
        self.lines.remove(line).is_some_and(|failing| failing.is_down())
    }

    /// The receiver did not answer. How long to leave it alone, and whether it has just gone down.
    pub(super) fn failed(&mut self, line: &Line, now: Instant, random: u32) -> (Duration, bool) {
        self.make_room(line);
        let fresh = || Failing { in_a_row: 0, ask_at: now, is_probed: false };
        let failing = self.lines.entry(line.clone()).or_insert_with(fresh);
        let was_down = failing.is_down();
        if was_down && !failing.is_probed {
            // An answer to a send from before it went down says nothing new.
            return (failing.ask_at.saturating_duration_since(now), false);
        }
        failing.in_a_row = failing.in_a_row.saturating_add(1);
        failing.is_probed = false;
        let beyond = failing.in_a_row.saturating_sub(IN_A_ROW_MAX);
        let pause = self.backoff.pause(beyond + 1, random);
        failing.ask_at = now + pause;
        (pause, failing.is_down() && !was_down)
    }

    fn make_room(&mut self, line: &Line) {
        if self.lines.contains_key(line) || self.lines.len() < DOWN_MAX {
            return;
        }
        let next = self.lines.iter().min_by_key(|(_, failing)| failing.ask_at);
        if let Some(next) = next.map(|(line, _)| line.clone()) {
            self.lines.remove(&next);
        }
    }

    /// Whether every one of this many transports is down as a whole.
    pub(super) fn is_all_down(&self, transports: usize) -> bool {
        (0..transports)
            .all(|transport| self.lines.get(&(transport, None)).is_some_and(Failing::is_down))
    }

    /// How long until one of this many transports, all down, may be asked.
    pub(super) fn next_probe(&self, transports: usize, now: Instant) -> Duration {
        let lines = (0..transports).filter_map(|transport| self.lines.get(&(transport, None)));
        let pauses = lines.map(|failing| failing.ask_at.saturating_duration_since(now));
        pauses.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Clock, SystemClock};

    const SECOND: Duration = Duration::from_secs(1);
    const PROBE: Duration = Duration::from_secs(20);

    fn circuits() -> (Circuits, Line, Instant) {
        (Circuits::new(Backoff::new(SECOND, SECOND * 30)), (0, None), SystemClock.now())
    }

    fn down(circuits: &mut Circuits, line: &Line, now: Instant) {
        for nth in 1..=IN_A_ROW_MAX {
            let (_, has_gone_down) = circuits.failed(line, now, 0);
            assert_eq!(has_gone_down, nth == IN_A_ROW_MAX);
        }
    }

    #[test]
    fn one_failure_alone_stops_nobody() {
        let (mut circuits, line, now) = circuits();
        circuits.failed(&line, now, 0);
        circuits.failed(&line, now, 0);
        assert_eq!(circuits.pass(&line, now, PROBE), Pass::Send);
        assert!(!circuits.answered(&line), "it was never down");
        circuits.failed(&line, now, 0);
        assert_eq!(circuits.pass(&line, now, PROBE), Pass::Send, "not three in a row");
    }

    #[test]
    fn a_line_that_is_down_lets_one_probe_through() {
        let (mut circuits, line, now) = circuits();
        down(&mut circuits, &line, now);
        assert_eq!(circuits.pass(&line, now, PROBE), Pass::Wait(SECOND));
        let later = now + SECOND;
        assert_eq!(circuits.pass(&line, later, PROBE), Pass::Send);
        assert_eq!(circuits.pass(&line, later, PROBE), Pass::Wait(PROBE));
        assert!(circuits.answered(&line));
        assert_eq!(circuits.pass(&line, later, PROBE), Pass::Send);
    }

    #[test]
    fn pauses_grow_with_each_probe_that_fails_and_with_nothing_else() {
        let (mut circuits, line, mut now) = circuits();
        down(&mut circuits, &line, now);
        for _ in 0..50 {
            assert_eq!(circuits.failed(&line, now, 0), (SECOND, false), "from before");
        }
        for expected in [2, 4, 8, 16, 30, 30] {
            now += circuits.next_probe(1, now);
            assert_eq!(circuits.pass(&line, now, PROBE), Pass::Send);
            assert_eq!(circuits.failed(&line, now, 0), (SECOND * expected, false));
        }
    }

    #[test]
    fn a_probe_that_never_answers_is_followed_by_another() {
        let (mut circuits, line, now) = circuits();
        down(&mut circuits, &line, now);
        assert_eq!(circuits.pass(&line, now + SECOND, PROBE), Pass::Send);
        assert_eq!(circuits.pass(&line, now + SECOND + PROBE, PROBE), Pass::Send);
    }

    #[test]
    fn one_receiver_that_is_down_leaves_its_transport_up() {
        let (mut circuits, _, now) = circuits();
        let (one, other) = ((0, Some("a".to_owned())), (0, Some("b".to_owned())));
        down(&mut circuits, &one, now);
        assert_eq!(circuits.pass(&other, now, PROBE), Pass::Send);
        assert!(!circuits.is_all_down(1));
        down(&mut circuits, &(0, None), now);
        assert!(circuits.is_all_down(1) && !circuits.is_all_down(2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut circuits, _, now) = circuits();
        for at in 0..DOWN_MAX + 10 {
            circuits.failed(&(0, Some(at.to_string())), now, 0);
        }
        assert_eq!(circuits.lines.len(), DOWN_MAX);
    }
}
