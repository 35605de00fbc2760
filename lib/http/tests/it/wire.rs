//! A client that sends exactly what it is told, and reads what comes back line by line.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// A request on its way to the socket.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    head: String,
    body: Vec<u8>,
}

impl Ask {
    pub(crate) fn post(path: &str) -> Self {
        Self::of("POST", path)
    }

    pub(crate) fn of(method: &str, path: &str) -> Self {
        Self { head: format!("{method} {path} HTTP/1.1\r\nhost: loopback\r\n"), body: Vec::new() }
    }

    pub(crate) fn line(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&[name, ": ", value, "\r\n"].concat());
        self
    }

    /// The caller `tenant/principal`.
    pub(crate) fn by(self, caller: &str) -> Self {
        self.line("authorization", caller)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.line("idempotency-key", key)
    }

    pub(crate) fn json(self, body: &str) -> Self {
        let asked = self.line("content-type", "application/json");
        Self { body: body.as_bytes().to_vec(), ..asked }
    }

    pub(crate) fn body(self, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..self }
    }

    /// The bytes of the request, framed by its length.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let head = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len());
        [head.as_bytes(), &self.body].concat()
    }

    /// The head alone, with whatever framing the test has in mind.
    pub(crate) fn head(&self, framing: &str) -> Vec<u8> {
        format!("{}{framing}\r\n\r\n", self.head).into_bytes()
    }

    pub(crate) async fn send(&self, address: SocketAddr) -> Answer {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&self.bytes()).await.unwrap();
        Answer::read(&mut BufReader::new(socket)).await
    }
}

impl Ask {
    /// Sends, and reads the status alone: a HEAD has a length and no body.
    pub(crate) async fn send_headless(&self, address: SocketAddr) -> u16 {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&self.bytes()).await.unwrap();
        let head = read_head(&mut BufReader::new(socket)).await;
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// A response as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) lines: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn read(socket: &mut BufReader<impl AsyncReadExt + Unpin>) -> Self {
        let head = read_head(socket).await;
        let mut rows = head.split("\r\n");
        let status = rows.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let lines: Vec<_> = rows
            .filter_map(|row| row.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut answer = Self { status, lines, body: Vec::new() };
        if answer.line("transfer-encoding").is_some() {
            while let Some(chunk) = read_chunk(socket).await {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.line("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            socket.read_exact(&mut answer.body).await.unwrap();
        }
        answer
    }

    pub(crate) fn line(&self, name: &str) -> Option<&str> {
        self.lines_of(name).first().copied()
    }

    pub(crate) fn lines_of(&self, name: &str) -> Vec<&str> {
        let named = self.lines.iter().filter(|(line, _)| line == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The code of a problem; empty for other answers.
    pub(crate) fn code(&self) -> String {
        self.json().get("code").and_then(|code| code.as_str()).unwrap_or_default().to_owned()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.line("idempotency-replayed") == Some("true")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The head of a response, without its last blank line.
pub(crate) async fn read_head(socket: &mut BufReader<impl AsyncReadExt + Unpin>) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// The next chunk of a chunked body; `None` at its end.
pub(crate) async fn read_chunk(
    socket: &mut BufReader<impl AsyncReadExt + Unpin>,
) -> Option<Vec<u8>> {
    let mut size = Vec::new();
    while !size.ends_with(b"\r\n") {
        size.push(socket.read_u8().await.unwrap());
    }
    let size = usize::from_str_radix(String::from_utf8(size).unwrap().trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    socket.read_exact(&mut chunk).await.unwrap();
    chunk.truncate(size);
    Some(chunk).filter(|chunk| !chunk.is_empty())
}
