//! The recovery point of a request for a payment: which payment is its answer.
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
const ADOPTED: char = '=';

/// The payment that answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The number under which the request opens an attempt, whether it has or not.
    Own(PaymentNo),
    /// The attempt of another request, which this one was told to wait for.
    Adopted(PaymentNo),
}

impl Point {
    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    pub(super) fn read(point: &Bytes) -> Result<Self, Error> {
        let text = std::str::from_utf8(point).map_err(Error::corrupt)?;
        let number = |text| PaymentNo::parse(text).map_err(Error::corrupt);
        match text.strip_prefix(ADOPTED) {
            Some(text) => number(text).map(Self::Adopted),
            None => number(text).map(Self::Own),
        }
    }

    /// The point as a record keeps it.
    pub(super) fn to_bytes(&self) -> Bytes {
        match self {
            Self::Own(no) => Bytes::copy_from_slice(no.as_str().as_bytes()),
            Self::Adopted(no) => Bytes::from(format!("{ADOPTED}{no}")),
        }
    }

    fn payment_no(&self) -> &PaymentNo {
        match self {
            Self::Own(no) | Self::Adopted(no) => no,
        }
    }
}

impl Desk {
    /// The payment that the request's recovery point names, if it was written down.
    pub(crate) async fn pointed(&self, work: &Work) -> Result<Option<(Point, Payment)>, Error> {
        let Some(point) = work.point() else { return Ok(None) };
        let point = Point::read(&point)?;
        let mut reader = self.reader().await?;
        let payment = payments::find(on(&mut reader), point.payment_no()).await?;
        Ok(payment.map(|payment| (point, payment)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_was_written() {
        let no = PaymentNo::parse("P1").unwrap();
        for (point, kept) in [(Point::Own(no.clone()), "P1"), (Point::Adopted(no), "=P1")] {
            assert_eq!(point.to_bytes(), kept);
            assert_eq!(Point::read(&point.to_bytes()).unwrap(), point);
        }
        for damaged in ["", "=", "==P1", "P 1"] {
            assert!(Point::read(&Bytes::from(damaged)).is_err(), "{damaged}");
        }
    }
}
