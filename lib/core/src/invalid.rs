//! One clear sentence about an input that breaks a rule.

/// An input that cannot be accepted: what it is, and what to do about it.
///
/// Never repeats the input itself, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {rule}")]
pub struct Invalid {
    what: &'static str,
    rule: &'static str,
}

impl Invalid {
    /// Joins "the thing" and "what is wrong and what to do" into one sentence.
    pub fn new(what: &'static str, rule: &'static str) -> Self {
        Self { what, rule }
    }
}
