//! TLS on a connection: both directions at once, on one state that is locked for as long as bytes are worked on, never
//! while bytes are waited for.

use super::{
    Options, TlsOptions,
    process::lock,
    transport::{send_now, wait_for},
};
use crate::authorities::authorities;
use base::{ErrorKind, Failure};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::{
    fmt,
    io::{self, IoSlice, IoSliceMut, Read as _, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use trust::TrustPolicy;

/// Bytes received at once: some records.
const RAW_BYTES: usize = 128 << 10;
/// Bytes that may wait to be sent.
const UNSENT_BYTES: usize = 512 << 10;

/// The state of an encrypted connection.
pub(super) struct Tls {
    connection: Mutex<ClientConnection>,
    /// Received and not yet decrypted. Locked by the one thread that receives.
    raw: Mutex<Raw>,
}

#[derive(Default)]
struct Raw {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Agrees with the server on keys, and checks who it is.
    pub(super) fn connect(socket: &TcpStream, host: &str, options: &Options) -> Result<Self, Failure> {
        let config = config(&options.tls)?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::invalid(format!("{host:?} is no name that a certificate can have")))?;
        let mut connection = ClientConnection::new(Arc::new(config), name)
            .map_err(|cause| Failure::internal(format!("TLS with {host} cannot begin: {cause}")))?;
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        let tls = Self { connection: Mutex::new(connection), raw: Mutex::default() };
        let until = Instant::now() + options.connect_timeout;
        while lock(&tls.connection).is_handshaking() {
            let outcome = tls.flush(socket).and_then(|()| tls.receive_some(socket));
            match outcome {
                Ok(()) => {}
                Err(cause) if is_early(&cause) && Instant::now() < until => {
                    wait_for(socket, true, Duration::from_millis(200))
                        .map(drop)
                        .or_else(ignore_interrupt(host))?;
                }
                Err(cause) => return Err(refused(host, &cause)),
            }
        }
        Ok(tls)
    }

    /// As [`Transport::receive`](super::transport::Transport::receive).
    pub(super) fn receive(&self, socket: &TcpStream, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match lock(&self.connection).reader().read_vectored(parts) {
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            match self.receive_some(socket) {
                // A server that goes away need not say good-bye: what counts is framed.
                Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                outcome => outcome?,
            }
        }
    }

    /// Takes some of what the server sent, and decrypts it.
    fn receive_some(&self, socket: &TcpStream) -> io::Result<()> {
        let mut raw = lock(&self.raw);
        if raw.start == raw.end {
            raw.bytes.resize(RAW_BYTES, 0);
            (raw.start, raw.end) = (0, 0);
            raw.end = (&*socket).read(&mut raw.bytes)?;
            if raw.end == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let mut connection = lock(&self.connection);
        let Raw { bytes, start, end } = &mut *raw;
        let mut rest = &bytes[*start..*end];
        connection.read_tls(&mut rest)?;
        *start = *end - rest.len();
        connection
            .process_new_packets()
            .map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))?;
        Ok(())
    }

    /// As [`Transport::send`](super::transport::Transport::send).
    pub(super) fn send(&self, socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut connection = lock(&self.connection);
        push(&mut connection, socket)?;
        let count = connection.writer().write_vectored(parts)?;
        match push(&mut connection, socket) {
            // What was taken is sent later.
            Err(cause) if is_early(&cause) => Ok(count),
            outcome => outcome.map(|()| count),
        }
    }

    /// As [`Transport::flush`](super::transport::Transport::flush).
    pub(super) fn flush(&self, socket: &TcpStream) -> io::Result<()> {
        push(&mut lock(&self.connection), socket)
    }
}

/// Sends what is encrypted, without waiting.
fn push(connection: &mut ClientConnection, socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut Now(socket))?;
    }
    Ok(())
}

/// A socket that is written to without waiting.
struct Now<'a>(&'a TcpStream);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_now(self.0, &[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        send_now(self.0, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_early(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn ignore_interrupt(host: &str) -> impl Fn(io::Error) -> Result<(), Failure> {
    move |cause| if is_early(&cause) { Ok(()) } else { Err(refused(host, &cause)) }
}

/// Why there is no TLS with `host`.
fn refused(host: &str, cause: &io::Error) -> Failure {
    let what = format!("TLS with {host}");
    match cause.kind() {
        io::ErrorKind::InvalidData => Failure::new(ErrorKind::Permission, format!("{what}: {cause}"))
            .hint("is its authority trusted? name it by BP_CA_FILE, or put it into X509_CERT_DIR"),
        _ if is_early(cause) => Failure::timeout(format!("{what}: it does not answer")),
        io::ErrorKind::UnexpectedEof => Failure::unavailable(format!("{what}: connection closed")),
        _ => Failure::io(what, cause),
    }
}

fn config(options: &TlsOptions) -> Result<ClientConfig, Failure> {
    let believed = if options.insecure {
        TrustPolicy::AnyCertificate
    } else {
        TrustPolicy::Signed(trust::roots(authorities(options.ca_file.as_deref())?))
    };
    trust::client_config(believed)
}
