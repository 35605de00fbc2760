//! Request parameters, the text that is signed and the bytes that are sent.
//!
//! Invariant: the signed text is sorted by key, never by `key=value`, with values as they are;
//! only the wire form is encoded; empty values are in neither. Held by the `request` vectors.

use std::fmt;

use form_urlencoded::Serializer;

use super::key::PrivateKey;

/// Parameters of a request, in the order in which they are sent.
#[derive(Clone, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more parameter; an empty value leaves it out.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push((key.to_owned(), value.to_owned()));
        }
        self
    }

    /// The text that is signed: all parameters sorted by key, undecorated, `sign_type` included.
    pub fn canonical(&self) -> String {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_key(|(key, _)| key);
        let pairs: Vec<_> = sorted.iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join("&")
    }

    /// The bytes to send, signed with `key`; nothing if the key cannot sign.
    pub fn signed(self, key: &PrivateKey) -> Option<String> {
        let signature = key.sign(self.canonical().as_bytes())?;
        Some(self.with("sign", &signature).wire())
    }

    fn wire(&self) -> String {
        Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}
