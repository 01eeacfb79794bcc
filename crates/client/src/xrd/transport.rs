//! Bytes to and from a server, plain or encrypted. Receiving and sending go on at the same time.

use super::{Options, tls::Tls};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, sockopt},
};
use socket::await_bytes;
use std::{
    io::{self, IoSlice, IoSliceMut, Read as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// When nothing was received for this long the system asks whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Bytes for which it is worth to wake up, when more are still to come: waking costs more than moving less.
const WAKE_BYTES: usize = 512 << 10;
/// Shorter receives are woken by whatever comes.
const WAKE_BYTES_MIN: usize = 32 << 10;

/// A connected socket, perhaps with TLS on it.
#[derive(Debug)]
pub(super) struct Transport {
    socket: TcpStream,
    address: SocketAddr,
    /// How often a silent wait looks at its deadlines.
    tick: Duration,
    tls: Option<Tls>,
}

/// The readiness of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) input: bool,
    pub(super) output: bool,
}

impl Transport {
    /// Tries each address of `host` in turn that may be connected to.
    pub(super) fn dial(host: &str, port: u16, options: &Options) -> Result<Self, base::Failure> {
        let (socket, address) = socket::dial(host, port, &options.reach, options.connect_timeout)?;
        Self::set_up(socket, address, options)
            .map_err(|cause| base::Failure::io(format!("connect to {address}"), &cause))
    }

    fn set_up(socket: TcpStream, address: SocketAddr, options: &Options) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let tick = tick(options.progress_timeout);
        socket.set_read_timeout(Some(tick))?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE)?;
        Ok(Self { socket, address, tick, tls: None })
    }

    /// Encrypts from now on; nothing but the handshake may be under way.
    pub(super) fn encrypt(&mut self, host: &str, options: &Options) -> Result<(), base::Failure> {
        self.tls = Some(Tls::connect(&self.socket, host, options)?);
        Ok(())
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the server is on this host.
    pub(super) fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Receives into `parts`; waits for a [`tick`] at most, then the error is `WouldBlock`. 0 bytes: the peer has closed.
    ///
    /// Only one thread at a time may be in here.
    pub(super) fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &self.tls {
            None => (&self.socket).read_vectored(parts),
            Some(tls) => tls.receive(&self.socket, parts),
        }
    }

    /// As [`Transport::receive`] when at least `due` bytes are sure to come: is not woken for each few of them.
    pub(super) fn receive_due(&self, parts: &mut [IoSliceMut<'_>], due: usize) -> io::Result<usize> {
        if self.is_encrypted() || due < WAKE_BYTES_MIN {
            return self.receive(parts);
        }
        await_bytes(&self.socket, due.min(WAKE_BYTES), self.tick)?;
        self.receive(parts)
    }

    /// Sends what fits without waiting; `WouldBlock` if nothing does.
    pub(super) fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            None => send_now(&self.socket, parts),
            Some(tls) => tls.send(&self.socket, parts),
        }
    }

    /// Sends what an earlier [`Transport::send`] took but could not send; `WouldBlock` if there is more.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.tls.as_ref().map_or(Ok(()), |tls| tls.flush(&self.socket))
    }

    /// Waits until bytes can be sent, or received if that is asked too.
    pub(super) fn wait(&self, for_input: bool, timeout: Duration) -> io::Result<Ready> {
        wait_for(&self.socket, for_input, timeout)
    }

    /// Whether the peer has closed, or has sent something that nobody asked for.
    pub(super) fn is_stale(&self) -> bool {
        let mut byte = [0u8; 1];
        let outcome = recv(&self.socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        match outcome {
            Err(rustix::io::Errno::AGAIN) => false,
            // An encrypted connection has messages of its own.
            Ok((1, _)) => !self.is_encrypted(),
            _ => true,
        }
    }

    /// Ends the connection at once, also for those who hold a copy of the socket.
    pub(super) fn shut(&self) {
        // It may be closed already; then there is nothing left to do.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

/// Waits until bytes can be sent, or received if that is asked too.
pub(super) fn wait_for(socket: &TcpStream, for_input: bool, timeout: Duration) -> io::Result<Ready> {
    let wanted = if for_input { PollFlags::OUT | PollFlags::IN } else { PollFlags::OUT };
    let mut fds = [PollFd::new(socket, wanted)];
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut fds, Some(&timeout))?;
    let found = fds[0].revents();
    // Errors show when bytes are sent or received.
    let is_odd = found.intersects(PollFlags::ERR | PollFlags::HUP);
    Ok(Ready {
        input: for_input && (is_odd || found.contains(PollFlags::IN)),
        output: is_odd || found.contains(PollFlags::OUT),
    })
}

/// How often a silent wait looks at its deadlines.
fn tick(progress_timeout: Duration) -> Duration {
    (progress_timeout / 4).clamp(Duration::from_millis(5), Duration::from_secs(5))
}

/// Sends without waiting.
pub(super) fn send_now(socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut none = SendAncillaryBuffer::default();
    Ok(sendmsg(socket, parts, &mut none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}
