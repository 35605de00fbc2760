//! State machines for any entity, as data: which event leads from which state to which.
//!
//! The machine decides and the database holds it to that: the move is written with
//! `WHERE state = ? AND version = ?`, in one transaction with the [`Transition`] as its journal
//! line. No row written means that somebody else moved first: read the state and ask the machine
//! again; the answer is then [`Move::Already`] for a repeat, and no error.
//!
//! Invariant: no state is left on a way that the table does not name, and the same event a second
//! time changes nothing (`the_whole_table_is_what_it_says`, `a_repeated_event_changes_nothing`).
//! [`Machine::check`] refuses a table that could not hold it; call it in a test.

use std::{collections::HashSet, fmt, hash::Hash};

/// A state or an event: an enum without data whose variants have stable words for columns and
/// journals.
pub trait Named: Copy + Eq + Hash + fmt::Debug + 'static {
    /// The stable word. Changing it makes stored rows unreadable.
    fn name(self) -> &'static str;
}

/// The legal life of one kind of entity.
///
/// ```
/// use hapax_core::machine::{Machine, Move, Named};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// enum Ticket { Open, Assigned, Solved, Closed }
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// enum Event { Assign, Solve, Reject, Close }
///
/// impl Named for Ticket {
///     fn name(self) -> &'static str {
///         match self {
///             Self::Open => "open",
///             Self::Assigned => "assigned",
///             Self::Solved => "solved",
///             Self::Closed => "closed",
///         }
///     }
/// }
/// impl Named for Event {
///     fn name(self) -> &'static str {
///         match self {
///             Self::Assign => "assign",
///             Self::Solve => "solve",
///             Self::Reject => "reject",
///             Self::Close => "close",
///         }
///     }
/// }
///
/// const TICKET: Machine<Ticket, Event> = Machine::new(
///     "ticket",
///     &[Ticket::Open, Ticket::Assigned, Ticket::Solved, Ticket::Closed], // born as the first one
///     &[
///         (Ticket::Open, Event::Assign, Ticket::Assigned),
///         (Ticket::Assigned, Event::Solve, Ticket::Solved),
///         (Ticket::Solved, Event::Reject, Ticket::Assigned),
///         (Ticket::Solved, Event::Close, Ticket::Closed),
///     ],
/// );
///
/// TICKET.check().unwrap(); // in a test
/// assert_eq!(TICKET.decide(Ticket::Open, Event::Assign), Move::To(Ticket::Assigned));
/// assert_eq!(TICKET.decide(Ticket::Assigned, Event::Assign), Move::Already(Ticket::Assigned));
/// assert_eq!(TICKET.decide(Ticket::Closed, Event::Assign), Move::Illegal);
///
/// // What is written: UPDATE tickets SET state = 'assigned', version = 4
/// //                  WHERE id = '77' AND state = 'open' AND version = 3
/// let line = TICKET.transition("77", 3, Ticket::Open, Event::Assign).unwrap();
/// assert_eq!((line.from, line.to, line.event, line.version), ("open", "assigned", "assign", 3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Machine<S: 'static, E: 'static> {
    kind: &'static str,
    states: &'static [S],
    edges: &'static [(S, E, S)],
}

/// What an event means in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it moves, it has moved, or it may not")]
pub enum Move<S> {
    /// Go there, if the state is still the one that was read.
    To(S),
    /// The event has led here before: nothing is left to do.
    Already(S),
    /// The table has no such way: read the state and tell the caller.
    Illegal,
}

/// One legal move, as the conditional update compares it and the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The kind of entity.
    pub kind: &'static str,
    /// Which one.
    pub entity: String,
    /// The version that the decision was made on; the move leaves the next one.
    pub version: i64,
    /// The state that it leaves.
    pub from: &'static str,
    /// The state that it enters.
    pub to: &'static str,
    /// Why.
    pub event: &'static str,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// There is nothing to be born as.
    #[error("the machine has no states; name at least the first one")]
    Empty,
    /// Two states, or two events, share a word.
    #[error("two states or two events are called '{0}'; rows could not tell them apart")]
    SameName(&'static str),
    /// An edge uses a state that is not listed.
    #[error("the state '{0}' is used by an edge but not listed")]
    Unlisted(&'static str),
    /// No way leads there.
    #[error("the state '{0}' can never be reached; add a way to it or remove it")]
    Unreachable(&'static str),
    /// One event leads from one state to two.
    #[error("the event '{event}' leads from '{from}' to more than one state")]
    Ambiguous {
        /// The state.
        from: &'static str,
        /// The event.
        event: &'static str,
    },
    /// The event would not move at all.
    #[error("the event '{event}' leads from '{from}' to itself; leave it out")]
    Still {
        /// The state.
        from: &'static str,
        /// The event.
        event: &'static str,
    },
    /// The event sent twice would move twice.
    #[error("the event '{event}' leads to '{state}' and on from there; a repeat would move again")]
    Restless {
        /// The state in between.
        state: &'static str,
        /// The event.
        event: &'static str,
    },
}

impl<S: Named, E: Named> Machine<S, E> {
    /// The machine of this table. An entity is born in the first state.
    pub const fn new(
        kind: &'static str,
        states: &'static [S],
        edges: &'static [(S, E, S)],
    ) -> Self {
        Self { kind, states, edges }
    }

    /// The kind of entity, as journals name it.
    pub const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Every state, the first one being that of birth.
    pub const fn states(&self) -> &'static [S] {
        self.states
    }

    /// The state that a stored word names.
    pub fn state(&self, word: &str) -> Option<S> {
        self.states.iter().copied().find(|state| state.name() == word)
    }

    /// What `event` means in `state`.
    pub fn decide(&self, state: S, event: E) -> Move<S> {
        let way = self.edges.iter().find(|(from, on, _)| *from == state && *on == event);
        if let Some((_, _, to)) = way {
            return Move::To(*to);
        }
        let led_here = self.edges.iter().any(|(_, on, to)| *on == event && *to == state);
        if led_here { Move::Already(state) } else { Move::Illegal }
    }

    /// The move of one entity that was read with this version and state, ready to be written.
    /// `None`: there is nothing to write; [`decide`](Self::decide) says why.
    pub fn transition(&self, entity: &str, version: i64, state: S, event: E) -> Option<Transition> {
        let Move::To(to) = self.decide(state, event) else { return None };
        Some(Transition {
            kind: self.kind,
            entity: entity.to_owned(),
            version,
            from: state.name(),
            to: to.name(),
            event: event.name(),
        })
    }

    /// Says what is wrong with the table. A test calls it for each machine.
    ///
    /// # Errors
    /// The first [`Flaw`] that is found.
    pub fn check(&self) -> Result<(), Flaw> {
        self.check_names()?;
        for (at, &(from, event, to)) in self.edges.iter().enumerate() {
            let (from_name, event_name) = (from.name(), event.name());
            if from == to {
                return Err(Flaw::Still { from: from_name, event: event_name });
            }
            let earlier = self.edges.iter().take(at);
            if earlier.clone().any(|(other, on, _)| *other == from && *on == event) {
                return Err(Flaw::Ambiguous { from: from_name, event: event_name });
            }
            if let Move::To(_) = self.decide(to, event) {
                return Err(Flaw::Restless { state: to.name(), event: event_name });
            }
        }
        self.check_reach()
    }

    fn check_names(&self) -> Result<(), Flaw> {
        unique(self.states.iter().copied())?;
        let events: HashSet<E> = self.edges.iter().map(|(_, event, _)| *event).collect();
        unique(events.into_iter())?;
        let used = self.edges.iter().flat_map(|(from, _, to)| [*from, *to]);
        match used.into_iter().find(|state| !self.states.contains(state)) {
            Some(state) => Err(Flaw::Unlisted(state.name())),
            None => Ok(()),
        }
    }

    fn check_reach(&self) -> Result<(), Flaw> {
        let first = self.states.first().ok_or(Flaw::Empty)?;
        let (mut reached, mut open) = (HashSet::from([*first]), vec![*first]);
        while let Some(state) = open.pop() {
            let ways = self.edges.iter().filter(|(from, _, _)| *from == state);
            open.extend(ways.map(|(_, _, to)| *to).filter(|to| reached.insert(*to)));
        }
        match self.states.iter().find(|state| !reached.contains(state)) {
            Some(state) => Err(Flaw::Unreachable(state.name())),
            None => Ok(()),
        }
    }
}

fn unique<N: Named>(names: impl Iterator<Item = N>) -> Result<(), Flaw> {
    let mut seen = HashSet::new();
    for named in names {
        if !seen.insert(named.name()) {
            return Err(Flaw::SameName(named.name()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use self::{
        Event::{Amend, Ask, Grant, Refuse},
        State::{Asked, Draft, Granted, Refused},
    };
    use super::*;

    macro_rules! named {
        ($name:ident { $($variant:ident = $word:literal),+ }) => {
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            enum $name { $($variant),+ }

            impl Named for $name {
                fn name(self) -> &'static str {
                    match self { $(Self::$variant => $word),+ }
                }
            }
        };
    }

    named!(State { Draft = "draft", Asked = "asked", Granted = "granted", Refused = "refused" });
    named!(Event { Ask = "ask", Grant = "grant", Refuse = "refuse", Amend = "amend" });

    const STATES: &[State] = &[Draft, Asked, Granted, Refused];
    const EVENTS: [Event; 4] = [Ask, Grant, Refuse, Amend];
    const APPROVAL: Machine<State, Event> = Machine::new(
        "approval",
        STATES,
        &[
            (Draft, Ask, Asked),
            (Asked, Grant, Granted),
            (Asked, Refuse, Refused),
            (Refused, Amend, Draft),
        ],
    );

    fn flaw(states: &'static [State], edges: &'static [(State, Event, State)]) -> Option<Flaw> {
        Machine::new("m", states, edges).check().err()
    }

    #[test]
    fn the_whole_table_is_what_it_says() {
        use Move::{Already, Illegal, To};
        APPROVAL.check().unwrap();
        let table = [
            (Draft, [To(Asked), Illegal, Illegal, Already(Draft)]),
            (Asked, [Already(Asked), To(Granted), To(Refused), Illegal]),
            (Granted, [Illegal, Already(Granted), Illegal, Illegal]),
            (Refused, [Illegal, Illegal, Already(Refused), To(Draft)]),
        ];
        for (state, moves) in table {
            for (event, expected) in EVENTS.into_iter().zip(moves) {
                assert_eq!(APPROVAL.decide(state, event), expected, "{state:?} {event:?}");
                let line = APPROVAL.transition("7", 3, state, event);
                assert_eq!(line.is_some(), matches!(expected, To(_)), "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn a_repeated_event_changes_nothing() {
        for &state in STATES {
            for event in EVENTS {
                if let Move::To(next) = APPROVAL.decide(state, event) {
                    assert_eq!(APPROVAL.decide(next, event), Move::Already(next));
                }
            }
        }
    }

    #[test]
    fn a_transition_carries_what_update_and_journal_need() {
        let line = APPROVAL.transition("order/1", 41, Asked, Grant).unwrap();
        let expected = Transition {
            kind: "approval",
            entity: "order/1".to_owned(),
            version: 41,
            from: "asked",
            to: "granted",
            event: "grant",
        };
        assert_eq!(line, expected);
    }

    #[test]
    fn stored_words_are_read_back() {
        for &state in STATES {
            assert_eq!(APPROVAL.state(state.name()), Some(state));
        }
        assert_eq!(APPROVAL.state("Draft"), None);
    }

    #[test]
    fn a_table_with_a_flaw_is_refused() {
        assert_eq!(flaw(&[], &[]), Some(Flaw::Empty));
        assert_eq!(flaw(&[Draft, Draft], &[]), Some(Flaw::SameName("draft")));
        assert_eq!(flaw(&[Draft], &[(Draft, Ask, Asked)]), Some(Flaw::Unlisted("asked")));
        assert_eq!(flaw(&[Draft, Asked], &[]), Some(Flaw::Unreachable("asked")));
        let cut_off = flaw(&[Draft, Asked, Granted], &[(Asked, Grant, Granted)]);
        assert_eq!(cut_off, Some(Flaw::Unreachable("asked")));
        let still = flaw(&[Draft], &[(Draft, Ask, Draft)]);
        assert_eq!(still, Some(Flaw::Still { from: "draft", event: "ask" }));
        let twice = flaw(STATES, &[(Draft, Ask, Asked), (Draft, Ask, Granted)]);
        assert_eq!(twice, Some(Flaw::Ambiguous { from: "draft", event: "ask" }));
        let again = flaw(STATES, &[(Draft, Ask, Asked), (Asked, Ask, Granted)]);
        assert_eq!(again, Some(Flaw::Restless { state: "asked", event: "ask" }));
    }
}
