//! The recovery point of a request for a payment: which payment is its answer, or what was asked.
//!
//! Invariant: a request that was told to wait has the answer of what it waited for, however often
//! and how late it is sent again (`whoever_waits_for_an_attempt_has_its_answer_and_opens_none`).

use bytes::Bytes;

use super::{Desk, on};
use crate::{
    channel::PaymentNo,
    db::payments::{self, Payment},
    error::Error,
};
use hapax::Work;

/// Stands before the number of an adopted attempt; no number has it.
///
/// A build that does not know it takes the point for damaged: it answers "send it again" and never
/// opens an attempt of its own.
const ADOPTED: u8 = b'=';
/// Stands before a request that is kept, with the same effect.
const ASKED: u8 = b'?';

/// How far a request came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The number under which the request opens an attempt, whether it has or not; and what was
    /// asked, if that is owed an answer.
    Own(PaymentNo, Option<Asked>),
    /// The attempt of another request, which this one was told to wait for.
    Adopted(PaymentNo),
    /// None yet: to be asked again when those before it are over.
    Asked(Asked),
}

/// A request that is kept, to be asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The round that was paid when it was first asked, if it asks for another one.
    pub(crate) again_after: Option<u32>,
    /// The request, as the API reads it.
    pub(crate) request: Bytes,
}

impl Point {
    /// The point that a request has come to, now or in an earlier attempt.
    pub(super) fn of(work: &Work) -> Result<Option<Self>, Error> {
        work.point().as_ref().map(Self::read).transpose()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    fn read(point: &Bytes) -> Result<Self, Error> {
        let number = |text| {
            let text = std::str::from_utf8(text).map_err(Error::corrupt)?;
            PaymentNo::parse(text).map_err(Error::corrupt)
        };
        if let [ADOPTED, text @ ..] = &point[..] {
            return number(text).map(Self::Adopted);
        }
        let Some(mark) = point.iter().position(|byte| *byte == ASKED) else {
            return Ok(Self::Own(number(point)?, None));
        };
        let asked = Asked::read(&point.slice(mark + 1..))?;
        match mark {
            0 => Ok(Self::Asked(asked)),
            _ => Ok(Self::Own(number(&point.slice(..mark))?, Some(asked))),
        }
    }

    /// The point as a record keeps it.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut text = Vec::new();
        match self {
            Self::Own(no, asked) => {
                text.extend_from_slice(no.as_str().as_bytes());
                asked.iter().for_each(|asked| asked.write(&mut text));
            }
            Self::Adopted(no) => {
                text.push(ADOPTED);
                text.extend_from_slice(no.as_str().as_bytes());
            }
            Self::Asked(asked) => asked.write(&mut text),
        }
        text.into()
    }

    fn payment_no(&self) -> Option<&PaymentNo> {
        match self {
            Self::Own(no, _) | Self::Adopted(no) => Some(no),
            Self::Asked(_) => None,
        }
    }
}

impl Asked {
    /// `1:{…}`, or `:{…}` without a round.
    fn read(kept: &Bytes) -> Result<Self, Error> {
        let colon = kept.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or_else(|| Error::corrupt("a request without its round"))?;
        let (round, request) = (kept.slice(..colon), kept.slice(colon + 1..));
        let again_after = match std::str::from_utf8(&round).map_err(Error::corrupt)? {
            "" => None,
            round => Some(round.parse().map_err(Error::corrupt)?),
        };
        Ok(Self { again_after, request })
    }

    fn write(&self, text: &mut Vec<u8>) {
        text.push(ASKED);
        let round = self.again_after.map(|round| round.to_string()).unwrap_or_default();
        text.extend_from_slice(round.as_bytes());
        text.push(b':');
        text.extend_from_slice(&self.request);
    }
}

/// What a request asked that is owed an answer, as an earlier attempt kept it.
pub(crate) fn asked_before(work: &Work) -> Result<Option<Asked>, Error> {
    Ok(match Point::of(work)? {
        Some(Point::Asked(asked) | Point::Own(_, Some(asked))) => Some(asked),
        Some(Point::Own(_, None) | Point::Adopted(_)) | None => None,
    })
}

impl Desk {
    /// The payment that the request's recovery point names, if it was written down.
    pub(crate) async fn pointed(&self, work: &Work) -> Result<Option<(Point, Payment)>, Error> {
        let Some(point) = Point::of(work)? else { return Ok(None) };
        let Some(no) = point.payment_no() else { return Ok(None) };
        let mut reader = self.reader().await?;
        let payment = payments::find(on(&mut reader), no).await?;
        Ok(payment.map(|payment| (point, payment)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_was_written() {
        let no = PaymentNo::parse("P1").unwrap();
        let asked = |again_after| Asked { again_after, request: Bytes::from_static(b"{\"a?\":1}") };
        for (point, kept) in [
            (Point::Own(no.clone(), None), "P1"),
            (Point::Own(no.clone(), Some(asked(Some(2)))), "P1?2:{\"a?\":1}"),
            (Point::Adopted(no), "=P1"),
            (Point::Asked(asked(None)), "?:{\"a?\":1}"),
        ] {
            assert_eq!(point.to_bytes(), kept);
            assert_eq!(Point::read(&point.to_bytes()).unwrap(), point);
        }
        for damaged in ["", "=", "==P1", "P 1", "?", "?x:{}", "P1?"] {
            assert!(Point::read(&Bytes::from(damaged)).is_err(), "{damaged}");
        }
    }
}
