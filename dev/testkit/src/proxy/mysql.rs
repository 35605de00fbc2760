//! The protocol of MySQL and MariaDB.

use std::collections::HashMap;

use anyhow::Result;

use super::{
    Request,
    wire::{Down, Protocol, Up},
};

const QUIT: u8 = 0x01;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const LONG_DATA: u8 = 0x18;
const CLOSE: u8 = 0x19;
/// First byte of an answer that is no error.
const OK: u8 = 0x00;
/// A packet of this length goes on in the next one.
const LENGTH_MAX: usize = 0xff_ff_ff;

/// One session: its prepared statements by number.
#[derive(Debug, Default)]
pub(super) struct Session {
    statements: HashMap<u32, String>,
    awaited: Awaited,
    /// The client's packet goes on.
    goes_on: bool,
}

/// The answer that is due.
#[derive(Debug, Default)]
enum Awaited {
    #[default]
    Nothing,
    Any,
    /// The number of this statement.
    Number(String),
}

impl Protocol for Session {
    fn up(&mut self, bytes: &[u8]) -> Result<Option<Up>> {
        let Some((sequence, body, length)) = packet(bytes) else { return Ok(None) };
        let mut up = Up { length, ..Up::default() };
        let continues = std::mem::replace(&mut self.goes_on, body.len() == LENGTH_MAX);
        // The greeting's packets are numbered on; a command begins with zero.
        let command = if continues || sequence != 0 { None } else { body.split_first() };
        let Some((command, body)) = command else { return Ok(Some(up)) };
        let text = || String::from_utf8_lossy(body).into_owned();
        match *command {
            QUIT | CLOSE | LONG_DATA => return Ok(Some(up)),
            PREPARE => {
                self.awaited = Awaited::Number(text());
                up.prepares = true;
            }
            other => {
                self.awaited = Awaited::Any;
                up.request = match other {
                    QUERY => Some(Request::sql(text())),
                    EXECUTE => {
                        let statement = number(body).and_then(|id| self.statements.get(&id));
                        Some(Request::sql(statement.cloned().unwrap_or_default()))
                    }
                    _ => None,
                };
            }
        }
        up.asks = true;
        Ok(Some(up))
    }

    fn down(&mut self, bytes: &[u8]) -> Result<Option<Down>> {
        let Some((_, body, length)) = packet(bytes) else { return Ok(None) };
        // The first packet of an answer tells that the command is done, as far as it changes data.
        let closes = match std::mem::take(&mut self.awaited) {
            Awaited::Nothing => false,
            Awaited::Any => true,
            Awaited::Number(statement) => {
                if let Some((&OK, rest)) = body.split_first()
                    && let Some(id) = number(rest)
                {
                    self.statements.insert(id, statement);
                }
                true
            }
        };
        Ok(Some(Down { length, closes }))
    }
}

/// Sequence number, body and length of the first packet.
fn packet(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let [low, middle, high, sequence] = *bytes.first_chunk()?;
    let length = u32::from_le_bytes([low, middle, high, 0]);
    let body = bytes.get(4..4 + usize::try_from(length).ok()?)?;
    Some((sequence, body, body.len() + 4))
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_le_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [&length[..3], &[sequence], body].concat()
    }

    fn up(session: &mut Session, bytes: &[u8]) -> Up {
        assert!(session.up(&bytes[..bytes.len() - 1]).unwrap().is_none());
        session.up(bytes).unwrap().unwrap()
    }

    #[test]
    fn the_greeting_asks_for_nothing() {
        let mut session = Session::default();
        assert!(!session.down(&packet(0, b"\x0a10.11")).unwrap().unwrap().closes);
        assert!(!up(&mut session, &packet(1, b"\x03hapax")).asks);
        assert!(!session.down(&packet(2, b"\0")).unwrap().unwrap().closes);
    }

    #[test]
    fn an_execution_has_the_text_of_its_statement() {
        let mut session = Session::default();
        assert!(up(&mut session, &packet(0, b"\x16-- find\nSELECT 1")).prepares);
        assert!(session.down(&packet(1, b"\0\x07\0\0\0\0\0")).unwrap().unwrap().closes);
        let execute = up(&mut session, &packet(0, b"\x17\x07\0\0\0\0"));
        assert_eq!(execute.request.unwrap().kind, "find");
        assert!(!up(&mut session, &packet(0, b"\x19\x07\0\0\0")).asks);
    }

    #[test]
    fn a_query_is_answered_once() {
        let mut session = Session::default();
        assert_eq!(up(&mut session, &packet(0, b"\x03COMMIT")).request.unwrap().kind, "COMMIT");
        assert!(session.down(&packet(1, b"\0\0")).unwrap().unwrap().closes);
        assert!(!session.down(&packet(2, b"row")).unwrap().unwrap().closes);
    }
}
