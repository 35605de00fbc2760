//! PostgreSQL's protocol, version 3.

use std::collections::HashMap;

use anyhow::{Context as _, Result};

use super::{
    Request,
    wire::{Down, Protocol, Up, text},
};

/// Codes in the place of a version, in the first message of a connection.
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
/// "Go on without".
const NO: &[u8] = b"N";

/// One session: its prepared statements and portals by name.
#[derive(Debug, Default)]
pub(super) struct Session {
    begun: bool,
    statements: HashMap<String, String>,
    portals: HashMap<String, String>,
}

impl Protocol for Session {
    fn up(&mut self, bytes: &[u8]) -> Result<Option<Up>> {
        if !self.begun {
            return Ok(self.begin(bytes));
        }
        let Some((kind, body, length)) = message(bytes)? else { return Ok(None) };
        let mut up = Up { length, ..Up::default() };
        match kind {
            b'Q' => {
                up.request = Some(Request::sql(text(body).0));
                up.asks = true;
            }
            b'P' => {
                let (name, rest) = text(body);
                self.statements.insert(name, text(rest).0);
                up.prepares = true;
            }
            b'B' => {
                let (portal, rest) = text(body);
                let statement = self.statements.get(&text(rest).0).cloned();
                self.portals.insert(portal, statement.unwrap_or_default());
            }
            b'E' => {
                let statement = self.portals.get(&text(body).0).cloned();
                up.request = Some(Request::sql(statement.unwrap_or_default()));
            }
            // Sync and function call.
            b'S' | b'F' => up.asks = true,
            _ => {}
        }
        Ok(Some(up))
    }

    fn down(&mut self, bytes: &[u8]) -> Result<Option<Down>> {
        let message = message(bytes)?;
        // "Ready for query": all before it is done, and committed if it was to be.
        Ok(message.map(|(kind, _, length)| Down { length, closes: kind == b'Z' }))
    }
}

impl Session {
    /// The first messages have no kind.
    fn begin(&mut self, bytes: &[u8]) -> Option<Up> {
        let length = usize::try_from(number(bytes)?).ok()?;
        let code = number(bytes.get(4..)?)?;
        bytes.get(..length)?;
        let mut up = Up { length, ..Up::default() };
        match code {
            TLS | GSS => up.reply = Some(NO),
            // Nothing follows it and nothing answers it.
            CANCEL => {}
            _ => {
                self.begun = true;
                up.asks = true;
            }
        }
        Some(up)
    }
}

/// Kind, body and length of the first message.
fn message(bytes: &[u8]) -> Result<Option<(u8, &[u8], usize)>> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(told) = number(rest) else { return Ok(None) };
    let length = usize::try_from(told)?;
    let body = rest.get(4..length);
    let known = length >= 4;
    known.then_some(()).context("a message shorter than its length")?;
    Ok(body.map(|body| (*kind, body, length + 1)))
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn begun() -> Session {
        let mut session = Session::default();
        let start = [&9_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes(), b"\0"].concat();
        assert!(session.up(&start).unwrap().unwrap().asks);
        session
    }

    fn one(session: &mut Session, bytes: &[u8]) -> Up {
        assert!(session.up(&bytes[..bytes.len() - 1]).unwrap().is_none());
        let up = session.up(bytes).unwrap().unwrap();
        assert_eq!(up.length, bytes.len());
        up
    }

    #[test]
    fn a_simple_query_is_a_request_that_asks() {
        let up = one(&mut begun(), &message(b'Q', b"COMMIT\0"));
        assert!(up.asks && up.request.unwrap().kind == "COMMIT");
    }

    #[test]
    fn an_execution_has_the_text_of_its_statement() {
        let mut session = begun();
        assert!(one(&mut session, &message(b'P', b"s1\0-- find\nSELECT 1\0\0\0")).prepares);
        one(&mut session, &message(b'B', b"p1\0s1\0\0\0\0\0\0\0"));
        let up = one(&mut session, &message(b'E', b"p1\0\0\0\0\0"));
        assert_eq!(up.request.unwrap().kind, "find");
        assert!(!up.asks && one(&mut session, &message(b'S', b"")).asks);
    }

    #[test]
    fn a_wish_for_tls_is_declined_here() {
        let wish = [8_u32.to_be_bytes(), TLS.to_be_bytes()].concat();
        let up = Session::default().up(&wish).unwrap().unwrap();
        assert_eq!((up.reply, up.length, up.asks), (Some(NO), 8, false));
    }

    #[test]
    fn ready_closes_an_answer() {
        let mut session = begun();
        assert!(!session.down(&message(b'C', b"COMMIT\0")).unwrap().unwrap().closes);
        assert!(session.down(&message(b'Z', b"I")).unwrap().unwrap().closes);
    }
}
