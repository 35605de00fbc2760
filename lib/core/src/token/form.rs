//! How a token looks on the wire, and what its signature covers.
//!
//! `hx1.<key id>.<128 letters of base64url>`; the letters are 96 bytes: id, issue and expiry time,
//! binding, signature. There is one way to write a token: padding and loose bits are refused.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::Mac;

use super::keyring::{KeySign, TokenKey};
use crate::{
    id::{BusinessKey, Framed, OperationName, Principal, Tenant},
    invalid::Invalid,
    time::Timestamp,
};

/// Longest token, in bytes: it may travel in a key header.
pub const TOKEN_BYTES_MAX: usize = 255;

/// Names the form. Another content or another signature means another prefix.
const PREFIX: &str = "hx1";
const TOKEN_DOMAIN: &[u8] = b"hapax.token.v1";
const BINDING_DOMAIN: &[u8] = b"hapax.token.binding.v1";
const SESSION_DOMAIN: &[u8] = b"hapax.token.session.v1";
const ID_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const MAC_BYTES: usize = 32;
/// Longest session text: a signed cookie fits.
const SESSION_BYTES_MAX: usize = 4096;

/// What a token is bound to. One that comes back with another part is foreign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whose business it is.
    pub tenant: Tenant,
    /// What is to be done.
    pub operation: OperationName,
    /// On which object, such as the order.
    pub object: BusinessKey,
    /// By whom.
    pub user: Principal,
    /// From where.
    pub session: Session,
}

/// A user's session, as a digest: the text itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Session([u8; 32]);

impl Session {
    /// The session that this text names, such as the value of the session cookie.
    ///
    /// # Errors
    /// [`Invalid`] if the text is empty or over 4096 bytes.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::new("session", "is empty; send what names the user's session"));
        }
        if text.len() > SESSION_BYTES_MAX {
            return Err(Invalid::new("session", "is longer than 4096 bytes; send its digest"));
        }
        let mut hash = Framed::new(SESSION_DOMAIN);
        hash.part(text.as_bytes());
        Ok(Self(hash.finish()))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(***)")
    }
}

/// An issued token. It is a secret of its user: shown by [`as_str`](Self::as_str) alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text for the user: visible ASCII, at most [`TOKEN_BYTES_MAX`].
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// What a token says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The 16 bytes of a UUID v4.
    pub(super) id: [u8; ID_BYTES],
    /// By the store's clock.
    pub(super) issued_at: Timestamp,
    /// By the store's clock.
    pub(super) expires_at: Timestamp,
}

/// A token as it came in: nothing in it is believed before its signature was checked.
pub(super) struct Sealed<'a> {
    pub(super) key_id: &'a str,
    pub(super) content: Content,
    binding: [u8; MAC_BYTES],
    mac: [u8; MAC_BYTES],
}

/// Writes and signs a token.
pub(super) fn seal(key: &TokenKey, content: &Content, binding: &Binding) -> Token {
    let bound = bind(key, binding).finalize().into_bytes();
    let mac = sign(key, content, &bound).finalize().into_bytes();
    let mut bytes = Vec::with_capacity(ID_BYTES + 2 * TIME_BYTES + 2 * MAC_BYTES);
    bytes.extend_from_slice(&content.id);
    bytes.extend_from_slice(&content.issued_at.as_millis().to_be_bytes());
    bytes.extend_from_slice(&content.expires_at.as_millis().to_be_bytes());
    bytes.extend_from_slice(&bound);
    bytes.extend_from_slice(&mac);
    Token(format!("{PREFIX}.{}.{}", key.id().as_str(), URL_SAFE_NO_PAD.encode(bytes)))
}

impl<'a> Sealed<'a> {
    /// Takes a token apart. `None`: this text is none.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (key_id, letters) = text.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
        let bytes = URL_SAFE_NO_PAD.decode(letters).ok()?;
        let (id, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
        let (issued_at, rest) = rest.split_first_chunk::<TIME_BYTES>()?;
        let (expires_at, rest) = rest.split_first_chunk::<TIME_BYTES>()?;
        let (binding, rest) = rest.split_first_chunk::<MAC_BYTES>()?;
        let mac = <[u8; MAC_BYTES]>::try_from(rest).ok()?;
        let moment = |bytes| Timestamp::from_millis(i64::from_be_bytes(bytes));
        let content =
            Content { id: *id, issued_at: moment(*issued_at), expires_at: moment(*expires_at) };
        Some(Self { key_id, content, binding: *binding, mac })
    }

    /// Whether `key` signed it. Takes the same time wherever they differ.
    pub(super) fn is_signed_by(&self, key: &TokenKey) -> bool {
        sign(key, &self.content, &self.binding).verify_slice(&self.mac).is_ok()
    }

    /// Whether it was issued for this use. Takes the same time wherever they differ.
    pub(super) fn is_bound_to(&self, key: &TokenKey, binding: &Binding) -> bool {
        bind(key, binding).verify_slice(&self.binding).is_ok()
    }
}

fn sign(key: &TokenKey, content: &Content, binding: &[u8]) -> KeySign {
    framed(
        key,
        TOKEN_DOMAIN,
        &[
            key.id().as_str().as_bytes(),
            &content.id,
            &content.issued_at.as_millis().to_be_bytes(),
            &content.expires_at.as_millis().to_be_bytes(),
            binding,
        ],
    )
}

/// Keyed, so that who holds a token cannot try out users and sessions on it.
fn bind(key: &TokenKey, binding: &Binding) -> KeySign {
    let Binding { tenant, operation, object, user, session } = binding;
    framed(
        key,
        BINDING_DOMAIN,
        &[
            tenant.as_str().as_bytes(),
            operation.as_str().as_bytes(),
            object.as_str().as_bytes(),
            user.as_str().as_bytes(),
            &session.0,
        ],
    )
}

/// Each part behind its length, so that no two lists of parts are signed alike.
fn framed(key: &TokenKey, domain: &[u8], parts: &[&[u8]]) -> KeySign {
    let mut mac = key.sign();
    for part in std::iter::once(&domain).chain(parts) {
        mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(part);
    }
    mac
}
