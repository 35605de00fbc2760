//! What a protocol tells the relay about each piece of a conversation.

use anyhow::Result;

use super::Request;

/// One piece from the client.
#[derive(Debug, Default)]
pub(super) struct Up {
    /// Its bytes.
    pub(super) length: usize,
    /// The request that it makes.
    pub(super) request: Option<Request>,
    /// It asks for an answer, which ends with a piece that [closes](Down::closes) it.
    pub(super) asks: bool,
    /// It prepares a statement.
    pub(super) prepares: bool,
    /// It is answered here and the server does not see it.
    pub(super) reply: Option<&'static [u8]>,
}

/// One piece from the server.
#[derive(Debug, Default)]
pub(super) struct Down {
    /// Its bytes.
    pub(super) length: usize,
    /// It closes the oldest open answer: the server has done what was asked.
    pub(super) closes: bool,
}

/// Both directions of one connection.
pub(super) trait Protocol: Send {
    /// The first whole piece of what the client sent, if there is one.
    fn up(&mut self, bytes: &[u8]) -> Result<Option<Up>>;

    /// The first whole piece of what the server sent, if there is one.
    fn down(&mut self, bytes: &[u8]) -> Result<Option<Down>>;
}

/// Bytes of which nobody knows the meaning.
pub(super) struct Raw;

impl Protocol for Raw {
    fn up(&mut self, bytes: &[u8]) -> Result<Option<Up>> {
        Ok(whole(bytes).map(|length| Up { length, ..Up::default() }))
    }

    fn down(&mut self, bytes: &[u8]) -> Result<Option<Down>> {
        Ok(whole(bytes).map(|length| Down { length, closes: false }))
    }
}

/// All of it, if there is any.
pub(super) fn whole(bytes: &[u8]) -> Option<usize> {
    (!bytes.is_empty()).then_some(bytes.len())
}

/// Text up to a zero byte, and what follows it.
pub(super) fn text(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    (String::from_utf8_lossy(text).into_owned(), rest.get(1..).unwrap_or_default())
}
