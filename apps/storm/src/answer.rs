//! An answer of the service, and what it asks the caller to do next.
//!
//! Invariant: a caller gives up a key only for an answer that says that the request is decided
//! (`only_a_decision_ends_the_retries`).

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::book::cut;
use crate::wire::{Payment, Problem};

/// Bytes of a body that are quoted as evidence.
const QUOTED: usize = 600;

/// The longest `Retry-After` that is obeyed; more would outlast the attack.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// An answer of the service.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    pub(crate) replayed: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) location: Option<String>,
}

/// What an answer asks the caller to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: the request is decided.
    Decided,
    /// Ask where `Location` says.
    Ask,
    /// Send the same request with the same key.
    Again,
}

impl Answer {
    pub(crate) fn next(&self) -> Next {
        match self.status {
            202 => Next::Ask,
            409 if self.is_undecided() => Next::Again,
            408 | 425 | 429 | 500..=599 => Next::Again,
            _ => Next::Decided,
        }
    }

    /// How long the service wants to be left alone.
    pub(crate) fn rest(&self) -> Duration {
        std::cmp::min(self.retry_after.unwrap_or_default(), RETRY_AFTER_MAX)
    }

    pub(crate) fn is_success(&self) -> bool {
        matches!(self.status, 200 | 201)
    }

    /// The code of a refusal.
    pub(crate) fn code(&self) -> Option<String> {
        self.problem().code
    }

    pub(crate) fn is_refused_as(&self, status: u16, code: &str) -> bool {
        self.status == status && self.code().as_deref() == Some(code)
    }

    pub(crate) fn problem(&self) -> Problem {
        if self.status < 400 { Problem::default() } else { self.read().unwrap_or_default() }
    }

    pub(crate) fn payment(&self) -> Option<Payment> {
        self.read()
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Status and head of the body, as evidence.
    pub(crate) fn quote(&self) -> String {
        let replayed = if self.replayed { " (replayed)" } else { "" };
        format!("{}{replayed} {}", self.status, cut(&String::from_utf8_lossy(&self.body), QUOTED))
    }

    fn is_undecided(&self) -> bool {
        matches!(
            self.code().as_deref(),
            Some("in_progress" | "outcome_unknown" | "refunds_under_way")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            body: Bytes::copy_from_slice(body.as_bytes()),
            replayed: false,
            retry_after: None,
            location: None,
        }
    }

    #[test]
    fn only_a_decision_ends_the_retries() {
        for code in ["in_progress", "outcome_unknown", "refunds_under_way"] {
            assert_eq!(answer(409, &format!(r#"{{"code":"{code}"}}"#)).next(), Next::Again);
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            assert_eq!(answer(status, "{}").next(), Next::Again, "{status}");
        }
        for status in [200, 201, 204, 400, 401, 404, 413, 422] {
            assert_eq!(answer(status, r#"{"code":"in_progress"}"#).next(), Next::Decided);
        }
        assert_eq!(answer(202, "{}").next(), Next::Ask);
        for code in ["order_conflict", "key_expired", "result_not_retained", "refund_conflict"] {
            assert_eq!(answer(409, &format!(r#"{{"code":"{code}"}}"#)).next(), Next::Decided);
        }
        assert_eq!(answer(409, "no json").next(), Next::Decided);
    }

    #[test]
    fn a_long_wait_is_cut_short() {
        let mut slow = answer(503, "{}");
        slow.retry_after = Some(Duration::from_secs(3_600));
        assert_eq!(slow.rest(), RETRY_AFTER_MAX);
        assert_eq!(answer(503, "{}").rest(), Duration::ZERO);
    }

    #[test]
    fn a_quote_is_short_whatever_the_body() {
        let quote = answer(500, &"x".repeat(100_000)).quote();
        assert!(quote.starts_with("500 xxx") && quote.len() < 700, "{}", quote.len());
    }
}
