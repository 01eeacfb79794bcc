//! TLS of one connection, driven by hand between two system calls: no task, no thread, no runtime.

use super::transport::Attempt;
use rustls::{ServerConfig, ServerConnection};
use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::TcpStream,
    sync::Arc,
};

/// Received from the socket at once: several records, so that uploads are not dominated by receive calls.
const RECEIVE_BYTES: usize = 64 << 10;
/// The same before the peer has proven who it is.
const UNPROVEN_RECEIVE_BYTES: usize = 4 << 10;
/// Encrypted ahead of the socket.
const SEND_BYTES_MAX: usize = 256 << 10;

/// The state of TLS on a connection.
#[derive(Debug)]
pub(super) struct Encrypted {
    connection: ServerConnection,
    /// Received and not yet given to `connection`: `start..` of it.
    incoming: Vec<u8>,
    start: usize,
    /// Bytes that are decrypted and were not taken yet.
    decrypted: usize,
    /// Received at once at most.
    receive_bytes: usize,
}

impl Encrypted {
    /// Begins the handshake. `early` was received after the request for TLS and belongs to it.
    pub(super) fn new(config: Arc<ServerConfig>, early: &[u8]) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(broken)?;
        connection.set_buffer_limit(Some(SEND_BYTES_MAX));
        let receive_bytes = UNPROVEN_RECEIVE_BYTES;
        Ok(Self { connection, incoming: early.to_vec(), start: 0, decrypted: 0, receive_bytes })
    }

    /// Receives several records at once from now on: the peer has proven who it is.
    pub(super) fn set_generous(&mut self) {
        self.receive_bytes = RECEIVE_BYTES;
    }

    /// Whether bytes can be taken without the socket.
    pub(super) fn has_plain(&self) -> bool {
        self.decrypted > 0 || self.start < self.incoming.len()
    }

    /// Whether encrypted bytes wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Receives at least one byte of plain text; the end of the stream is an error. Looks at the socket once: a peer that
    /// sends what holds no text, or a record byte by byte, does not keep the thread.
    pub(super) fn receive(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> Attempt {
        let mut may_fetch = true;
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.decrypted = self.decrypted.saturating_sub(count);
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.start == self.incoming.len() {
                if !may_fetch || !self.fetch(socket)? {
                    // What the handshake has to say must not wait for the peer.
                    self.push(socket)?;
                    return Ok(None);
                }
                may_fetch = false;
            }
            self.decrypt(socket)?;
        }
    }

    /// Receives encrypted bytes; `false` if there are none.
    fn fetch(&mut self, socket: &TcpStream) -> io::Result<bool> {
        self.incoming.resize(self.receive_bytes, 0);
        self.start = 0;
        let received = loop {
            match (&mut &*socket).read(&mut self.incoming) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received,
            }
        };
        // Whatever came of it, what is left in the buffer from before is not taken for received.
        self.incoming.truncate(*received.as_ref().unwrap_or(&0));
        match received {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Gives what was received to the protocol, and its answers to the socket.
    fn decrypt(&mut self, socket: &TcpStream) -> io::Result<()> {
        let mut rest = &self.incoming[self.start..];
        self.start += self.connection.read_tls(&mut rest)?;
        match self.connection.process_new_packets() {
            Ok(state) => self.decrypted = state.plaintext_bytes_to_read(),
            Err(cause) => {
                // The alert that tells the peer why; if it does not leave now, the end of the connection tells.
                let _ = self.push(socket);
                return Err(broken(cause));
            }
        }
        self.push(socket).map(drop)
    }

    /// Sends some of `slices`: takes what fits and encrypts it, if the socket has taken all that was before.
    pub(super) fn send(&mut self, socket: &TcpStream, slices: &[IoSlice<'_>]) -> Attempt {
        if !self.push(socket)? {
            return Ok(None);
        }
        let taken = self.connection.writer().write_vectored(slices)?;
        self.push(socket)?;
        Ok(Some(taken))
    }

    /// Moves encrypted bytes to the socket; `false` if some are left.
    pub(super) fn push(&mut self, socket: &TcpStream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut &*socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Tells the peer that nothing more comes.
    pub(super) fn farewell(&mut self, socket: &TcpStream) {
        self.connection.send_close_notify();
        // A peer that does not listen any more need not know.
        let _ = self.push(socket);
    }

    /// Gives memory back if nothing is in it.
    pub(super) fn shrink(&mut self) {
        if self.start == self.incoming.len() {
            (self.incoming, self.start) = (Vec::new(), 0);
        }
    }
}

fn broken(cause: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
    use std::{net::TcpListener, thread};

    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("c"), made.cert.pem()).unwrap();
        std::fs::write(path("k"), made.signing_key.serialize_pem()).unwrap();
        let identity = crate::tls::Identity { certificate: path("c"), key: path("k"), client_ca: None };
        let server = crate::tls::server_config(&identity).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(crate::tls::roots(&path("c")).unwrap())
            .with_no_client_auth();
        (server, Arc::new(client))
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    /// Sends back what comes, until the peer says that nothing more will.
    fn echo(tls: &mut Encrypted, socket: &TcpStream) -> usize {
        let (mut buffer, mut total) = (vec![0; 5000], 0);
        loop {
            match tls.receive(socket, &mut buffer) {
                Ok(Some(count)) => {
                    total += count;
                    let mut sent = 0;
                    while sent < count {
                        let halves = buffer[sent..count].split_at((count - sent) / 2);
                        let slices = [IoSlice::new(halves.0), IoSlice::new(halves.1)];
                        sent += tls.send(socket, &slices).unwrap().unwrap_or(0);
                    }
                }
                Ok(None) => thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return total,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn bytes_come_back_whole_in_any_pieces() {
        let (server_config, client_config) = configs();
        let (client, socket) = pair();
        let sent: Vec<u8> = (0..400_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let expected = sent.clone();
        let server = thread::spawn(move || {
            let mut tls = Encrypted::new(server_config, &[]).unwrap();
            let total = echo(&mut tls, &socket);
            tls.shrink();
            tls.farewell(&socket);
            total
        });
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(client_config, name).unwrap(), client);
        let mut back = Vec::new();
        for piece in sent.chunks(50_000) {
            stream.write_all(piece).unwrap();
            let at = back.len();
            back.resize(at + piece.len(), 0);
            stream.read_exact(&mut back[at..]).unwrap();
        }
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        assert_eq!(server.join().unwrap(), expected.len());
        assert!(back == expected);
    }

    #[test]
    fn a_record_that_comes_byte_by_byte_keeps_nobody() {
        let (server_config, _) = configs();
        let (mut client, socket) = pair();
        socket.set_nonblocking(false).unwrap();
        let (said, heard) = std::sync::mpsc::channel();
        let server = thread::spawn(move || {
            let mut tls = Encrypted::new(server_config, &[]).unwrap();
            for _ in 0..5 {
                said.send(tls.receive(&socket, &mut [0; 10]).unwrap()).unwrap();
            }
        });
        // The header of a long record of the handshake.
        for byte in [0x16, 3, 1, 0x30, 0] {
            client.write_all(&[byte]).unwrap();
            let received = heard.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
            assert_eq!(received, None, "it does not wait for the next byte");
        }
        server.join().unwrap();
    }

    #[test]
    fn plain_text_instead_of_a_handshake_is_an_error_and_no_panic() {
        let (server_config, _) = configs();
        let (mut client, socket) = pair();
        client.write_all(&[0; 100]).unwrap();
        let mut tls = Encrypted::new(server_config, b"GET / HTTP/1.1").unwrap();
        assert!(tls.has_plain());
        let error = loop {
            match tls.receive(&socket, &mut [0; 10]) {
                Ok(None) => {}
                Ok(Some(_)) => panic!("nothing can be decrypted"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
