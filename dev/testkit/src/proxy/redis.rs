//! The protocol of Redis, versions 2 and 3.

use anyhow::Result;

use super::{
    Request,
    wire::{Down, Protocol, Up, whole},
};
use crate::resp::{self, Value};

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    speaks_3: bool,
    /// From here on pieces do not come in pairs: subscribers of version 2, replicas, monitors.
    opaque: bool,
}

impl Protocol for Session {
    fn up(&mut self, bytes: &[u8]) -> Result<Option<Up>> {
        if self.opaque {
            return Ok(whole(bytes).map(|length| Up { length, ..Up::default() }));
        }
        let Some((words, length)) = resp::read_command(bytes)? else { return Ok(None) };
        let words: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let Some((command, rest)) = words.split_first() else {
            return Ok(Some(Up { length, ..Up::default() }));
        };
        let command = command.to_uppercase();
        let mut asks = true;
        match command.as_str() {
            "HELLO" if rest.first().is_some_and(|version| version == "3") => self.speaks_3 = true,
            // Version 3 answers these by pushes only.
            "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE"
            | "SUNSUBSCRIBE" => {
                asks = false;
                self.opaque = !self.speaks_3;
            }
            "PSYNC" | "SYNC" | "MONITOR" => self.opaque = true,
            _ => {}
        }
        let kind = match (command.as_str(), rest.first()) {
            ("FCALL" | "FCALL_RO", Some(function)) => format!("{command} {function}"),
            _ => command,
        };
        let request = Some(Request { kind, text: words.join(" ") });
        Ok(Some(Up { length, request, asks, ..Up::default() }))
    }

    fn down(&mut self, bytes: &[u8]) -> Result<Option<Down>> {
        if self.opaque {
            return Ok(whole(bytes).map(|length| Down { length, closes: true }));
        }
        let value = resp::read(bytes)?;
        Ok(value.map(|(value, length)| Down { length, closes: !matches!(value, Value::Push(_)) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(session: &mut Session, words: &[&str]) -> Up {
        session.up(&resp::command(words)).unwrap().unwrap()
    }

    #[test]
    fn a_command_is_called_by_its_name() {
        let mut session = Session::default();
        for (words, kind) in [
            (&["evalsha", "abc", "0"][..], "EVALSHA"),
            (&["FCALL", "hapax_claim", "1", "k"], "FCALL hapax_claim"),
        ] {
            let up = up(&mut session, words);
            assert!(up.asks);
            assert_eq!(up.request.unwrap().kind, kind);
        }
    }

    #[test]
    fn a_push_closes_nothing() {
        let mut session = Session::default();
        up(&mut session, &["HELLO", "3"]);
        assert!(!up(&mut session, &["SUBSCRIBE", "a"]).asks);
        assert!(!session.down(b">1\r\n+message\r\n").unwrap().unwrap().closes);
        assert!(session.down(b"+OK\r\n").unwrap().unwrap().closes);
    }

    #[test]
    fn a_replica_is_not_understood_and_passes() {
        let mut session = Session::default();
        up(&mut session, &["PSYNC", "?", "-1"]);
        assert_eq!(session.down(b"$EOF:no value").unwrap().unwrap().length, 13);
        assert_eq!(session.up(b"REPLCONF").unwrap().unwrap().length, 8);
    }
}
