//! Numbers of payments: unique for ever, ordered by time, fit for every channel.

use uuid::Uuid;

use crate::{channel::PaymentNo, error::Error};

/// Crockford's alphabet: digits and letters that are not taken for each other.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// A UUID in steps of five bits.
const DIGITS: u32 = 26;

/// A new payment number: `P` and 26 characters that hold a UUID of version 7.
pub(crate) fn payment_no() -> Result<PaymentNo, Error> {
    let id = Uuid::now_v7().as_u128();
    let digits = (0..DIGITS).rev().map(|digit| {
        let index = usize::try_from((id >> (5 * digit)) & 31).unwrap_or(0);
        char::from(ALPHABET.get(index).copied().unwrap_or(b'0'))
    });
    let text: String = std::iter::once('P').chain(digits).collect();
    PaymentNo::parse(&text).map_err(Error::corrupt)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_unique_ordered_and_fit_every_channel() {
        let numbers: Vec<_> = (0..10_000).map(|_| payment_no().unwrap()).collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        assert!(numbers.is_sorted());
        assert!(numbers.iter().all(|number| number.as_str().len() == 27));
    }
}
