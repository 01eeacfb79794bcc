//! One connection: handshake, login, requests out, answers in (spec/xrootd.md §1 to §5).

use super::{XrdUrl, url::authority};
use base::{Failure, Result};
use std::{
    io::{BufReader, IoSlice, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};
use wire::xrd::{
    ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, HANDSHAKE, LOGIN_USER, Login, LoginAnswer, Opaque,
    PROTOCOL_VERSION, Protocol, ProtocolAnswer, Redirect, Request, ServerFlags, StreamId,
};

/// Longest body of an answer that is kept in memory: a listing of some hundred thousand names.
const BODY_BYTES_MAX: usize = 64 << 20;
/// Longest answer that is no data.
const ANSWER_BYTES_MAX: u32 = 1 << 20;
/// Receive buffer for headers and small answers; larger data go past it.
const BUFFER_BYTES: usize = 64 << 10;

/// How patient and how eager a client is.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long the server may be silent while an answer is due.
    pub progress_timeout: Duration,
    /// How long a server may make us wait altogether, by asking to come again or by announcing the answer.
    pub wait_max: Duration,
    /// How many servers in a row may send us on.
    pub redirects_max: u32,
    /// User name to claim; servers of others see its first 8 bytes.
    pub username: String,
    /// Bytes of one read or write request.
    pub chunk_bytes: usize,
    /// Bytes of requests whose answers are awaited.
    pub window_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(60),
            wait_max: Duration::from_secs(24 * 3600),
            redirects_max: 16,
            username: "bp".to_owned(),
            chunk_bytes: 1 << 20,
            window_bytes: 8 << 20,
        }
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was done; this is the body of the answer.
    Done(Vec<u8>),
    /// Another server must be asked.
    Elsewhere(Redirect),
}

/// What arrived.
#[derive(Debug)]
pub(super) enum Incoming {
    /// Header of a piece of data; `length` bytes follow and must be taken.
    Data {
        /// Whose.
        stream: StreamId,
        /// No more pieces follow.
        is_last: bool,
        /// Bytes.
        length: usize,
    },
    /// Anything else, whole.
    Answer {
        /// Whose.
        stream: StreamId,
        /// What.
        answer: Answer,
    },
}

/// A session with one server.
#[derive(Debug)]
pub struct Connection {
    socket: BufReader<TcpStream>,
    /// `host:port`, for messages.
    peer: String,
    flags: ServerFlags,
    next_stream: u16,
    progress_timeout: Duration,
    wait_max: Duration,
    /// After a failure in the middle of a message nothing more can be understood.
    is_broken: bool,
}

/// The opaque part of a login, with the whole name of the user. A name that cannot stand there is sent cut only.
fn whole_name(username: &str) -> String {
    if username.contains(|c: char| c == '&' || c.is_control()) {
        return String::new();
    }
    format!("?{LOGIN_USER}={username}")
}

impl Connection {
    /// Connects to the server of `url` and logs in.
    pub fn connect(url: &XrdUrl, options: &Options) -> Result<Self> {
        let username = url.user.as_ref().unwrap_or(&options.username);
        Self::open(&url.host, url.port, username, options)
    }

    /// Connects to `host:port` and logs in.
    pub(super) fn open(host: &str, port: u16, username: &str, options: &Options) -> Result<Self> {
        let peer = authority(host, port);
        let socket = dial(host, port, options).map_err(|e| Failure::io(format!("connect to {peer}"), &e))?;
        let setup = |socket: &TcpStream| -> std::io::Result<()> {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(options.progress_timeout))?;
            socket.set_write_timeout(Some(options.progress_timeout))
        };
        setup(&socket).map_err(|e| Failure::io(format!("prepare the connection to {peer}"), &e))?;
        let mut connection = Self {
            socket: BufReader::with_capacity(BUFFER_BYTES, socket),
            peer,
            flags: ServerFlags::NONE,
            next_stream: 0,
            progress_timeout: options.progress_timeout,
            wait_max: options.wait_max,
            is_broken: false,
        };
        connection.login(username)?;
        Ok(connection)
    }

    /// Handshake, protocol and login, sent together: one round trip for the first two.
    fn login(&mut self, username: &str) -> Result<()> {
        let protocol = Protocol { client_version: PROTOCOL_VERSION, flags: 0, expect: 3 };
        let stream = self.new_stream();
        self.send(&[&HANDSHAKE, &Request::Protocol(protocol).encode(stream)])?;
        let hello = self.receive_body(StreamId::default())?;
        if hello.len() != 8 {
            return Err(self.broken("the server does not speak this protocol"));
        }
        let answer = self.receive_body(stream)?;
        self.flags = ProtocolAnswer::parse(&answer)?.flags;
        let login = Login {
            pid: std::process::id() as i32,
            username: username.to_owned(),
            // Bits: understands asynchronous answers (128); version 5 of the client.
            capability: 128 | 5,
            token: whole_name(username),
            ..Login::default()
        };
        let Reply::Done(body) = self.call(&Request::Login(login))? else {
            return Err(self.broken("the server redirects logins"));
        };
        let security = LoginAnswer::parse(&body)?.security;
        if !security.is_empty() {
            return Err(Failure::unsupported(format!("{} wants authentication: {security}", self.peer)));
        }
        Ok(())
    }

    /// What the server said it is and supports.
    #[must_use]
    pub fn flags(&self) -> ServerFlags {
        self.flags
    }

    /// `host:port` of the server.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Sends a request and waits for its whole answer.
    pub fn call(&mut self, request: &Request) -> Result<Reply> {
        let until = Instant::now() + self.wait_max;
        loop {
            let stream = self.new_stream();
            self.send(&[&request.encode(stream)])?;
            match self.collect(stream)? {
                Collected::Reply(reply) => return Ok(reply),
                Collected::AgainAfter(pause) if Instant::now() + pause < until => thread::sleep(pause),
                Collected::AgainAfter(_) => {
                    return Err(Failure::timeout(format!("{} makes us wait too long", self.peer)));
                }
            }
        }
    }

    /// Takes answers until that of `stream` is complete; none other may be awaited.
    fn collect(&mut self, stream: StreamId) -> Result<Collected> {
        let mut body = Vec::new();
        loop {
            match self.receive()? {
                Incoming::Data { stream: whose, is_last, length } if whose == stream => {
                    if body.len() + length > BODY_BYTES_MAX {
                        return Err(self.broken("the answer is too long"));
                    }
                    self.take(length, &mut body)?;
                    if is_last {
                        return Ok(Collected::Reply(Reply::Done(body)));
                    }
                }
                Incoming::Answer { stream: whose, answer } if whose == stream => {
                    if let Some(collected) = self.settle(answer)? {
                        return Ok(collected);
                    }
                }
                _ => return Err(self.broken("an answer to nothing that was asked")),
            }
        }
    }

    /// What an answer other than data means; `None`: go on waiting.
    fn settle(&mut self, answer: Answer) -> Result<Option<Collected>> {
        if let Some(failure) = answer.to_failure() {
            return Err(failure.during(format!("server {}", self.peer)));
        }
        match answer {
            Answer::Ok(body) => Ok(Some(Collected::Reply(Reply::Done(body)))),
            Answer::Redirect(redirect) => Ok(Some(Collected::Reply(Reply::Elsewhere(redirect)))),
            Answer::Wait { seconds, .. } => {
                Ok(Some(Collected::AgainAfter(Duration::from_secs(seconds.into()))))
            }
            Answer::WaitResp { seconds } => {
                self.be_patient(Duration::from_secs(seconds.into()))?;
                Ok(None)
            }
            _ => Err(self.broken("an answer of an unexpected kind")),
        }
    }

    /// The next number of a request. Far fewer than 65536 are awaited at a time.
    pub(super) fn new_stream(&mut self) -> StreamId {
        // 0 is the stream of unsolicited answers.
        self.next_stream = self.next_stream.checked_add(1).unwrap_or(1);
        StreamId::of(self.next_stream)
    }

    /// Sends all `parts`, one after the other.
    pub(super) fn send(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.socket.get_mut().write_vectored(rest) {
                Ok(0) => return Err(self.broken("the connection is closed")),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken_by("send to", &error)),
            }
        }
        Ok(())
    }

    /// Waits for the next answer; messages for people are skipped.
    pub(super) fn receive(&mut self) -> Result<Incoming> {
        self.check()?;
        loop {
            let mut header = [0; ANSWER_HEADER_BYTES];
            self.read_exact(&mut header)?;
            let header = AnswerHeader::parse(&header).map_err(|e| self.broken(e))?;
            if matches!(header.code, AnswerCode::Ok | AnswerCode::OkSoFar) {
                self.be_patient(Duration::ZERO)?;
                let is_last = header.code == AnswerCode::Ok;
                return Ok(Incoming::Data { stream: header.stream, is_last, length: header.length as usize });
            }
            if header.length > ANSWER_BYTES_MAX && header.code != AnswerCode::Attn
                || header.length as usize > BODY_BYTES_MAX
            {
                return Err(self.broken("the answer is too long"));
            }
            let mut body = Vec::new();
            self.take(header.length as usize, &mut body)?;
            match Answer::parse(&header, &body).map_err(|e| self.broken(e))? {
                Answer::Message(_) => {}
                Answer::Later { stream, answer } => {
                    self.be_patient(Duration::ZERO)?;
                    return Ok(Incoming::Answer { stream, answer: *answer });
                }
                answer => {
                    return Ok(Incoming::Answer { stream: header.stream, answer });
                }
            }
        }
    }

    /// The body of the one answer that is awaited, which must be whole.
    fn receive_body(&mut self, stream: StreamId) -> Result<Vec<u8>> {
        match self.receive()? {
            Incoming::Data { stream: whose, is_last: true, length } if whose == stream && length <= 4096 => {
                let mut body = Vec::new();
                self.take(length, &mut body)?;
                Ok(body)
            }
            Incoming::Answer { answer, .. } if answer.to_failure().is_some() => {
                Err(answer.to_failure().unwrap_or_else(|| self.broken("no answer")))
            }
            _ => Err(self.broken("the server does not speak this protocol")),
        }
    }

    /// Appends `length` bytes of what arrives to `body`, growing it as they come.
    pub(super) fn take(&mut self, length: usize, body: &mut Vec<u8>) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let piece = left.min(BUFFER_BYTES * 16);
            let start = body.len();
            body.resize(start + piece, 0);
            self.read_exact(&mut body[start..])?;
            left -= piece;
        }
        Ok(())
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.socket.read_exact(buffer).map_err(|error| self.broken_by("no answer from", &error))
    }

    /// Sets how long the server may be silent from now on: `extra` on top of the usual.
    pub(super) fn be_patient(&mut self, extra: Duration) -> Result<()> {
        let timeout = self.progress_timeout + extra.min(self.wait_max);
        if self.socket.get_ref().read_timeout().ok().flatten() == Some(timeout) {
            return Ok(());
        }
        let outcome = self.socket.get_ref().set_read_timeout(Some(timeout));
        outcome.map_err(|e| self.broken_by("set the deadline of", &e))
    }

    fn check(&self) -> Result<()> {
        if self.is_broken {
            return Err(Failure::unavailable(format!("connection to {} broke earlier", self.peer)));
        }
        Ok(())
    }

    /// Gives the connection up because of what the peer said.
    pub(super) fn broken(&mut self, why: impl std::fmt::Display) -> Failure {
        self.is_broken = true;
        Failure::unavailable(format!("server {}: {why}", self.peer))
    }

    fn broken_by(&mut self, context: &str, error: &std::io::Error) -> Failure {
        self.is_broken = true;
        let what = format!("{context} {}", self.peer);
        match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                Failure::timeout(format!("{what}: no progress for {} s", self.progress_timeout.as_secs()))
            }
            std::io::ErrorKind::UnexpectedEof => Failure::unavailable(format!("{what}: connection closed")),
            _ => Failure::io(what, error),
        }
    }

    /// Whether nothing more can be done here.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
}

enum Collected {
    Reply(Reply),
    AgainAfter(Duration),
}

/// Tries each address of `host` in turn.
fn dial(host: &str, port: u16, options: &Options) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, options.connect_timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks the server of `url` on a new connection, then whoever it sends us to, until one does it.
///
/// `request` makes the request for what must be in the opaque part.
pub(super) fn route(
    url: &XrdUrl,
    options: &Options,
    request: &dyn Fn(&Opaque) -> Request,
) -> Result<(Connection, Vec<u8>)> {
    let mut connection = Connection::connect(url, options)?;
    match connection.call(&request(&url.opaque))? {
        Reply::Done(body) => Ok((connection, body)),
        Reply::Elsewhere(redirect) => {
            drop(connection);
            follow(url, options, redirect, request)
        }
    }
}

/// Goes where a server sent us, and on from there.
pub(super) fn follow(
    url: &XrdUrl,
    options: &Options,
    mut redirect: Redirect,
    request: &dyn Fn(&Opaque) -> Request,
) -> Result<(Connection, Vec<u8>)> {
    for _ in 0..options.redirects_max {
        let more = Opaque::parse(&redirect.opaque);
        let opaque = more.iter().fold(url.opaque.clone(), |all, (key, value)| all.with(key, value));
        let host = redirect.host.trim_start_matches('[').trim_end_matches(']');
        let username = url.user.as_ref().unwrap_or(&options.username);
        let mut connection = Connection::open(host, redirect.port, username, options)
            .map_err(|failure| failure.during(format!("redirected from {}", url.authority())))?;
        match connection.call(&request(&opaque))? {
            Reply::Done(body) => return Ok((connection, body)),
            Reply::Elsewhere(next) => redirect = next,
        }
    }
    Err(Failure::unavailable(format!("{url}: more than {} redirects", options.redirects_max)))
}
