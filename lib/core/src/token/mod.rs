//! Tokens: keys that we issue, sign and bind.
//!
//! A token *is* a key. Checked, it yields the [`RequestKey`](crate::RequestKey) to claim with, and
//! the claim is what consumes it: in one atomic step of the store, so that there is no moment
//! between "consumed" and "claimed". What was consumed is told by the record: a repeat finds the
//! first one's result. Whether that is called a one-time or a kept token is the retention of the
//! operation and nothing else.
//!
//! Invariant: what was not issued here, or was issued to somebody else, starts nothing and uses
//! nothing up (`a_token_with_any_other_byte_is_refused`, `each_part_of_the_binding_is_judged`);
//! and a token never outlives the record of its first use (`a_retention_below_the_life_is_refused`,
//! `a_shorter_life_holds_for_tokens_that_are_out`).

mod form;
mod issue;
mod keyring;
mod rate;
#[cfg(test)]
mod tests;

pub use self::{
    form::{Binding, Session, TOKEN_BYTES_MAX, Token},
    issue::{Checked, Issue, Refused, SKEW_MAX, Tokens, Validity},
    keyring::{KEYS_MAX, KeyId, Keyring, SECRET_BYTES_MIN, TokenKey, check_secret},
    rate::{Rate, USERS_MAX},
};
