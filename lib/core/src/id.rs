//! What "the same business" is: typed names and keys, and the 32 bytes they are known by.
//!
//! Invariant: an [`Id`] is made from a whole [`Identity`] and from nothing less, so that two
//! tenants, two principals or two operations can never share a record
//! (`distinct_identities_never_share_an_id`).

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};

use crate::invalid::Invalid;

/// Longest tenant, principal or channel name, in bytes. Fits every index of every engine.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest operation name, in bytes. A name is typed by people and shown in metrics.
pub const OPERATION_BYTES_MAX: usize = 64;
/// Longest key, in bytes: what Stripe and most gateways accept.
pub const KEY_BYTES_MAX: usize = 255;

/// Domain of the id hash. Changing what goes into an id means a new domain.
const ID_DOMAIN: &[u8] = b"hapax.id.v1";
/// Domain of keys that are derived for downstream receivers.
const CHILD_DOMAIN: &[u8] = b"hapax.child.v1";

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads a name of 1–128 bytes without control characters.
            ///
            /// # Errors
            /// [`Invalid`] says which rule the text breaks.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check_name($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The customer whose business this is. Every identity belongs to one.
    Tenant, "tenant"
);
name!(
    /// A stable subject inside a tenant: a user or account id, never a token, session or API key.
    Principal, "principal"
);
name!(
    /// A party that calls back with keys of its own, such as a payment channel.
    Channel, "channel"
);
name!(
    /// Who acts: the caller of a claim or the operator of a settlement. Shown, never judged.
    Actor, "actor"
);

impl Actor {
    /// The name of a process that was given none.
    pub(crate) fn this_process() -> Self {
        Self(Arc::from(format!("process {}", std::process::id())))
    }
}

fn check_name(what: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(what, "is empty; give it at least one character"));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(Invalid::new(what, "is longer than 128 bytes; shorten it"));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(what, "has a control character; remove it"));
    }
    Ok(())
}

/// The declared, stable name of an operation: never a route and never a function path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationName(Arc<str>);

impl OperationName {
    /// Reads a name of 1–64 characters from `a`–`z`, `0`–`9`, `.`, `_` and `-`.
    ///
    /// # Errors
    /// [`Invalid`] says which rule the text breaks.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        if text.is_empty() || text.len() > OPERATION_BYTES_MAX || !text.bytes().all(legal) {
            let rule = "must be 1 to 64 characters from a-z, 0-9, '.', '_' and '-'";
            return Err(Invalid::new("operation name", rule));
        }
        Ok(Self(Arc::from(text)))
    }

    /// The name as it was declared.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads a key of 1–255 visible ASCII characters.
            ///
            /// # Errors
            /// [`Invalid`] says which rule the text breaks; the key itself is not repeated.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check_key(text)?;
                Ok(Self(Arc::from(text)))
            }

            /// Joins business ids into one key, such as user, product and date.
            ///
            /// Injective: other parts, or the same parts cut elsewhere, give another key. Parts
            /// may hold any text; what is not visible ASCII is percent-encoded.
            ///
            /// # Errors
            /// [`Invalid`] if there are no parts or the joined key is over 255 bytes.
            pub fn of(parts: &[&str]) -> Result<Self, Invalid> {
                let joined = parts.iter().map(|part| escape(part)).collect::<Vec<_>>().join("/");
                Self::parse(&joined)
            }

            /// The key as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            /// Keys are secrets of their callers: only the length is shown.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({} bytes)"), self.0.len())
            }
        }
    };
}

key!(
    /// A key that a client made for one intended request (`Idempotency-Key`).
    RequestKey
);
key!(
    /// A key made of business ids, such as an order number. It lives in the tenant's scope.
    BusinessKey
);
key!(
    /// A key that a channel made, such as `trade_no` or `notify_id`.
    ChannelKey
);

fn check_key(text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new("key", "is empty; send 1 to 255 visible ASCII characters"));
    }
    if text.len() > KEY_BYTES_MAX {
        return Err(Invalid::new("key", "is longer than 255 bytes; shorten it"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let rule = "has a blank, control or non-ASCII character; use visible ASCII only";
        return Err(Invalid::new("key", rule));
    }
    Ok(())
}

/// Percent-encodes what is not visible ASCII, the joint `/` and the sign `%` itself.
fn escape(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_graphic() && byte != b'/' && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 0x0F));
        }
    }
    text
}

/// Reads exactly `N` bytes from hex digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => (high << 4) | low,
            _ => 0,
        })
        .collect();
    (digits.len() == 2 * N).then_some(())?;
    bytes.try_into().ok()
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

/// Whose business a key belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the scope kinds are part of the id and complete")]
pub enum Scope {
    /// Business keys: one order is one order for the whole tenant.
    Tenant(Tenant),
    /// Request keys: a client's keys are its own.
    Principal(Tenant, Principal),
    /// Channel keys: what a channel numbers.
    Channel(Tenant, Channel),
}

impl Scope {
    /// The stable word for the kind of scope; part of the id.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenant",
            Self::Principal(..) => "principal",
            Self::Channel(..) => "channel",
        }
    }

    /// The tenant, whatever the kind.
    pub fn tenant(&self) -> &Tenant {
        match self {
            Self::Tenant(tenant) | Self::Principal(tenant, _) | Self::Channel(tenant, _) => tenant,
        }
    }

    /// The principal or channel; empty for the tenant's own scope.
    pub fn subject(&self) -> &str {
        match self {
            Self::Tenant(_) => "",
            Self::Principal(_, principal) => principal.as_str(),
            Self::Channel(_, channel) => channel.as_str(),
        }
    }

    /// Reads a scope back from its stored parts.
    ///
    /// # Errors
    /// [`Invalid`] if the kind is unknown or a part breaks its rule.
    pub fn from_parts(kind: &str, tenant: &str, subject: &str) -> Result<Self, Invalid> {
        let tenant = Tenant::parse(tenant)?;
        match kind {
            "tenant" => Ok(Self::Tenant(tenant)),
            "principal" => Ok(Self::Principal(tenant, Principal::parse(subject)?)),
            "channel" => Ok(Self::Channel(tenant, Channel::parse(subject)?)),
            _ => Err(Invalid::new("scope kind", "is none of tenant, principal and channel")),
        }
    }
}

/// The readable parts of a record: what an operator sees and what the id is made of.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    scope: Scope,
    operation: OperationName,
    key: Arc<str>,
}

impl Identity {
    /// Names one business object of a tenant.
    ///
    /// A key of another kind does not fit:
    /// ```compile_fail
    /// use hapax_core::{ChannelKey, Identity, OperationName, Tenant};
    /// let operation = OperationName::parse("order.create").unwrap();
    /// let key = ChannelKey::parse("2026100122001").unwrap();
    /// Identity::business(Tenant::parse("shop").unwrap(), operation, key);
    /// ```
    pub fn business(tenant: Tenant, operation: OperationName, key: BusinessKey) -> Self {
        Self { scope: Scope::Tenant(tenant), operation, key: key.0 }
    }

    /// Names one intended request of a principal.
    pub fn request(
        tenant: Tenant,
        principal: Principal,
        operation: OperationName,
        key: RequestKey,
    ) -> Self {
        Self { scope: Scope::Principal(tenant, principal), operation, key: key.0 }
    }

    /// Names one event of a channel.
    pub fn channel(
        tenant: Tenant,
        channel: Channel,
        operation: OperationName,
        key: ChannelKey,
    ) -> Self {
        Self { scope: Scope::Channel(tenant, channel), operation, key: key.0 }
    }

    /// Reads an identity back from its stored parts.
    ///
    /// # Errors
    /// [`Invalid`] if the key breaks the rule for keys.
    pub fn from_parts(scope: Scope, operation: OperationName, key: &str) -> Result<Self, Invalid> {
        check_key(key)?;
        Ok(Self { scope, operation, key: Arc::from(key) })
    }

    /// Whose business it is.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What is done.
    pub fn operation(&self) -> &OperationName {
        &self.operation
    }

    /// The key text. Show it to operators only; it never belongs in a log.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The 32 bytes under which a store keeps the record.
    pub fn id(&self) -> Id {
        let mut hash = Framed::new(ID_DOMAIN);
        hash.part(self.scope.kind().as_bytes());
        hash.part(self.scope.tenant().as_str().as_bytes());
        hash.part(self.scope.subject().as_bytes());
        hash.part(self.operation.as_str().as_bytes());
        hash.part(self.key.as_bytes());
        Id(hash.finish())
    }
}

impl fmt::Debug for Identity {
    /// Leaves the key out: it must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("scope", &self.scope)
            .field("operation", &self.operation)
            .finish_non_exhaustive()
    }
}

/// The only unique arbiter: SHA-256 over the length-framed parts of an [`Identity`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id([u8; 32]);

impl Id {
    /// Reads an id that a store kept. New ids come from [`Identity::id`] alone.
    pub fn from_stored(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the 64 hex digits that [`hex`](Self::hex) shows, as operators type them.
    ///
    /// # Errors
    /// [`Invalid`] if it is anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        from_hex(text).map(Self).ok_or_else(|| Invalid::new("id", "must be 64 hex digits"))
    }

    /// The bytes of the unique column.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight hex digits: enough to find a record, too few to guess a key.
    pub fn short(&self) -> String {
        self.hex().chars().take(8).collect()
    }

    /// All 64 hex digits, for operators and their tools.
    pub fn hex(&self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0x0F]);
        digits.map(hex_digit).collect()
    }

    /// A key for a downstream receiver: stable over attempts, different for each step.
    ///
    /// Made from the id and never from the epoch, so that a take-over sends the same key.
    pub fn child_key(&self, step: &str) -> String {
        let mut hash = Framed::new(CHILD_DOMAIN);
        hash.part(&self.0);
        hash.part(step.as_bytes());
        Self(hash.finish()).hex().chars().take(32).collect()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.short())
    }
}

/// SHA-256 over parts that are framed by their length, so that no two lists of parts collide.
pub(crate) struct Framed(Sha256);

impl Framed {
    pub(crate) fn new(domain: &[u8]) -> Self {
        let mut framed = Self(Sha256::new());
        framed.part(domain);
        framed
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.0.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn tenant(text: &str) -> Tenant {
        Tenant::parse(text).unwrap()
    }

    #[test]
    fn the_id_of_a_known_identity_never_changes() {
        let operation = OperationName::parse("payment.create").unwrap();
        let identity =
            Identity::business(tenant("t1"), operation, BusinessKey::parse("1001").unwrap());
        assert_eq!(
            identity.id().hex(),
            "7d6487a8ec87294f6569fc3ab6819b4fa99238c19926e5b7dcebfc61915841c7",
            "a changed id makes every stored record unreachable"
        );
    }

    #[test]
    fn the_kind_of_scope_is_part_of_the_id() {
        let operation = OperationName::parse("op").unwrap();
        let ids: HashSet<_> = [
            Identity::business(tenant("t"), operation.clone(), BusinessKey::parse("k").unwrap()),
            Identity::request(
                tenant("t"),
                Principal::parse("p").unwrap(),
                operation.clone(),
                RequestKey::parse("k").unwrap(),
            ),
            Identity::channel(
                tenant("t"),
                Channel::parse("p").unwrap(),
                operation,
                ChannelKey::parse("k").unwrap(),
            ),
        ]
        .iter()
        .map(Identity::id)
        .collect();
        assert_eq!(ids.len(), 3);
    }

    #[test]
    fn keys_with_blanks_controls_or_foreign_letters_are_refused() {
        for text in ["", " ", "a b", "a\tb", "a\u{7f}", "ключ", "ａ", &"x".repeat(256)] {
            assert!(RequestKey::parse(text).is_err(), "{text:?} was accepted");
        }
        assert!(RequestKey::parse(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn a_key_never_shows_in_debug_output() {
        let key = RequestKey::parse("s3cret").unwrap();
        let operation = OperationName::parse("op").unwrap();
        let identity =
            Identity::request(tenant("t"), Principal::parse("p").unwrap(), operation, key.clone());
        assert!(!format!("{key:?}{identity:?}").contains("s3cret"));
    }

    proptest! {
        #[test]
        fn distinct_identities_never_share_an_id(
            a in prop::collection::vec("[a/%\u{e9} ]{0,3}", 1..4),
            b in prop::collection::vec("[a/%\u{e9} ]{0,3}", 1..4),
        ) {
            fn key(parts: &[String]) -> Option<BusinessKey> {
                BusinessKey::of(&parts.iter().map(String::as_str).collect::<Vec<_>>()).ok()
            }
            if let (Some(left), Some(right)) = (key(&a), key(&b)) {
                let operation = OperationName::parse("op").unwrap();
                let left = Identity::business(tenant("t"), operation.clone(), left);
                let right = Identity::business(tenant("t"), operation, right);
                prop_assert_eq!(a == b, left.id() == right.id());
            }
        }
    }
}
