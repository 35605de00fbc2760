//! What crossed a proxy.

use std::{collections::BTreeMap, iter::Sum};

/// Counts since the last reset; the first connection's greeting is in them, so warm up, then reset.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Connections that were made.
    pub connections: u64,
    /// Times that a client sent something and was answered.
    pub round_trips: u64,
    /// Statements that were prepared.
    pub prepares: u64,
    /// Requests by [`kind`](super::Request::kind).
    pub requests: BTreeMap<String, u64>,
    /// Bytes from clients.
    pub bytes_up: u64,
    /// Bytes from the server.
    pub bytes_down: u64,
}

impl Tally {
    /// Requests of one kind.
    #[must_use]
    pub fn of(&self, kind: &str) -> u64 {
        self.requests.get(kind).copied().unwrap_or_default()
    }

    /// Requests of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.connections += one.connections;
            sum.round_trips += one.round_trips;
            sum.prepares += one.prepares;
            sum.bytes_up += one.bytes_up;
            sum.bytes_down += one.bytes_down;
            for (kind, count) in one.requests {
                *sum.requests.entry(kind).or_default() += count;
            }
            sum
        })
    }
}
