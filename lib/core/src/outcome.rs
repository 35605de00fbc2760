//! The stored answer of an operation.
//!
//! Invariant: an outcome that was written by any released version can be read by every later one
//! (`the_first_format_is_read_for_ever`). Two bytes are reserved for encryption and compression.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::invalid::Invalid;

/// Largest answer that is stored whole, by default. Larger ones become a tombstone: the operation
/// counts as done, the answer is fetched by reference.
pub const OUTCOME_BYTES_MAX: usize = 256 * 1024;

/// Longest reference in a tombstone, in bytes; a URL fits.
pub const REFERENCE_BYTES_MAX: usize = 2048;

const FORMAT: u8 = 1;
const PLAIN: u8 = 0;
const VALUE: u8 = 1;
const TOMBSTONE: u8 = 2;
/// `[format | algorithm | key id | kind]`.
const HEAD_BYTES: usize = 4;

/// What an operation answered: the bytes themselves, or the place where they can be had.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the answer is here or elsewhere")]
pub enum Outcome {
    /// The whole answer, in a form that only its writer reads.
    Value(Bytes),
    /// Done, but the answer was too large to keep; a reference says where it can be had.
    Tombstone(Bytes),
}

impl Outcome {
    /// Keeps `answer` if it fits into `bytes_max`, else only `reference` (cut at 2048 bytes).
    pub fn bounded(answer: Bytes, reference: &[u8], bytes_max: usize) -> Self {
        if answer.len() <= bytes_max {
            return Self::Value(answer);
        }
        let reference = reference.get(..REFERENCE_BYTES_MAX).unwrap_or(reference);
        Self::Tombstone(Bytes::copy_from_slice(reference))
    }

    /// The stored form.
    pub fn to_stored(&self) -> Bytes {
        let (kind, payload) = match self {
            Self::Value(payload) => (VALUE, payload),
            Self::Tombstone(payload) => (TOMBSTONE, payload),
        };
        let mut stored = BytesMut::with_capacity(HEAD_BYTES + payload.len());
        stored.put_slice(&[FORMAT, PLAIN, 0, kind]);
        stored.put_slice(payload);
        stored.freeze()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`Invalid`] if a newer version wrote it, or if it is torn.
    pub fn from_stored(stored: &Bytes) -> Result<Self, Invalid> {
        let Some(head) = stored.first_chunk::<HEAD_BYTES>() else {
            return Err(Invalid::new("stored outcome", "is shorter than its head"));
        };
        let payload = stored.slice(HEAD_BYTES..);
        match *head {
            [FORMAT, PLAIN, _, VALUE] => Ok(Self::Value(payload)),
            [FORMAT, PLAIN, _, TOMBSTONE] => Ok(Self::Tombstone(payload)),
            _ => Err(Invalid::new("stored outcome", "was written by a newer version; upgrade")),
        }
    }
}

impl fmt::Debug for Outcome {
    /// Sizes only: an answer may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(bytes) => write!(f, "Value({} bytes)", bytes.len()),
            Self::Tombstone(bytes) => write!(f, "Tombstone({} bytes)", bytes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_format_is_read_for_ever() {
        let value = Bytes::from_static(&[1, 0, 0, 1, b'o', b'k']);
        assert_eq!(Outcome::from_stored(&value), Ok(Outcome::Value(Bytes::from_static(b"ok"))));
        let tombstone = Bytes::from_static(&[1, 0, 0, 2, b'/', b'x']);
        let expected = Outcome::Tombstone(Bytes::from_static(b"/x"));
        assert_eq!(Outcome::from_stored(&tombstone), Ok(expected));
    }

    #[test]
    fn an_outcome_of_a_newer_version_is_refused() {
        for stored in [&[2, 0, 0, 1][..], &[1, 1, 0, 1], &[1, 0, 0, 9], &[1, 0]] {
            assert!(Outcome::from_stored(&Bytes::copy_from_slice(stored)).is_err());
        }
    }

    #[test]
    fn an_answer_over_the_bound_leaves_a_tombstone() {
        let answer = Bytes::from(vec![b'x'; 11]);
        assert_eq!(Outcome::bounded(answer.clone(), b"/r", 11), Outcome::Value(answer.clone()));
        let tombstone = Outcome::Tombstone(Bytes::from_static(b"/r"));
        assert_eq!(Outcome::bounded(answer, b"/r", 10), tombstone);
    }
}
