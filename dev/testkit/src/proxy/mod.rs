//! A proxy before a server that breaks the wire where a test says so.
//!
//! It knows each protocol well enough to tell requests and their answers apart: a COMMIT can reach
//! the server and its answer never the client. It runs on threads of its own, so that a test's
//! runtime may be as busy or as stopped as it likes. No TLS.
//!
//! Invariant: a fault that was armed happens to exactly one request and is counted; held by
//! `exactly_one_commit_of_postgres_loses_its_answer` and its siblings.

mod fault;
mod mysql;
mod postgres;
mod redis;
mod relay;
mod tally;
mod wire;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result, bail};

use self::{
    relay::Switchboard,
    wire::{Protocol, Raw},
};
use crate::port::Port;

pub use self::{
    fault::{Fate, Mode, Request, commits, scripts},
    tally::Tally,
};

/// A proxy on a loopback port of its own before one server.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    port: u16,
    board: Arc<Switchboard>,
    listener: Option<JoinHandle<()>>,
    _held: Port,
}

impl Proxy {
    /// Listens before the server of a URL on this machine, which may start later or be killed.
    ///
    /// The scheme says the protocol: `postgres`, `mysql`, `redis`; of any other one the bytes pass
    /// without a look at them.
    ///
    /// # Errors
    ///
    /// Fails if the URL names no port or is not on loopback.
    pub fn before(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").context("an URL begins with a scheme")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (account, place) = match authority.rsplit_once('@') {
            Some((account, place)) => (format!("{account}@"), place),
            None => (String::new(), authority),
        };
        let (host, port) = place.rsplit_once(':').context("the URL names no port")?;
        if !matches!(host, "127.0.0.1" | "localhost") {
            bail!("{host} is not this machine: a proxy stands before local servers only");
        }
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse::<u16>()?));
        let held = Port::take()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, held.number))
            .context("failed to listen before a server")?;
        let board = Arc::new(Switchboard::new(server, protocol(scheme)));
        let own = Arc::clone(&board);
        let accepting = thread::spawn(move || accept(&listener, &own));
        Ok(Self {
            url: format!("{scheme}://{account}127.0.0.1:{}{path}", held.number),
            port: held.number,
            board,
            listener: Some(accepting),
            _held: held,
        })
    }

    /// The URL with the proxy's place in it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Arms one fault: it happens to the next request that `is_it` accepts, and to no other.
    ///
    /// Several faults may be armed; a request meets the first that accepts it. `is_it` runs while
    /// the traffic waits: it must not call this proxy.
    pub fn next(&self, fate: Fate, is_it: impl Fn(&Request) -> bool + Send + 'static) {
        self.board.faults().arm(fate, Box::new(is_it));
    }

    /// Forgets the faults that have not happened.
    pub fn disarm(&self) {
        self.board.faults().disarm();
    }

    /// How many armed faults have not happened yet: a test that ends with one proved nothing.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.board.faults().armed()
    }

    /// How many answers the server gave that no client got, of
    /// [`AnswerLost`](Fate::AnswerLost), [`Unanswered`](Fate::Unanswered) and [`Torn`](Fate::Torn).
    #[must_use]
    pub fn swallowed(&self) -> u64 {
        self.board.faults().swallowed()
    }

    /// How many armed faults have happened, of all kinds.
    #[must_use]
    pub fn happened(&self) -> u64 {
        self.board.faults().happened()
    }

    /// What happens to all traffic from now on.
    pub fn set(&self, mode: Mode) {
        self.board.set(mode);
    }

    /// Cuts all connections now; new ones may be made.
    pub fn cut(&self) {
        self.board.cut();
    }

    /// What crossed since the last [`reset`](Self::reset).
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.board.tally().clone()
    }

    /// Begins a new tally.
    pub fn reset(&self) {
        *self.board.tally() = Tally::default();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.board.close();
        // The listener is woken by a last connection, and finds the board closed.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
    }
}

fn accept(listener: &TcpListener, board: &Arc<Switchboard>) {
    let mut connections = Vec::new();
    while let Ok((client, _)) = listener.accept() {
        if board.is_closed() {
            break;
        }
        connections.extend(relay::connect(board, client).into_iter().flatten());
        connections.retain(|connection: &JoinHandle<()>| !connection.is_finished());
    }
    board.cut();
    for connection in connections {
        drop(connection.join());
    }
}

fn protocol(scheme: &str) -> fn() -> Box<dyn Protocol> {
    match scheme {
        "postgres" | "postgresql" => || Box::new(postgres::Session::default()),
        "mysql" | "mariadb" => || Box::new(mysql::Session::default()),
        "redis" => || Box::new(redis::Session::default()),
        _ => || Box::new(Raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_keeps_account_and_database() {
        let proxy = Proxy::before("mysql://a:b@localhost:1/x?y=z").unwrap();
        assert_eq!(proxy.url(), format!("mysql://a:b@127.0.0.1:{}/x?y=z", proxy.port()));
    }

    #[test]
    fn a_server_elsewhere_is_refused() {
        let error = Proxy::before("redis://example.com:6379/").unwrap_err();
        assert!(error.to_string().contains("not this machine"), "{error}");
        Proxy::before("redis://127.0.0.1/").unwrap_err();
    }
}
