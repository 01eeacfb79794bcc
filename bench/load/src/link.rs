//! One connection: greets the server, sends, receives. All calls block, with a deadline.

use base::{ErrorKind, Failure, Result};
use std::{
    collections::VecDeque,
    io::{IoSlice, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};
use wire::xrd::{
    HANDSHAKE, Login, LoginAnswer, OpenAnswer, OpenFlags, PROTOCOL_VERSION, Protocol, Request, StreamId,
};

use crate::{answers::Answers, work};

/// How long a server may be silent before the session counts as failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Fewer bytes are received as they come.
const WAKE_BYTES_MIN: usize = 32 << 10;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
}

impl Link {
    /// Connects and logs in.
    pub(crate) fn connect(server: SocketAddr) -> Result<Self> {
        let refuse = |cause| Failure::io(format!("connect to {server}"), &cause);
        let socket = TcpStream::connect_timeout(&server, PATIENCE).map_err(refuse)?;
        socket.set_nodelay(true).map_err(refuse)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(refuse)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(refuse)?;
        let mut link = Self { socket };
        link.greet().map_err(|failure| failure.during(format!("log in to {server}")))?;
        Ok(link)
    }

    /// Handshake and protocol go out in one segment, as clients of the field send them.
    fn greet(&mut self) -> Result<()> {
        let protocol = Protocol { client_version: PROTOCOL_VERSION, ..Protocol::default() };
        let mut hello = HANDSHAKE.to_vec();
        hello.extend(Request::Protocol(protocol).encode(StreamId::of(0)));
        self.send(&hello)?;
        self.receive_answers(2)?;
        let pid = std::process::id() as i32;
        let login = Login { pid, username: "load".into(), capability: 5, ..Login::default() };
        let answer = LoginAnswer::parse(&self.ask(&Request::Login(login))?)?;
        if answer.security.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ErrorKind::Permission, format!("the server wants credentials: {}", answer.security))
            .hint("measure a server that lets everybody in"))
    }

    /// Opens a file; its handle and size.
    pub(crate) fn open(&mut self, path: &str, flags: OpenFlags) -> Result<OpenAnswer> {
        let body = self.ask(&work::open(path, flags)).map_err(|failure| failure.during(path))?;
        Ok(OpenAnswer::parse(&body)?)
    }

    /// Asks one thing and waits for the whole answer, which is short.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Vec<u8>> {
        self.send(&request.encode(StreamId::of(0)))?;
        self.receive_answers(1)
    }

    /// Waits for `count` answers, returns the body of the last.
    fn receive_answers(&mut self, count: usize) -> Result<Vec<u8>> {
        let (mut answers, mut buffer) = (Answers::default(), vec![0; 4096]);
        let mut bodies = VecDeque::new();
        while bodies.len() < count {
            let received = self.receive(&mut buffer)?;
            answers.feed(&buffer[..received], |frame| {
                frame.data()?;
                bodies.push_back(frame.head.to_vec());
                Ok(())
            })?;
        }
        Ok(bodies.pop_back().unwrap_or_default())
    }

    /// Receives at least one byte.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.socket.read(buffer) {
            Ok(0) => Err(Failure::unavailable("the server hung up")),
            Ok(length) => Ok(length),
            Err(cause) => Err(Failure::io("receive", &cause)),
        }
    }

    /// Waits until `due` bytes have come, or so many that they fill a buffer: to wake for each few bytes would cost more
    /// than to move them, and hide what a server costs.
    pub(crate) fn wait(&self, due: u64, buffer_bytes: usize) -> Result<()> {
        let due = usize::try_from(due).unwrap_or(usize::MAX).min(buffer_bytes);
        if due < WAKE_BYTES_MIN {
            return Ok(());
        }
        socket::await_bytes(&self.socket, due, PATIENCE).map_err(|cause| Failure::io("wait for data", &cause))
    }

    /// Sends all.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).map_err(|cause| Failure::io("send", &cause))
    }

    /// Sends a request and its data without putting them together first.
    pub(crate) fn send_two(&mut self, request: &[u8], data: &[u8]) -> Result<()> {
        let slices = [IoSlice::new(request), IoSlice::new(data)];
        let sent = self.socket.write_vectored(&slices).map_err(|cause| Failure::io("send", &cause))?;
        if let Some(rest) = request.get(sent..) {
            self.send(rest)?;
        }
        self.send(&data[sent.saturating_sub(request.len())..])
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
