//! The protocol of Redis, versions 2 and 3: as much as a proxy and an administrator need.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

/// An administrator's command answers within this time or never.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Nested deeper, it is no answer of Redis.
const DEPTH_MAX: usize = 16;

/// One value on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Text, numbers and truth values, in the words of the wire.
    Text(Vec<u8>),
    Error(String),
    Nothing,
    List(Vec<Self>),
    /// Nobody asked for it.
    Push(Vec<Self>),
}

impl Value {
    /// Lists as lines, as people read them.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Error(text) => text.clone(),
            Self::Nothing => String::new(),
            Self::List(values) | Self::Push(values) => {
                values.iter().map(Self::text).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// The first value in `bytes` and its length, or `None` if it is not whole yet.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Value, usize)>> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(reader.value(DEPTH_MAX)?.map(|value| (value, reader.at)))
}

/// The first command in `bytes` as words, and its length; `None` if it is not whole yet.
#[cfg(feature = "tests")]
pub(crate) fn read_command(bytes: &[u8]) -> Result<Option<(Vec<Vec<u8>>, usize)>> {
    if bytes.first() == Some(&b'*') {
        let Some((value, length)) = read(bytes)? else { return Ok(None) };
        let Value::List(values) = value else { bail!("a command that is no list") };
        let words = values.into_iter().map(|word| match word {
            Value::Text(word) => Ok(word),
            other => bail!("a command with the word {other:?}"),
        });
        return Ok(Some((words.collect::<Result<_>>()?, length)));
    }
    let mut reader = Reader { bytes, at: 0 };
    let Some(line) = reader.line() else { return Ok(None) };
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Ok(Some((words.map(<[u8]>::to_vec).collect(), reader.at)))
}

/// A command on the wire.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let begin = format!("*{}\r\n", words.len());
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    [begin].into_iter().chain(words).collect::<String>().into_bytes()
}

/// Sends one command to the Redis on a loopback port and returns the answer as text; blocks.
pub(crate) fn ask(port: u16, words: &[&str]) -> Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let shown = words.join(" ");
    let asked = || -> Result<Value> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(&command(words))?;
        let (mut answer, mut piece) = (Vec::new(), vec![0; 8192]);
        loop {
            let length = stream.read(&mut piece)?;
            ensure!(length > 0, "the connection was closed");
            answer.extend_from_slice(piece.get(..length).unwrap_or_default());
            if let Some((value, _)) = read(&answer)? {
                return Ok(value);
            }
        }
    };
    match asked().with_context(|| format!("failed to ask {address} for `{shown}`"))? {
        Value::Error(text) => bail!("{address} refused `{shown}`: {text}"),
        value => Ok(value.text()),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>> {
        ensure!(depth > 0, "values are nested too deep");
        let Some(line) = self.line() else { return Ok(None) };
        let (kind, rest) = line.split_first().context("an empty line instead of a value")?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b'+' | b':' | b'#' | b',' | b'(' => Some(Value::Text(rest.to_vec())),
            b'-' => Some(Value::Error(text())),
            b'_' => Some(Value::Nothing),
            b'$' | b'=' => self.blob(rest)?.map(|blob| blob.map_or(Value::Nothing, Value::Text)),
            b'!' => self.blob(rest)?.map(|blob| {
                Value::Error(String::from_utf8_lossy(&blob.unwrap_or_default()).into_owned())
            }),
            b'*' | b'~' => {
                self.list(rest, 1, depth)?.map(|list| list.map_or(Value::Nothing, Value::List))
            }
            b'>' => self.list(rest, 1, depth)?.map(|list| Value::Push(list.unwrap_or_default())),
            b'%' => self.list(rest, 2, depth)?.map(|list| Value::List(list.unwrap_or_default())),
            // Attributes stand in front of the value that they belong to.
            b'|' => match self.list(rest, 2, depth)? {
                Some(_) => self.value(depth - 1)?,
                None => None,
            },
            other => bail!("{} begins no value", char::from(*other)),
        })
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        self.at += end + 2;
        rest.get(..end)
    }

    #[expect(clippy::option_option, reason = "not whole yet, and the value that is nothing")]
    fn blob(&mut self, length: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let Some(length) = count(length)? else { return Ok(Some(None)) };
        let blob = self.bytes.get(self.at..self.at + length + 2);
        Ok(blob.and_then(|blob| blob.get(..length)).map(|blob| {
            self.at += length + 2;
            Some(blob.to_vec())
        }))
    }

    #[expect(clippy::option_option, reason = "not whole yet, and the list that is nothing")]
    fn list(
        &mut self,
        length: &[u8],
        each: usize,
        depth: usize,
    ) -> Result<Option<Option<Vec<Value>>>> {
        let Some(length) = count(length)? else { return Ok(Some(None)) };
        let mut values = Vec::new();
        for _ in 0..length * each {
            match self.value(depth - 1)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(Some(values)))
    }
}

/// A length; `None` stands for the value that is nothing.
fn count(text: &[u8]) -> Result<Option<usize>> {
    let number: i64 = std::str::from_utf8(text)?.parse().context("a length that is no number")?;
    Ok(usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(wire: &[u8]) -> Value {
        for end in 0..wire.len() {
            assert_eq!(read(&wire[..end]).unwrap(), None, "whole after {end} bytes");
        }
        let (value, length) = read(wire).unwrap().unwrap();
        assert_eq!(length, wire.len());
        value
    }

    fn text(word: &str) -> Value {
        Value::Text(word.into())
    }

    #[test]
    fn a_value_is_read_when_it_is_whole_and_not_before() {
        assert_eq!(whole(b"+OK\r\n"), text("OK"));
        assert_eq!(whole(b"$5\r\na\r\nbc\r\n"), text("a\r\nbc"));
        assert_eq!(whole(b"$-1\r\n"), Value::Nothing);
        assert_eq!(whole(b"*2\r\n:1\r\n$1\r\nx\r\n"), Value::List(vec![text("1"), text("x")]));
        assert_eq!(whole(b"%1\r\n+a\r\n_\r\n"), Value::List(vec![text("a"), Value::Nothing]));
        assert_eq!(whole(b">1\r\n+a\r\n"), Value::Push(vec![text("a")]));
        assert_eq!(whole(b"|1\r\n+a\r\n+b\r\n+OK\r\n"), text("OK"));
        assert_eq!(whole(b"-ERR no\r\n"), Value::Error("ERR no".into()));
    }

    #[test]
    fn a_command_is_read_as_words() {
        let wire = command(&["SET", "a b", ""]);
        let (words, length) = read_command(&wire).unwrap().unwrap();
        assert_eq!(words, [b"SET".to_vec(), b"a b".to_vec(), b"".to_vec()]);
        assert_eq!(length, wire.len());
        let (words, length) = read_command(b"PING  x\r\nPING").unwrap().unwrap();
        assert_eq!((words, length), (vec![b"PING".to_vec(), b"x".to_vec()], 9));
        assert!(read(b"hello\r\n").is_err());
    }
}
