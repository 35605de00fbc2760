//! The keys that sign tokens: one current, some previous, some withdrawn.

use std::{collections::BTreeSet, fmt, sync::Arc};

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

use crate::invalid::Invalid;

/// Shortest secret, in bytes: as many as the signature has.
pub const SECRET_BYTES_MIN: usize = 32;
/// Previous keys of one ring: tokens are short-lived, so one or two overlap.
pub const KEYS_MAX: usize = 8;

/// Withdrawn ids of one ring; a token outlives its key by days, not by years.
const REVOKED_MAX: usize = 64;
/// Longest key id, in bytes: a date and a serial number fit.
const KEY_ID_BYTES_MAX: usize = 32;
/// Words of secrets that came from a page of documentation.
const EXAMPLES: &[&str] =
    &["changeme", "change-me", "change_me", "example", "insecure", "password", "secret", "sample"];
/// Random bytes, and random hex digits too, have more different ones.
const DISTINCT_BYTES_MIN: usize = 8;

/// An HMAC on its way.
pub(super) type KeySign = Hmac<Sha256>;

/// Names a key; it is written into each token that the key signs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Reads an id of 1–32 characters from `a`–`z`, `0`–`9`, `_` and `-`.
    ///
    /// # Errors
    /// [`Invalid`] says which rule the text breaks.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if text.is_empty() || text.len() > KEY_ID_BYTES_MAX || !text.bytes().all(legal) {
            let rule = "must be 1 to 32 characters from a-z, 0-9, '_' and '-'";
            return Err(Invalid::new("token key id", rule));
        }
        Ok(Self(Arc::from(text)))
    }

    /// The id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A key that signs tokens. The secret itself is not kept, only the state that it leads to.
#[derive(Clone)]
pub struct TokenKey {
    id: KeyId,
    ready: KeySign,
}

impl TokenKey {
    /// A key of at least 32 random bytes, or of their hex or base64 text.
    ///
    /// # Errors
    /// [`Invalid`] if the secret is missing, short, patterned, or one from an example.
    pub fn new(id: KeyId, secret: &[u8]) -> Result<Self, Invalid> {
        check_secret(secret)?;
        let ready = KeySign::new_from_slice(secret)
            .map_err(|_| Invalid::new("token secret", "has a length that HMAC cannot take"))?;
        Ok(Self { id, ready })
    }

    /// Its name.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    pub(super) fn sign(&self) -> KeySign {
        self.ready.clone()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({}, ***)", self.id.as_str())
    }
}

/// Refuses a secret that others could guess: a short one, one from an example, or a pattern.
///
/// # Errors
/// [`Invalid`] says what is wrong with it, and never shows it.
pub fn check_secret(secret: &[u8]) -> Result<(), Invalid> {
    let refuse = |rule| Err(Invalid::new("secret", rule));
    if secret.len() < SECRET_BYTES_MIN {
        return refuse("is shorter than 32 bytes; make one from 32 random bytes");
    }
    let text = String::from_utf8_lossy(secret).to_lowercase();
    if EXAMPLES.iter().any(|word| text.contains(word)) {
        return refuse("is one from an example; make one from 32 random bytes");
    }
    let distinct = secret.iter().collect::<BTreeSet<_>>().len();
    if distinct < DISTINCT_BYTES_MIN || repeats(secret) || counts(secret) {
        return refuse("follows a pattern; make one from 32 random bytes");
    }
    Ok(())
}

/// Whether the bytes are a shorter text written again and again.
fn repeats(secret: &[u8]) -> bool {
    let shifts = 1..=secret.len() / 2;
    shifts
        .into_iter()
        .any(|shift| secret.iter().zip(secret.iter().skip(shift)).all(|(a, b)| a == b))
}

/// Whether each byte is as far from the one before as the next from it: 1, 2, 3, …
fn counts(secret: &[u8]) -> bool {
    let pairs = secret.iter().zip(secret.iter().skip(1));
    pairs.map(|(a, b)| b.wrapping_sub(*a)).collect::<BTreeSet<_>>().len() == 1
}

/// Which keys are good: the current one signs, previous ones are still believed, withdrawn ones
/// are not.
#[derive(Clone, Debug)]
pub struct Keyring {
    current: TokenKey,
    previous: Vec<TokenKey>,
    revoked: BTreeSet<KeyId>,
}

/// What a ring says about a key id.
pub(super) enum Standing<'a> {
    Good(&'a TokenKey),
    Revoked,
    Unknown,
}

impl Keyring {
    /// A ring of one key.
    pub fn new(current: TokenKey) -> Self {
        Self { current, previous: Vec::new(), revoked: BTreeSet::new() }
    }

    /// A ring that also believes `previous` keys and refuses `revoked` ids.
    ///
    /// # Errors
    /// [`Invalid`] if two keys share an id, if the current one is revoked, or if there are more
    /// than 8 previous keys or 64 revoked ids.
    pub fn with(
        current: TokenKey,
        previous: Vec<TokenKey>,
        revoked: Vec<KeyId>,
    ) -> Result<Self, Invalid> {
        let refuse = |rule| Err(Invalid::new("token keyring", rule));
        if previous.len() > KEYS_MAX || revoked.len() > REVOKED_MAX {
            return refuse("has more than 8 previous keys or 64 revoked ids; drop the oldest");
        }
        let ids: BTreeSet<_> =
            std::iter::once(&current).chain(&previous).map(TokenKey::id).collect();
        if ids.len() <= previous.len() {
            return refuse("has two keys of one id; give each its own");
        }
        if revoked.contains(&current.id) {
            return refuse("signs with a key that is revoked; make another one current");
        }
        Ok(Self { current, previous, revoked: revoked.into_iter().collect() })
    }

    pub(super) fn current(&self) -> &TokenKey {
        &self.current
    }

    /// A withdrawn key is not asked: who stole it could sign anything.
    pub(super) fn standing(&self, id: &str) -> Standing<'_> {
        if self.revoked.iter().any(|revoked| revoked.as_str() == id) {
            return Standing::Revoked;
        }
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        keys.find(|key| key.id.as_str() == id).map_or(Standing::Unknown, Standing::Good)
    }
}
