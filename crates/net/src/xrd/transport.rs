//! The socket of a session, plain or with TLS. One thread uses it at a time, and it never blocks.
//!
//! A mover thread drives it by plain system calls. A *patient* mover lets these calls sleep for a moment, so that the
//! answer of a quick peer costs one call and one wake-up. Only an idle socket is registered with the runtime, so the
//! bytes of an active session wake only the thread that waits for them.

use super::{
    encrypted::Encrypted,
    limits::{CHUNK_BYTES, LINGER, POLL_MAX, UNSENT_BYTES_MAX, WAKE_BYTES_MIN},
    polling::{PollSlots, Polling},
};
use base::limits::UNPROVEN_BYTES;
use rustix::{
    fs::sendfile,
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg},
};
use socket::{await_bytes, set_unsent_max};
use std::{
    io::{self, ErrorKind, IoSlice},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};
use tokio::io::{Interest, unix::AsyncFd};

/// The event that a session waits for on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoInterest {
    /// Bytes have come.
    Read,
    /// There is room for bytes.
    Write,
}

/// A connected socket that does not block.
#[derive(Debug)]
pub(super) struct Transport {
    socket: TcpStream,
    /// Calls may sleep until the socket is ready.
    is_patient: bool,
    /// Receives may not, even so.
    is_hurried: bool,
    is_crowded: bool,
    polling: Polling,
    tls: Option<Box<Encrypted>>,
}

/// What came of an attempt: `None` when the socket was not ready.
pub(super) type Attempt = io::Result<Option<usize>>;

impl Transport {
    /// Takes the socket away from the runtime.
    pub(super) fn new(socket: tokio::net::TcpStream, poll_slots: Arc<PollSlots>) -> io::Result<Self> {
        let socket = socket.into_std()?;
        socket.set_read_timeout(Some(LINGER))?;
        socket.set_write_timeout(Some(LINGER))?;
        let polling = Polling::new(poll_slots, POLL_MAX);
        Ok(Self { socket, is_patient: false, is_hurried: false, is_crowded: false, polling, tls: None })
    }

    /// Whether calls may sleep until the socket is ready, each time for [`LINGER`] at most.
    pub(super) fn set_patience(&mut self, is_patient: bool) {
        if self.is_patient == is_patient {
            return;
        }
        match self.socket.set_nonblocking(!is_patient) {
            Ok(()) => self.is_patient = is_patient,
            Err(error) => tracing::debug!(%error, "cannot change how a socket waits"),
        }
    }

    /// Whether the socket is one of many that are busy: then little waits in it, and nobody looks at it without sleeping.
    pub(super) fn set_crowded(&mut self, is_crowded: bool) {
        if self.is_crowded == is_crowded {
            return;
        }
        match set_unsent_max(&self.socket, is_crowded.then_some(UNSENT_BYTES_MAX)) {
            Ok(()) => self.is_crowded = is_crowded,
            Err(error) => tracing::debug!(%error, "cannot change the buffer limit of a socket"),
        }
    }

    /// Whether receives come back at once if nothing has come, whatever the patience.
    pub(super) fn set_hurry(&mut self, is_hurried: bool) {
        self.is_hurried = is_hurried;
        // Encrypted, what is received passes through a library that knows nothing of it.
        if self.is_tls() && is_hurried {
            self.set_patience(false);
        }
    }

    /// Goes on with TLS. Everything that was to be sent before has left; `early` was received and belongs to TLS.
    pub(super) fn begin_tls(&mut self, config: Arc<rustls::ServerConfig>, early: &[u8]) -> io::Result<()> {
        self.tls = Some(Box::new(Encrypted::new(config, early)?));
        Ok(())
    }

    /// Whether what is received and sent is encrypted.
    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Receives much at a time from now on: the peer has proven who it is.
    pub(super) fn set_generous(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.set_generous();
        }
    }

    /// Gives memory back.
    pub(super) fn shrink(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.shrink();
        }
    }

    /// The address that the client reached.
    pub(super) fn local_address(&self) -> io::Result<std::net::SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives at least one byte; the end of the stream is an error.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Attempt {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, buffer);
        }
        if self.is_hurried || !self.is_patient {
            return receive_from(&self.socket, buffer, RecvFlags::DONTWAIT);
        }
        let Self { socket, polling, .. } = self;
        if !self.is_crowded
            && let Some(count) = polling.poll(|| receive_from(socket, buffer, RecvFlags::DONTWAIT))?
        {
            return Ok(Some(count));
        }
        receive_from(&self.socket, buffer, RecvFlags::empty())
    }

    /// As [`Self::receive`] when all of `buffer` is sure to come: a patient thread is not woken for each few bytes.
    pub(super) fn receive_due(&mut self, buffer: &mut [u8]) -> Attempt {
        if !self.is_patient || self.is_hurried || self.is_tls() || buffer.len() < WAKE_BYTES_MIN {
            return self.receive(buffer);
        }
        await_bytes(&self.socket, buffer.len().min(CHUNK_BYTES), LINGER)?;
        receive_from(&self.socket, buffer, RecvFlags::empty())
    }

    /// Sends some of `slices`; `more` says that other bytes follow at once.
    pub(super) fn send(&mut self, slices: &[IoSlice<'_>], more: bool) -> Attempt {
        if let Some(tls) = &mut self.tls {
            return tls.send(&self.socket, slices);
        }
        let flags = SendFlags::NOSIGNAL | if more { SendFlags::MORE } else { SendFlags::empty() };
        loop {
            match sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(count) => return Ok(Some(count)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether bytes of files can leave without passing through this process.
    pub(super) fn can_send_files(&self) -> bool {
        !self.is_tls()
    }

    /// Sends some of `length` bytes of `file` from `offset`. The end of the file is an error: bytes were promised.
    pub(super) fn send_file(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> Attempt {
        // The bytes would leave as they are.
        if self.is_tls() {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut at = offset;
        loop {
            match sendfile(&self.socket, file, Some(&mut at), length) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => return Ok(Some(count)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends what was encrypted and is left; `false` if the socket takes no more.
    pub(super) fn push(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.push(&self.socket))
    }

    /// Ends what is sent, and takes what still comes until the peer ends that: else the system would tell it that the
    /// connection broke, before it has read the last answer.
    pub(super) async fn farewell(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)?;
        // Of many peers at once, whoever they are.
        let mut unread = vec![0; UNPROVEN_BYTES];
        loop {
            self.ready_to_read().await?;
            receive_from(&self.socket, &mut unread, RecvFlags::DONTWAIT)?;
        }
    }

    /// Whether bytes were received already, and decrypted or about to be.
    fn has_plain(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_plain())
    }

    /// Waits without a thread until the socket is ready.
    pub(super) async fn ready(&self, wish: IoInterest) -> io::Result<()> {
        let interest = match wish {
            IoInterest::Read if self.has_plain() => return Ok(()),
            // Who waits for the peer must not keep back what the peer waits for.
            IoInterest::Read if self.tls.as_ref().is_some_and(|tls| tls.wants_write()) => {
                Interest::READABLE | Interest::WRITABLE
            }
            IoInterest::Read => Interest::READABLE,
            IoInterest::Write => Interest::WRITABLE,
        };
        self.registered(interest).await
    }

    async fn ready_to_read(&self) -> io::Result<()> {
        self.registered(Interest::READABLE).await
    }

    async fn registered(&self, interest: Interest) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the registration borrows the socket, which therefore stays open")]
        // SAFETY: the descriptor must stay open and the same while it is registered: `self` owns it, is borrowed
        // until this future is done or dropped, and the registration ends with it.
        let socket = unsafe { AsyncFd::register_with_interest(self.socket.as_fd(), interest) }?;
        socket.ready(interest).await.map(drop)
    }
}

fn receive_from(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> Attempt {
    loop {
        match recv(socket, &mut *buffer, flags) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.farewell(&self.socket);
        }
    }
}
