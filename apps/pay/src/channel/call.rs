//! What a call to a channel came to: done, surely not done, or unknown.

use std::fmt;

/// What a call to a channel came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Call<T> {
    /// The channel did it and signed that it did.
    Done(T),
    /// The channel surely did not do it and signed why not.
    ///
    /// It speaks of this copy of the request. If an earlier copy under the same number may have
    /// arrived, ask before giving back what was reserved for it.
    Refused(Refusal),
    /// Nobody can say. Change nothing; ask, or send the same request again.
    Unknown(Cause),
}

impl<T> Call<T> {
    /// Goes on with what was done.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Call<U>) -> Call<U> {
        match self {
            Self::Done(done) => next(done),
            Self::Refused(refusal) => Call::Refused(refusal),
            Self::Unknown(cause) => Call::Unknown(cause),
        }
    }
}

impl<T> From<Result<T, Cause>> for Call<T> {
    fn from(read: Result<T, Cause>) -> Self {
        match read {
            Ok(done) => Self::Done(done),
            Err(cause) => Self::Unknown(cause),
        }
    }
}

/// A signed no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to do about it.
    pub meaning: Meaning,
    /// The channel's words, for people.
    pub said: Said,
}

/// What a signed no means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Meaning {
    /// The channel has no such trade *yet*: nobody scanned the code, which may still be paid.
    /// Before the expiry and its grace this is never a closed trade.
    NotSeen,
    /// The trade is in another state than the call needs: query and follow the real state.
    Ask,
    /// The number has been paid already: query, and adopt the payment if it is ours.
    AlreadyPaid,
    /// The number is closed for good: a new attempt needs a new number.
    AlreadyClosed,
    /// The number is known with other content: a fault or tampering. Alert; never reuse the number.
    Conflict,
    /// It will never be done under this number: show the reason, and alert where money is owed.
    Final,
    /// Not done now, and nothing is wrong with the request: alert, send the same again later.
    Later,
    /// The trade is frozen by the channel: hold, alert and keep asking.
    Blocked,
    /// The account or its rights are set up wrongly: alert, nothing will work until that is fixed.
    Misconfigured,
}

/// Words of a channel, bounded and without control characters; only for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The most specific code that was given.
    pub code: String,
    /// The sentence that came with it.
    pub text: String,
}

/// More than any real code or sentence has; an answer must not flood a log.
const SAID_CHARS_MAX: usize = 200;

impl Said {
    /// Keeps what is fit to be shown of `code` and `text`.
    pub fn new(code: &str, text: &str) -> Self {
        let shown = |words: &str| {
            words.chars().filter(|c| !c.is_control()).take(SAID_CHARS_MAX).collect::<String>()
        };
        Self { code: shown(code), text: shown(text) }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code.as_str(), self.text.as_str()) {
            ("", "") => f.write_str("nothing"),
            (code, "") => f.write_str(code),
            ("", text) => f.write_str(text),
            (code, text) => write!(f, "{code} ({text})"),
        }
    }
}

/// Why nobody can say what a call came to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// No connection came up, so this copy was not sent.
    #[error("no connection to the channel came up")]
    NotSent,
    /// No full answer within the time allowed.
    #[error("the channel gave no full answer in time")]
    TimedOut,
    /// The connection broke before the answer was complete.
    #[error("the connection broke before the answer was complete")]
    Broken,
    /// An HTTP status other than 200, from the channel or from something before it.
    #[error("the channel answered with HTTP status {0}")]
    Status(u16),
    /// The answer is longer than any real one.
    #[error("the answer of the channel is too long to be real")]
    TooLong,
    /// The answer is not what the protocol prescribes; the text names the place.
    #[error("the answer of the channel has {0}")]
    Unreadable(&'static str),
    /// The answer bears no signature. Its words may be shown, never believed.
    #[error("the channel said {0}, but did not sign it")]
    Unsigned(Said),
    /// The signature is not the channel's.
    #[error(
        "the answer bears a signature that is not the channel's: check the channel's public \
         key in the configuration"
    )]
    Forged,
    /// The answer was signed with a certificate that is not the pinned one.
    #[error(
        "the answer was signed with the certificate {0}, which is not the pinned one: install \
         the channel's new certificate"
    )]
    OtherCertificate(String),
    /// The channel itself does not know yet.
    #[error("the channel does not know the outcome: {0}")]
    Undecided(Said),
    /// A refusal without a row in the table: it may mean anything.
    #[error("the channel refused with an unknown code: {0}")]
    Unlisted(Said),
    /// This copy was turned away at the door, which says nothing about earlier copies. If its
    /// time or key has aged, freeze the same content again under the same number.
    #[error("the channel turned the request away: {0}")]
    TurnedAway(Said),
    /// A signed answer about another trade than the one asked for.
    #[error("the answer of the channel is about another trade")]
    Astray,
    /// The request cannot be made or read back, so it was not sent now; it may have been before.
    #[error("the request to the channel cannot be made or read back")]
    Unsendable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_channel_are_cut_and_stripped_before_anybody_sees_them() {
        let said = Said::new("A\nB\u{1b}[31m", &"x".repeat(SAID_CHARS_MAX + 1));
        assert_eq!(said.code, "AB[31m");
        assert_eq!(said.text.len(), SAID_CHARS_MAX);
    }

    #[test]
    fn what_was_not_done_stays_so_through_and_then() {
        let unknown: Call<u8> = Call::Unknown(Cause::Forged);
        assert_eq!(unknown.and_then(|n| Call::Done(n + 1)), Call::Unknown(Cause::Forged));
        assert_eq!(Call::Done(1).and_then(|n| Call::Done(n + 1)), Call::Done(2));
    }
}
