//! The first answer of each key and token of an order.
//!
//! Invariant: an answer is compared with the first one of the same credential, bytes and status
//! (`a_changed_byte_is_noticed`).

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::answer::Answer;
use crate::script::Credential;

/// The first answers of one order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    first: BTreeMap<Credential, First>,
}

#[derive(Debug)]
struct First {
    status: u16,
    body: Bytes,
    quote: String,
    /// Answers that were not marked as replays.
    unmarked: u32,
}

/// How an answer compares with the first one of its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    First,
    Same,
    /// Other than the first, which is quoted.
    Other(String),
}

impl Ledger {
    /// Books an answer and compares it with the first one.
    pub(crate) fn enter(&mut self, by: Credential, answer: &Answer) -> Entry {
        let unmarked = u32::from(!answer.replayed);
        let Some(first) = self.first.get_mut(&by) else {
            let Answer { status, body, .. } = answer.clone();
            self.first.insert(by, First { status, body, quote: answer.quote(), unmarked });
            return Entry::First;
        };
        first.unmarked += unmarked;
        if (first.status, &first.body) == (answer.status, &answer.body) {
            Entry::Same
        } else {
            Entry::Other(first.quote.clone())
        }
    }

    /// How many answers of a credential were not marked as replays.
    pub(crate) fn unmarked(&self, by: Credential) -> u32 {
        self.first.get(&by).map_or(0, |first| first.unmarked)
    }

    /// The status of the first answer.
    pub(crate) fn status(&self, by: Credential) -> Option<u16> {
        self.first.get(&by).map(|first| first.status)
    }

    /// Everything that was answered.
    pub(crate) fn credentials(&self) -> impl Iterator<Item = Credential> {
        self.first.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str, replayed: bool) -> Answer {
        let body = Bytes::from_static(body.as_bytes());
        Answer { status, body, replayed, retry_after: None, location: None }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let mut ledger = Ledger::default();
        let key = Credential::Key(0);
        assert_eq!(ledger.enter(key, &answer(201, "{}", false)), Entry::First);
        assert_eq!(ledger.enter(key, &answer(201, "{}", true)), Entry::Same);
        let other = Entry::Other("201 {}".to_owned());
        assert_eq!(ledger.enter(key, &answer(201, "{ }", true)), other);
        assert_eq!(ledger.enter(key, &answer(200, "{}", true)), other);
        assert_eq!(ledger.enter(Credential::Token, &answer(200, "[]", false)), Entry::First);
        assert_eq!((ledger.unmarked(key), ledger.status(key)), (1, Some(201)));
    }
}
