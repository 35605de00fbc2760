//! Carries bytes both ways and lets the faults happen.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, ensure};

use super::{
    fault::{Fate, Faults, Mode},
    tally::Tally,
    wire::Protocol,
};

/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;
/// A message that is not whole after so many bytes is none: the largest that a test sends is far
/// smaller.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;
/// A server of this machine takes a connection at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What all connections of a proxy share.
pub(super) struct Switchboard {
    server: SocketAddr,
    protocol: fn() -> Box<dyn Protocol>,
    faults: Mutex<Faults>,
    tally: Mutex<Tally>,
    mode: Mutex<Mode>,
    mode_changed: Condvar,
    lines: Mutex<Vec<Weak<Line>>>,
    closed: AtomicBool,
}

impl std::fmt::Debug for Switchboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switchboard").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Switchboard {
    pub(super) fn new(server: SocketAddr, protocol: fn() -> Box<dyn Protocol>) -> Self {
        Self {
            server,
            protocol,
            faults: Mutex::default(),
            tally: Mutex::default(),
            mode: Mutex::new(Mode::Pass),
            mode_changed: Condvar::new(),
            lines: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    pub(super) fn set(&self, mode: Mode) {
        *lock(&self.mode) = mode;
        self.mode_changed.notify_all();
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    pub(super) fn cut(&self) {
        for line in lock(&self.lines).drain(..) {
            if let Some(line) = line.upgrade() {
                line.cut();
            }
        }
        // Under its lock, so that nobody who is about to wait misses it.
        let mode = lock(&self.mode);
        self.mode_changed.notify_all();
        drop(mode);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits as the mode says; `false` if the line was cut.
    fn admit(&self, line: &Line) -> bool {
        let mut mode = lock(&self.mode);
        while *mode == Mode::BlackHole && !line.is_cut() {
            mode = self.mode_changed.wait(mode).unwrap_or_else(PoisonError::into_inner);
        }
        let now = *mode;
        drop(mode);
        if let Mode::Slow(delay) = now {
            thread::sleep(delay);
        }
        !line.is_cut()
    }
}

/// One client's connection and the proxy's own to the server.
struct Line {
    client: TcpStream,
    server: TcpStream,
    cut: AtomicBool,
    talk: Mutex<Talk>,
}

/// How far a conversation is.
struct Talk {
    protocol: Box<dyn Protocol>,
    /// Answers that were asked for.
    asked: u64,
    /// Answers that were closed.
    closed: u64,
    /// Something was sent that no answer followed yet.
    sent: bool,
    loss: Option<Loss>,
}

/// From this answer on, the client gets nothing.
#[derive(Clone, Copy)]
struct Loss {
    answer: u64,
    /// Bytes of it that pass all the same.
    spared: usize,
    cuts: bool,
    counted: bool,
}

impl Line {
    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        // A connection that the other side has closed is as good as cut.
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

/// Connects a client to the server, on two threads; a client of a dead server is hung up on.
pub(super) fn connect(board: &Arc<Switchboard>, client: TcpStream) -> Option<[JoinHandle<()>; 2]> {
    if *lock(&board.mode) == Mode::Refuse {
        return None;
    }
    let server = TcpStream::connect_timeout(&board.server, CONNECT_LIMIT).ok()?;
    client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok()?;
    board.tally().connections += 1;
    let talk = Talk { protocol: (board.protocol)(), asked: 0, closed: 0, sent: false, loss: None };
    let line =
        Arc::new(Line { client, server, cut: AtomicBool::new(false), talk: Mutex::new(talk) });
    let mut lines = lock(&board.lines);
    lines.retain(|line| line.strong_count() > 0);
    lines.push(Arc::downgrade(&line));
    drop(lines);
    let directions: [fn(&Switchboard, &Line) -> Result<()>; 2] = [up, down];
    Some(directions.map(|carry| {
        let (board, line) = (Arc::clone(board), Arc::clone(&line));
        thread::spawn(move || {
            // An end of either side, or a broken message, ends both.
            drop(carry(&board, &line));
            line.cut();
        })
    }))
}

/// What becomes of a piece from the client.
enum Course {
    Pass,
    Answer(&'static [u8]),
    Late(Duration),
    Cut,
    Deafen,
}

fn up(board: &Switchboard, line: &Line) -> Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let length = (&line.client).read(&mut piece)?;
        ensure!(length > 0, "the client hung up");
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        ensure!(bytes.len() <= MESSAGE_MAX, "a message without an end");
        let (mut out, mut at) = (Vec::new(), 0);
        while let Some((length, course)) = consider(board, line, rest(&bytes, at))? {
            let taken = bytes.get(at..at + length).unwrap_or_default();
            at += length;
            match course {
                Course::Pass => out.extend_from_slice(taken),
                Course::Answer(reply) => (&line.client).write_all(reply)?,
                Course::Late(delay) => {
                    send_up(board, line, &mut out)?;
                    thread::sleep(delay);
                    out.extend_from_slice(taken);
                }
                Course::Cut => return send_up(board, line, &mut out),
                Course::Deafen => {
                    send_up(board, line, &mut out)?;
                    return deaf(line);
                }
            }
        }
        bytes.drain(..at);
        send_up(board, line, &mut out)?;
    }
}

fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Reads what the client sends until it gives up, so that it sees no closed window.
fn deaf(line: &Line) -> Result<()> {
    let mut piece = vec![0; PIECE];
    while (&line.client).read(&mut piece)? > 0 {}
    Ok(())
}

fn send_up(board: &Switchboard, line: &Line, out: &mut Vec<u8>) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    ensure!(board.admit(line), "the line was cut");
    lock(&line.talk).sent = true;
    board.tally().bytes_up += u64::try_from(out.len())?;
    (&line.server).write_all(out)?;
    out.clear();
    Ok(())
}

/// The next whole piece and what becomes of it.
fn consider(board: &Switchboard, line: &Line, bytes: &[u8]) -> Result<Option<(usize, Course)>> {
    let mut talk = lock(&line.talk);
    let Some(piece) = talk.protocol.up(bytes)? else { return Ok(None) };
    let answer = talk.asked + 1;
    let mut course = piece.reply.map_or(Course::Pass, Course::Answer);
    if piece.prepares {
        board.tally().prepares += 1;
    }
    if let Some(request) = piece.request {
        *board.tally().requests.entry(request.kind.clone()).or_default() += 1;
        let loss = |spared, cuts| Some(Loss { answer, spared, cuts, counted: false });
        match board.faults().meet(&request) {
            None => {}
            Some(Fate::AnswerLost) => talk.loss = loss(0, true),
            Some(Fate::Unanswered) => talk.loss = loss(0, false),
            Some(Fate::Torn(spared)) => talk.loss = loss(spared, true),
            Some(Fate::RequestLost) => course = Course::Cut,
            Some(Fate::Unheard) => course = Course::Deafen,
            Some(Fate::Late(delay)) => course = Course::Late(delay),
        }
    }
    if piece.asks && !matches!(course, Course::Cut | Course::Deafen) {
        talk.asked += 1;
    }
    Ok(Some((piece.length, course)))
}

fn down(board: &Switchboard, line: &Line) -> Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let length = (&line.server).read(&mut piece)?;
        ensure!(length > 0, "the server hung up");
        board.tally().bytes_down += u64::try_from(length)?;
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        ensure!(bytes.len() <= MESSAGE_MAX, "a message without an end");
        let (out, ends) = sift(board, line, &mut bytes)?;
        if !out.is_empty() {
            ensure!(board.admit(line), "the line was cut");
            (&line.client).write_all(&out)?;
        }
        if ends {
            return Ok(());
        }
    }
}

/// Takes the whole pieces off `bytes`: what the client gets of them, and whether that was all.
fn sift(board: &Switchboard, line: &Line, bytes: &mut Vec<u8>) -> Result<(Vec<u8>, bool)> {
    let mut talk = lock(&line.talk);
    if std::mem::take(&mut talk.sent) {
        board.tally().round_trips += 1;
    }
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(piece) = talk.protocol.down(rest(bytes, at))? {
        let taken = bytes.get(at..at + piece.length).unwrap_or_default();
        at += piece.length;
        let answer = talk.closed + 1;
        talk.closed += u64::from(piece.closes);
        let Some(mut loss) = talk.loss.filter(|loss| answer >= loss.answer) else {
            out.extend_from_slice(taken);
            continue;
        };
        let spared = std::cmp::min(loss.spared, piece.length);
        out.extend_from_slice(taken.get(..spared).unwrap_or_default());
        loss.spared -= spared;
        let torn = spared > 0 && loss.spared == 0;
        if (piece.closes || torn) && !loss.counted {
            loss.counted = true;
            board.faults().swallow();
        }
        talk.loss = Some(loss);
        if loss.counted && loss.cuts {
            return Ok((out, true));
        }
    }
    bytes.drain(..at);
    Ok((out, false))
}

/// A thread that panicked has changed nothing half.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
