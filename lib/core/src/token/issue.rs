//! Issues tokens and judges those that come back.

use std::{
    cmp, fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use super::{
    form::{self, Binding, Content, Sealed, Token},
    keyring::{Keyring, Standing},
    rate::{Buckets, Rate, USERS_MAX},
};
use crate::{
    engine::Policy,
    error::{Error, Kind},
    id::RequestKey,
    invalid::Invalid,
    record::{State, Status},
    store::Found,
    time::Timestamp,
};

/// How far ahead of the store's clock an issue time may be: two stores of one fail-over differ.
pub const SKEW_MAX: Duration = Duration::from_secs(60);

/// Longest life: what is kept longer is a business key, not a token.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    life: Duration,
    buffer: Duration,
}

impl Validity {
    /// Good for `life`; for `buffer` after that it still finds its first result.
    ///
    /// # Errors
    /// [`Invalid`] if there is no life, or if both together are over 7 days.
    pub fn new(life: Duration, buffer: Duration) -> Result<Self, Invalid> {
        if life.is_zero() {
            return Err(Invalid::new("token life", "is zero; give it some minutes"));
        }
        if life.saturating_add(buffer) > LIFE_MAX {
            let rule = "is over 7 days with its buffer; shorten it or use a business key";
            return Err(Invalid::new("token life", rule));
        }
        Ok(Self { life, buffer })
    }

    /// Refuses an operation that forgets its results before the last repeat of a token can come.
    ///
    /// Call it at start-up for each operation that takes tokens.
    ///
    /// # Errors
    /// [`Invalid`] says what to raise.
    pub fn check(&self, policy: &Policy) -> Result<(), Invalid> {
        match policy.retention.keep {
            Some(keep) if keep < self.life + self.buffer => Err(Invalid::new(
                "policy",
                "keeps outcomes for a shorter time than a token lives with its buffer; \
                 raise `retain` or shorten the token's life",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Default for Validity {
    /// Half an hour to fill in a page, and five minutes for a request that is on its way.
    fn default() -> Self {
        Self { life: Duration::from_secs(30 * 60), buffer: Duration::from_secs(5 * 60) }
    }
}

/// Whether there is a token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller gets one, waits, or slows down")]
pub enum Issue {
    /// Here it is.
    Token {
        /// For the user.
        token: Token,
        /// When it stops starting anything, by the store's clock.
        expires_at: Timestamp,
    },
    /// A request on this object is not over: a second key could run it twice.
    Unfinished {
        /// When another look is worth it.
        retry_after: Duration,
    },
    /// This user asked too often.
    TooMany {
        /// When there is one again.
        retry_after: Duration,
    },
}

/// What a genuine token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it may start something or it may not")]
pub enum Checked {
    /// Claim with this key.
    Fresh(RequestKey),
    /// Expired a moment ago: it finds what it started and starts nothing new.
    Late(RequestKey),
}

impl Checked {
    /// The key, to look at its record with.
    pub fn key(&self) -> &RequestKey {
        match self {
            Self::Fresh(key) | Self::Late(key) => key,
        }
    }

    /// The key to claim with, given the key's record as it was found.
    ///
    /// # Errors
    /// [`Refused::Expired`] if the token is late and has started nothing.
    pub fn admit(self, found: &Found) -> Result<RequestKey, Refused> {
        match self {
            Self::Fresh(key) => Ok(key),
            Self::Late(key) => {
                let begun = found.record.as_ref().is_some_and(|record| {
                    record.state != State::Open && !record.is_reusable(found.now)
                });
                if begun { Ok(key) } else { Err(Refused::Expired) }
            }
        }
    }
}

/// Why a token is refused. Nothing was used up. A consumed token is not refused: its record
/// answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No token of ours: malformed, wrongly signed, or from a time that has not come.
    #[error("the token was never issued; ask for a new one")]
    Forged,
    /// Its time is over, for ever.
    #[error("the token has expired; ask for a new one")]
    Expired,
    /// Issued, but for another tenant, operation, object, user or session. Worth an alarm.
    #[error("the token was issued for somebody or something else; ask for your own")]
    Foreign,
    /// Signed with a key that was withdrawn.
    #[error("the token was withdrawn; ask for a new one")]
    Revoked,
}

impl Refused {
    /// The stable word for the refusal, as metrics label it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forged => "forged",
            Self::Expired => "expired",
            Self::Foreign => "foreign",
            Self::Revoked => "revoked",
        }
    }
}

/// Issues and checks tokens.
///
/// ```
/// use hapax_core::{
///     BusinessKey, OperationName, Principal, Tenant, Timestamp,
///     store::Found,
///     token::{Binding, Checked, Issue, KeyId, Keyring, Refused, Session, TokenKey, Tokens},
/// };
///
/// # let mut secret = [0; 32];
/// # for (at, byte) in (0_u8..).zip(&mut secret) { *byte = at.wrapping_mul(at) ^ 0x5A; }
/// let tokens = Tokens::new(Keyring::new(TokenKey::new(KeyId::parse("2026-10")?, &secret)?));
/// let binding = Binding {
///     tenant: Tenant::parse("shop")?,
///     operation: OperationName::parse("payment.create")?,
///     object: BusinessKey::of(&["1001"])?,
///     user: Principal::parse("ann")?,
///     session: Session::parse("the session cookie")?,
/// };
///
/// // `over` is what the store says about this operation on this object, and the store's time.
/// let over = Found { record: None, now: Timestamp::from_millis(1_790_000_000_000) };
/// let Issue::Token { token, .. } = tokens.issue(&binding, &over)? else { panic!("no token") };
///
/// let checked = tokens.check(token.as_str(), &binding, over.now);
/// assert!(matches!(checked, Ok(Checked::Fresh(_))));
/// let thief = Binding { user: Principal::parse("bob")?, ..binding };
/// assert_eq!(tokens.check(token.as_str(), &thief, over.now), Err(Refused::Foreign));
/// # Ok::<_, hapax_core::Error>(())
/// ```
pub struct Tokens {
    validity: Validity,
    keyring: RwLock<Arc<Keyring>>,
    buckets: Mutex<Buckets>,
}

impl Tokens {
    /// Tokens of the default validity and rate.
    pub fn new(keyring: Keyring) -> Self {
        Self::with(keyring, Validity::default(), Rate::default())
    }

    /// Tokens of this validity, handed out at this rate to each user.
    pub fn with(keyring: Keyring, validity: Validity, rate: Rate) -> Self {
        Self {
            validity,
            keyring: RwLock::new(Arc::new(keyring)),
            buckets: Mutex::new(Buckets::new(rate, USERS_MAX)),
        }
    }

    /// How long its tokens are good.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Signs with another ring from now on. Tokens of its previous keys stay good.
    pub fn rotate(&self, keyring: Keyring) {
        // Assigning leaves nothing half done.
        *self.keyring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keyring);
    }

    /// Makes a token for this use.
    ///
    /// `over` is the record of the operation on this object, if it has one, as the store has just
    /// found it: its time is the issue time, and no token is handed out over unfinished work.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if the machine has no random bytes.
    pub fn issue(&self, binding: &Binding, over: &Found) -> Result<Issue, Error> {
        if let Some(retry_after) = unfinished(over) {
            return Ok(Issue::Unfinished { retry_after });
        }
        let allowed = {
            let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
            buckets.take(&binding.tenant, &binding.user, over.now)
        };
        if let Err(retry_after) = allowed {
            return Ok(Issue::TooMany { retry_after });
        }
        let expires_at = over.now.plus(self.validity.life);
        let content = Content { id: random_id()?, issued_at: over.now, expires_at };
        let token = form::seal(self.keyring().current(), &content, binding);
        Ok(Issue::Token { token, expires_at })
    }

    /// Judges a token that came in for this use at the store's `now`.
    ///
    /// # Errors
    /// [`Refused`] says why it starts nothing. Nothing is used up, whoever brought it.
    pub fn check(&self, text: &str, binding: &Binding, now: Timestamp) -> Result<Checked, Refused> {
        let sealed = Sealed::read(text).ok_or(Refused::Forged)?;
        let keyring = self.keyring();
        let key = match keyring.standing(sealed.key_id) {
            Standing::Good(key) => key,
            Standing::Revoked => return Err(Refused::Revoked),
            Standing::Unknown => return Err(Refused::Forged),
        };
        if !sealed.is_signed_by(key) {
            return Err(Refused::Forged);
        }
        if !sealed.is_bound_to(key, binding) {
            return Err(Refused::Foreign);
        }
        let content = sealed.content;
        if content.issued_at > now.plus(SKEW_MAX) {
            return Err(Refused::Forged);
        }
        // A token from before a deploy obeys the shorter of the two lives: the records are kept
        // for today's.
        let expires_at = cmp::min(content.expires_at, content.issued_at.plus(self.validity.life));
        let id = uuid::Uuid::from_bytes(content.id).to_string();
        let key = RequestKey::parse(&id).map_err(|_| Refused::Forged)?;
        if now < expires_at {
            Ok(Checked::Fresh(key))
        } else if now < expires_at.plus(self.validity.buffer) {
            Ok(Checked::Late(key))
        } else {
            Err(Refused::Expired)
        }
    }

    fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("validity", &self.validity).finish_non_exhaustive()
    }
}

/// A request whose end nobody knows counts as one that runs: it may yet have its effect.
fn unfinished(over: &Found) -> Option<Duration> {
    const LOOK_AGAIN: Duration = Duration::from_secs(1);
    let record = over.record.as_ref().filter(|record| !record.is_reusable(over.now))?;
    match record.status(over.now) {
        Status::Running => Some(record.lease_until.since(over.now)),
        Status::Abandoned | Status::Unknown => Some(LOOK_AGAIN),
        Status::Open | Status::Completed | Status::Expired => None,
    }
}

/// The bytes of a UUID v4, from the machine's random source and from nothing else.
fn random_id() -> Result<[u8; 16], Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::caused(Kind::Unavailable, "draw random bytes", cause))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes())
}
