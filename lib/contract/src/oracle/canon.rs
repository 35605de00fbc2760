//! Traces that can be compared: epochs as ranks, times as beats, reusable records as absent.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hapax_core::{
    Epoch, Grant, Id, Record, State, Timestamp, millis,
    store::{Answer, Entry, Found},
};

/// One thing that a store said, in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Granted(Grant),
    Applied {
        epoch: Epoch,
        now: Timestamp,
    },
    Found(Found),
    Page(Vec<Record>),
    History(Vec<Entry>),
    /// It broke its contract, and how.
    Broke(String),
    /// Nothing that could be compared.
    Silent,
}

/// Turns what one store says into canonical form.
pub(super) struct Canon {
    start: Timestamp,
    beat: i64,
    /// Beats that have passed.
    passed: i64,
    /// The latest moment before the op at hand. Within one op, answers may come in any order.
    floor: Timestamp,
    latest: Timestamp,
    epochs: BTreeMap<Id, Vec<Epoch>>,
}

impl Canon {
    pub(super) fn new(start: Timestamp, beat: Duration) -> Self {
        let beat = std::cmp::max(millis(beat), 1);
        Self { start, beat, passed: 0, floor: start, latest: start, epochs: BTreeMap::new() }
    }

    /// Ends an op: what is said from now on is said later.
    pub(super) fn end_op(&mut self) {
        self.floor = self.latest;
    }

    pub(super) fn pass(&mut self, beats: u8) {
        self.passed += i64::from(beats);
    }

    pub(super) fn answer(&mut self, id: Id, answer: Answer) -> Said {
        match answer {
            Answer::Granted(grant) => match self.now(grant.now) {
                Ok(now) => Said::Granted(Grant {
                    epoch: self.epoch(id, grant.epoch),
                    now,
                    since: self.time(grant.since),
                    ..grant
                }),
                Err(broke) => broke,
            },
            Answer::Applied { epoch, now } => match self.now(now) {
                Ok(now) => Said::Applied { epoch: self.epoch(id, epoch), now },
                Err(broke) => broke,
            },
            Answer::Found(found) => self.found(id, found),
            Answer::Away(fault) | Answer::Unsure(fault) => Said::Broke(format!("{fault:?}")),
        }
    }

    pub(super) fn found(&mut self, id: Id, found: Found) -> Said {
        let now = match self.now(found.now) {
            Ok(now) => now,
            Err(broke) => return broke,
        };
        let record = found.record.filter(|record| !record.is_reusable(found.now));
        let record = record.map(|record| Arc::new(self.record(Arc::unwrap_or_clone(record))));
        match record {
            Some(record) if record.identity.id() != id => {
                Said::Broke("it found the record of another id".to_owned())
            }
            record => Said::Found(Found { record, now }),
        }
    }

    pub(super) fn page(&mut self, records: Vec<Record>, now: Timestamp) -> Said {
        if let Err(broke) = self.now(now) {
            return broke;
        }
        let present = records.into_iter().filter(|record| !record.is_reusable(now));
        Said::Page(present.map(|record| self.record(record)).collect())
    }

    pub(super) fn history(&mut self, id: Id, entries: Vec<Entry>) -> Said {
        let canonical = entries.into_iter().map(|entry| Entry {
            at: self.time(entry.at),
            epoch: self.epoch(id, entry.epoch),
            ..entry
        });
        Said::History(canonical.collect())
    }

    fn record(&mut self, record: Record) -> Record {
        let id = record.identity.id();
        let mut canonical = Record {
            epoch: self.epoch(id, record.epoch),
            lease_until: self.time(record.lease_until),
            expires_at: record.expires_at.map(|at| self.time(at)),
            reuse_at: record.reuse_at.map(|at| self.time(at)),
            created_at: self.time(record.created_at),
            completed_at: record.completed_at.map(|at| self.time(at)),
            ..record
        };
        canonical.terms.retake_until = canonical.terms.retake_until.map(|at| self.time(at));
        if matches!(record.state, State::Completed | State::Open) {
            // Of no meaning any more; a store may keep what it likes there.
            canonical.lease_until = Timestamp::default();
        }
        canonical
    }

    /// The moment as whole beats since the start.
    fn time(&self, at: Timestamp) -> Timestamp {
        let since = at.as_millis().saturating_sub(self.start.as_millis());
        Timestamp::from_millis(since.div_euclid(self.beat))
    }

    /// The store's own now, which must be where the clock was moved to.
    fn now(&mut self, now: Timestamp) -> Result<Timestamp, Said> {
        if now < self.floor {
            return Err(Said::Broke("its clock went back".to_owned()));
        }
        self.latest = std::cmp::max(self.latest, now);
        let beats = self.time(now);
        if beats.as_millis() == self.passed {
            return Ok(beats);
        }
        let (shows, passed) = (beats.as_millis(), self.passed);
        Err(Said::Broke(format!("its clock shows beat {shows}, but {passed} have passed")))
    }

    /// The rank of the epoch among those of this record, in the order in which they were seen.
    fn epoch(&mut self, id: Id, epoch: Epoch) -> Epoch {
        let seen = self.epochs.entry(id).or_default();
        let rank = seen.iter().position(|known| *known == epoch).unwrap_or_else(|| {
            seen.push(epoch);
            seen.len() - 1
        });
        let fell = seen.iter().take(rank).any(|earlier| *earlier > epoch);
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        // An epoch that fell has a rank of its own that no sound store gives.
        Epoch::from_stored(if fell { -1 - rank } else { rank })
    }
}
