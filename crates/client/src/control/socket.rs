//! The Unix socket of a facility's daemon as a transport of the HTTP client.
//!
//! Only users who may enter the facility's directory can connect, and the kernel tells the daemon who they are. The
//! socket of a dead daemon refuses connections. So no secret is needed, and no other process can answer in the daemon's
//! place.

use crate::facility::SOCKET;
use base::Failure;
use rustix::{
    fs::{Mode, OFlags, open},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
        sockopt::{Timeout as Waiting, set_socket_timeout},
    },
};
use std::{
    fmt, io,
    io::{Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use ureq::{
    Agent, Error, Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport},
    },
};

/// What requests over the socket are addressed to: HTTP wants a host, and this one is here.
pub(super) const ADDRESS: &str = "http://localhost";

/// How long connecting may take: it waits while as many others wait as the daemon's queue holds.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Connects to the daemon that serves `directory`.
///
/// The path of a socket has at most 107 bytes, and directories may be deep. So the socket is named relative to the
/// directory, by way of a file descriptor of it.
pub(crate) fn connect(directory: &Path) -> io::Result<UnixStream> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = open(directory, flags, Mode::empty())?;
    let name = format!("/proc/self/fd/{}/{SOCKET}", descriptor.as_raw_fd());
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Waiting::Send, Some(CONNECT_DEADLINE))?;
    connect_to(&socket, &SocketAddrUnix::new(name)?)?;
    Ok(socket.into())
}

/// Why the daemon of `directory` cannot be reached, and what to do.
pub(crate) fn unreachable(directory: &Path, cause: &io::Error) -> Failure {
    let place = directory.display();
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Failure::unavailable(format!("the facility in {place} is not running"))
                .hint(format!("`bp up {place}` starts it"))
        }
        io::ErrorKind::PermissionDenied => Failure::permission(format!(
            "the directory {place} is closed to this user"
        ))
        .hint(
            "give the facility's http:// or https:// endpoint instead; `bp status` prints it for the owner",
        ),
        io::ErrorKind::WouldBlock => {
            Failure::timeout(format!("the facility in {place} accepts no more calls"))
                .hint(format!("read {place}/log/bpd.log"))
        }
        _ => Failure::io(format!("connect to {place}/{SOCKET}"), cause),
    }
}

/// An agent whose every connection goes to the socket in `directory`, whatever a URL says.
pub(super) fn agent(config: Config, directory: &Path) -> Agent {
    Agent::with_parts(config, Door(directory.into()), NoAddress)
}

/// Opens connections to the socket in a directory.
struct Door(PathBuf);

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.0.display())
    }
}

impl Connector for Door {
    type Out = Conversation;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Conversation>, Error> {
        let stream = connect(&self.0)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Conversation { stream: Arc::new(stream), buffers }))
    }
}

/// Yields an address that is not used: the HTTP client asks for one before it connects.
#[derive(Debug)]
struct NoAddress;

impl Resolver for NoAddress {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push((std::net::Ipv4Addr::UNSPECIFIED, 0).into());
        Ok(addresses)
    }
}

/// One connection.
struct Conversation {
    stream: Arc<UnixStream>,
    buffers: LazyBuffers,
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation(..)")
    }
}

impl Transport for Conversation {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(left(&timeout)?)?;
        let output = &self.buffers.output()[..amount];
        (&*self.stream).write_all(output).map_err(|cause| refused(cause, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(left(&timeout)?)?;
        let input = self.buffers.input_append_buf();
        let amount = loop {
            match (&*self.stream).read(input) {
                // A signal to the process is not the end of a conversation; the caller counts the time.
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome.map_err(|cause| refused(cause, timeout.reason))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whether it may be used for another request: nothing has come unasked, not even the end.
    fn is_open(&mut self) -> bool {
        let silent = |stream: &UnixStream| {
            stream.set_nonblocking(true)?;
            let outcome = { stream }.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, io::Error>(outcome.is_err_and(|cause| cause.kind() == io::ErrorKind::WouldBlock))
        };
        silent(&self.stream).unwrap_or(false)
    }
}

/// How long a system call may take.
fn left(timeout: &NextTimeout) -> Result<Option<Duration>, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(timeout.not_zero().map(|left| *left))
}

fn refused(cause: io::Error, reason: Timeout) -> Error {
    match cause.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, control::tests::answer_once};
    use base::ErrorKind;
    use rustix::fs::CWD;
    use std::os::unix::net::UnixListener;
    use wire::control::{GetKeys, KeyGenerations};

    /// Listens in a directory, however deep.
    fn listen(directory: &Path) -> UnixListener {
        let descriptor =
            rustix::fs::openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", descriptor.as_raw_fd())).unwrap()
    }

    fn deep(home: &Path) -> PathBuf {
        let deep = home.join(["a-directory-with-a-long-name"; 8].join("/"));
        std::fs::create_dir_all(&deep).unwrap();
        assert!(deep.as_os_str().len() > 200, "longer than any path of a socket");
        deep
    }

    #[test]
    fn calls_go_over_the_socket_of_a_deep_directory_and_show_no_proof() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = deep(scratch.path());
        let listener = listen(&directory);
        let server =
            std::thread::spawn(move || answer_once(listener.accept().unwrap().0, r#"{"generations":[]}"#));
        let control = Control::at_socket(&directory, "ann");
        assert_eq!(control.call(&GetKeys {}).unwrap(), KeyGenerations::default());
        let request = server.join().unwrap();
        assert!(request.contains("host: localhost\r\n") && request.contains("x-backplane-user: ann\r\n"));
        assert!(!request.to_lowercase().contains("authorization"), "{request}");
    }

    #[test]
    fn the_socket_of_a_dead_daemon_says_that_the_facility_is_not_running() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = deep(scratch.path());
        let control = Control::at_socket(&directory, "ann");
        let told = |failure: base::Failure| {
            assert_eq!(failure.kind, ErrorKind::Unavailable, "{failure}");
            assert!(failure.what.contains("not running"), "{failure}");
            assert!(failure.hint.unwrap().contains("bp up "));
        };
        told(control.call(&GetKeys {}).unwrap_err());
        drop(listen(&directory));
        told(control.call(&GetKeys {}).unwrap_err());
    }
}
