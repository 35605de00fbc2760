//! Duplicates of one key that meet in this process share one look at the store.
//!
//! They share the snapshot, never the decision: each decides with its own request and its own
//! right to a replay. A follower holds a slot of memory and nothing else, no connection.
//!
//! Invariant: a flight without its leader has ended, and its followers know
//! (`followers_of_a_leader_that_vanished_go_on`).

use std::{
    collections::{HashMap, hash_map},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

use crate::{id::Id, store::Found};

/// Followers of one key. A key that hot is an attack or a bug; the rest are told "busy".
pub const FOLLOWERS_PER_KEY_MAX: usize = 4_096;
/// Followers of all keys together: about 16 MiB of waiting requests.
pub const FOLLOWERS_MAX: usize = 65_536;

const SHARDS: usize = 64;

/// The flights of this process, by record.
pub(super) struct Flights {
    shards: Vec<Mutex<HashMap<Id, Arc<Flight>>>>,
    followers: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Flight {
    sight: Mutex<Sight>,
    changed: Notify,
    followers: AtomicUsize,
}

impl Flight {
    fn show(&self, change: impl FnOnce(&mut Sight)) {
        // Assigning leaves nothing half done.
        change(&mut self.sight.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
    }
}

/// What the leader has seen so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// The latest snapshot.
    pub(super) found: Option<Found>,
    /// Nobody updates it any more.
    pub(super) has_ended: bool,
}

/// The place that a call gets.
pub(super) enum Place {
    /// First: asks the store for everybody.
    Lead(Seat),
    /// Later: waits for what the leader sees.
    Follow(Follower),
    /// Too many wait already.
    Crowded,
}

impl Flights {
    pub(super) fn new() -> Self {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARDS).collect();
        Self { shards, followers: Arc::default() }
    }

    pub(super) fn join(self: &Arc<Self>, id: Id) -> Place {
        let mut shard = self.shard(id);
        match shard.entry(id) {
            hash_map::Entry::Vacant(vacant) => {
                let flight = Arc::<Flight>::default();
                vacant.insert(Arc::clone(&flight));
                Place::Lead(Seat(Exit { flights: Arc::clone(self), flight, id }))
            }
            hash_map::Entry::Occupied(occupied) => {
                let flight = occupied.get();
                let crowded = flight.followers.load(Ordering::Relaxed) >= FOLLOWERS_PER_KEY_MAX
                    || self.followers.load(Ordering::Relaxed) >= FOLLOWERS_MAX;
                if crowded {
                    return Place::Crowded;
                }
                flight.followers.fetch_add(1, Ordering::Relaxed);
                self.followers.fetch_add(1, Ordering::Relaxed);
                Place::Follow(Follower {
                    flight: Arc::clone(flight),
                    all: Arc::clone(&self.followers),
                })
            }
        }
    }

    fn shard(&self, id: Id) -> MutexGuard<'_, HashMap<Id, Arc<Flight>>> {
        let [first, ..] = id.as_bytes();
        #[expect(clippy::indexing_slicing, reason = "the index is a remainder of the length")]
        let shard = &self.shards[usize::from(*first) % self.shards.len()];
        // Inserting and removing leave nothing half done.
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leader's seat. Leaving it ends the flight.
pub(super) struct Seat(Exit);

impl Seat {
    /// Shows the followers what the store said.
    pub(super) fn publish(&self, found: Found) {
        self.0.flight.show(|sight| sight.found = Some(found));
    }

    /// Whether anybody would see it.
    pub(super) fn has_followers(&self) -> bool {
        self.0.flight.followers.load(Ordering::Relaxed) > 0
    }

    /// The way to end the flight from elsewhere.
    pub(super) fn exit(&self) -> Exit {
        self.0.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The end of a flight, in the hands of whoever learns first that its leader knows nothing more.
#[derive(Clone)]
pub(super) struct Exit {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    id: Id,
}

impl Exit {
    /// Ends the flight: its followers ask for themselves. Leaving twice is leaving once.
    pub(super) fn leave(&self) {
        let mut shard = self.flights.shard(self.id);
        // Somebody else may lead by now.
        if shard.get(&self.id).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            shard.remove(&self.id);
        }
        drop(shard);
        self.flight.show(|sight| sight.has_ended = true);
    }
}

/// A follower's place; given back when dropped.
pub(super) struct Follower {
    flight: Arc<Flight>,
    all: Arc<AtomicUsize>,
}

impl Follower {
    /// What the leader sees now, and the future of the next change.
    pub(super) fn sight(&self) -> (Sight, impl Future<Output = ()>) {
        // In this order no change falls in between.
        let changed = self.flight.changed.notified();
        let sight = self.flight.sight.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (sight, changed)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.flight.followers.fetch_sub(1, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_leader_at_a_time() {
        let (flights, id) = (Arc::new(Flights::new()), Id::from_stored([7; 32]));
        let Place::Lead(seat) = flights.join(id) else { panic!("the first call leads") };
        assert!(matches!(flights.join(id), Place::Follow(_)));
        drop(seat);
        assert!(matches!(flights.join(id), Place::Lead(_)));
    }

    #[test]
    fn a_seat_that_was_left_early_does_not_unseat_the_next_leader() {
        let (flights, id) = (Arc::new(Flights::new()), Id::from_stored([7; 32]));
        let Place::Lead(old) = flights.join(id) else { panic!("the first call leads") };
        old.exit().leave();
        let Place::Lead(_new) = flights.join(id) else { panic!("the seat is free") };
        drop(old);
        assert!(matches!(flights.join(id), Place::Follow(_)));
    }

    #[test]
    fn followers_of_one_key_are_bounded() {
        let (flights, id) = (Arc::new(Flights::new()), Id::from_stored([7; 32]));
        let _seat = flights.join(id);
        let places: Vec<_> = (0..FOLLOWERS_PER_KEY_MAX).map(|_| flights.join(id)).collect();
        assert!(matches!(flights.join(id), Place::Crowded));
        drop(places);
        assert!(matches!(flights.join(id), Place::Follow(_)), "places are given back");
    }

    #[tokio::test]
    async fn followers_of_a_leader_that_vanished_go_on() {
        let (flights, id) = (Arc::new(Flights::new()), Id::from_stored([7; 32]));
        let seat = flights.join(id);
        let Place::Follow(follower) = flights.join(id) else { panic!("the second follows") };
        let (sight, changed) = follower.sight();
        assert!(!sight.has_ended);
        drop(seat);
        changed.await;
        assert!(follower.sight().0.has_ended);
    }
}
