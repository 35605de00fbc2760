//! What an answer says about the work: done, surely not done, or nobody knows.
//!
//! Invariant: only an answer that ends the matter is stored, and the key is freed only where
//! nothing can have happened (`every_status_says_how_the_work_ended`).

use axum::response::{IntoResponseParts, ResponseParts};
use http::StatusCode;

/// What an answer says about the work. A handler puts it into the extensions of its response
/// where the status alone would say something else.
///
/// ```
/// use axum::{http::StatusCode, response::IntoResponse};
/// use hapax_http::Ended;
///
/// // "The slot is taken": final, though a 409 usually means "try again".
/// let taken = (StatusCode::CONFLICT, Ended::Final, "the slot is taken").into_response();
/// assert_eq!(taken.extensions().get(), Some(&Ended::Final));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is over, it surely is not, or nobody knows")]
pub enum Ended {
    /// Over: repeats get this answer.
    Final,
    /// Surely nothing happened: the key is free, also for a corrected request.
    NoEffect,
    /// Nobody knows what happened: the class of the operation says what may follow.
    Unknown,
}

impl IntoResponseParts for Ended {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

/// Marks an answer that is passed on while it is made: it is never held back and never stored.
///
/// The operation counts as done when the head of the answer is there, and repeats are told that
/// the result was not retained. `text/event-stream` is always treated like this. Nothing that
/// must happen once may happen in such a body: a client that goes away ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is a mark and nothing else")]
pub struct Streamed;

impl IntoResponseParts for Streamed {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

/// How far the handler came, as its extractors told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nobody said.
    Untold,
    /// An extractor refused the request: the handler never ran.
    Refused,
    /// The handler runs or ran.
    Entered,
}

/// What an answer says, if it does not say so itself.
pub(crate) fn judge(status: StatusCode, progress: Progress, refusals: &[StatusCode]) -> Ended {
    if progress == Progress::Refused || refusals.contains(&status) {
        return Ended::NoEffect;
    }
    match status.as_u16() {
        200..=399 => Ended::Final,
        // By their meaning nothing was done, and another try may end otherwise.
        408 | 409 | 421 | 423 | 425 | 429 => Ended::NoEffect,
        // What stands before a handler says: authentication, method routing, body extractors.
        // A handler that has begun and says so means it.
        401 | 403 | 405 | 407 | 411 | 413 | 414 | 415 | 431 if progress == Progress::Untold => {
            Ended::NoEffect
        }
        400..=499 => Ended::Final,
        _ => Ended::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every status; runs of equal rows are written as one.
    #[test]
    fn every_status_says_how_the_work_ended() {
        let mut table = vec!["status: nobody told | handler entered".to_owned()];
        let mut run: Option<(u16, u16, String)> = None;
        for code in 200..=600 {
            let row = StatusCode::from_u16(code).ok().filter(|_| code < 600).map(|status| {
                [Progress::Untold, Progress::Entered]
                    .map(|progress| format!("{:?}", judge(status, progress, &[])))
                    .join(" | ")
            });
            match (&mut run, row) {
                (Some((_, last, text)), Some(row)) if *text == row => *last = code,
                (_, row) => {
                    if let Some((first, last, text)) = run.take() {
                        table.push(format!("{first}-{last}: {text}"));
                    }
                    run = row.map(|row| (code, code, row));
                }
            }
        }
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn a_refused_request_frees_the_key_whatever_the_status() {
        for code in [400, 404, 422, 500, 503] {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(judge(status, Progress::Refused, &[]), Ended::NoEffect, "{code}");
        }
        assert_eq!(
            judge(StatusCode::BAD_REQUEST, Progress::Untold, &[StatusCode::BAD_REQUEST]),
            Ended::NoEffect
        );
    }
}
