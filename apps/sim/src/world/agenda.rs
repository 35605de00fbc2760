use std::collections::BTreeMap;

use jiff::Timestamp;

use super::TradeIx;
use crate::faults::RaceRule;

/// Things that wait for their time; beyond it a race does not happen (and is not counted).
const AGENDA_MAX: usize = 400_000;

/// What is to be done at a certain time, earliest first.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: BTreeMap<(Timestamp, u64), Due>,
    next: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Due {
    /// The trade may be past its time.
    Lapse(TradeIx),
    /// A refund that was accepted is to be done.
    Settle(TradeIx, String),
    /// A buyer acts.
    Race(TradeIx, RaceRule),
}

impl Agenda {
    pub(super) fn add(&mut self, at: Timestamp, due: Due) {
        if self.entries.len() >= AGENDA_MAX {
            return;
        }
        self.entries.insert((at, self.next), due);
        self.next += 1;
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the earliest entry that is due.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Due> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_their_time_and_then_of_their_making() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut agenda = Agenda::default();
        for (second, ix) in [(20, 0), (10, 1), (20, 2), (30, 3)] {
            agenda.add(at(second), Due::Lapse(TradeIx(ix)));
        }
        assert_eq!(agenda.next_at(), Some(at(10)));
        let mut taken = Vec::new();
        while let Some(Due::Lapse(ix)) = agenda.take(at(20)) {
            taken.push(ix.0);
        }
        assert_eq!(taken, [1, 0, 2]);
        assert_eq!(agenda.next_at(), Some(at(30)));
    }
}
