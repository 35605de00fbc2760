//! What may happen to a request, and what has.

use std::{fmt, time::Duration};

/// What happens to one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The server gets it and answers; the answer is thrown away and the connection cut.
    AnswerLost,
    /// The server never gets it; the connection is cut.
    RequestLost,
    /// The server gets it and answers; no answer comes any more and the connection stays.
    Unanswered,
    /// The server never gets it nor what follows; the connection stays and nothing comes.
    Unheard,
    /// The server gets it so much later.
    Late(Duration),
    /// The client gets so many bytes of the answer; then the connection is cut.
    Torn(usize),
}

/// What happens to all traffic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// It passes.
    Pass,
    /// Each piece passes so much later, in both directions.
    Slow(Duration),
    /// It waits, also on new connections, until another mode is set: a network that is parted.
    BlackHole,
    /// All connections are cut and new ones are closed at once.
    Refuse,
}

/// One request as the test sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The name in the statement's first line (`-- name`), or its first word in upper case; of
    /// Redis the command in upper case, for FCALL with the function's name.
    pub kind: String,
    /// The statement's text, without values; of Redis all words.
    pub text: String,
}

impl Request {
    pub(super) fn sql(text: String) -> Self {
        let first = text.trim_start().lines().next().unwrap_or_default().trim_end();
        let kind = match first.strip_prefix("-- ") {
            Some(name) => name.to_owned(),
            None => first_word(first).to_uppercase(),
        };
        Self { kind, text }
    }
}

fn first_word(line: &str) -> &str {
    line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

/// Accepts the statement COMMIT.
#[must_use]
pub fn commits(request: &Request) -> bool {
    request.kind == "COMMIT"
}

/// Accepts a call of a Redis script or function.
#[must_use]
pub fn scripts(request: &Request) -> bool {
    let command = request.kind.split(' ').next().unwrap_or_default();
    matches!(command, "EVAL" | "EVALSHA" | "FCALL")
}

type Matcher = Box<dyn Fn(&Request) -> bool + Send>;

/// Armed faults, and the count of those that happened.
#[derive(Default)]
pub(super) struct Faults {
    armed: Vec<(Fate, Matcher)>,
    happened: u64,
    swallowed: u64,
}

impl Faults {
    pub(super) fn arm(&mut self, fate: Fate, is_it: Matcher) {
        self.armed.push((fate, is_it));
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    pub(super) fn armed(&self) -> usize {
        self.armed.len()
    }

    pub(super) fn happened(&self) -> u64 {
        self.happened
    }

    pub(super) fn swallowed(&self) -> u64 {
        self.swallowed
    }

    /// The fate of a request; a fault is used up by it.
    pub(super) fn meet(&mut self, request: &Request) -> Option<Fate> {
        let at = self.armed.iter().position(|(_, is_it)| is_it(request))?;
        let (fate, _) = self.armed.remove(at);
        self.happened += 1;
        Some(fate)
    }

    pub(super) fn swallow(&mut self) {
        self.swallowed += 1;
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("armed", &self.armed.len())
            .field("happened", &self.happened)
            .field("swallowed", &self.swallowed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_called_by_its_first_line() {
        for (text, kind) in [
            ("-- claim_insert\nINSERT INTO x", "claim_insert"),
            ("  commit", "COMMIT"),
            ("BEGIN;", "BEGIN"),
            ("", ""),
        ] {
            assert_eq!(Request::sql(text.to_owned()).kind, kind);
        }
    }

    #[test]
    fn a_fault_is_used_up_by_the_first_request_that_it_accepts() {
        let mut faults = Faults::default();
        faults.arm(Fate::AnswerLost, Box::new(commits));
        faults.arm(Fate::RequestLost, Box::new(|_| true));

        assert_eq!(faults.meet(&Request::sql("SELECT 1".into())), Some(Fate::RequestLost));
        assert_eq!(faults.meet(&Request::sql("SELECT 1".into())), None);
        assert_eq!(faults.meet(&Request::sql("COMMIT".into())), Some(Fate::AnswerLost));
        assert_eq!((faults.armed(), faults.happened(), faults.swallowed()), (0, 2, 0));
    }
}
