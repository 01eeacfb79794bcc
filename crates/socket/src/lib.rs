//! Connections: the only place that dials, and system calls on sockets that the libraries lack.
//!
//! **Problem.** A server that connects where its clients ask it to can be used to reach hosts that the clients cannot.
//!
//! **Idea.** One function connects for the whole program, and obeys a [`ReachRule`](base::ReachRule) after the name is resolved.
//!
//! **Start reading** with [`dial`].

mod dial;

pub use dial::{dial, is_own, reachable, resolve};

mod local_peer;

pub use local_peer::user_of_local_peer;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io,
    num::NonZeroUsize,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// Waits until `bytes` have come, nothing more will come, or `patience` is over, whatever is first; the next receive tells
/// which. The thread is not woken for each few bytes before that, which costs more than to move them.
///
/// Costs three system calls. The kernel takes at most half of the largest receive buffer for `bytes`.
pub fn await_bytes(socket: &impl AsFd, bytes: usize, patience: Duration) -> io::Result<()> {
    // A receive with this mark would not do: one that has found a part waits for as many again as the mark says.
    set_receive_low_water(socket, bytes)?;
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    let waited = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout));
    set_receive_low_water(socket, 1)?;
    match waited {
        // Who is interrupted looks what there is, and waits again.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(cause) => Err(cause.into()),
    }
}

/// Sets from how many bytes on that could not be sent yet the socket counts as full (`TCP_NOTSENT_LOWAT`). What is on its
/// way is not counted: it does not make a long path slower. Without `bytes` the system's rule holds.
pub fn set_unsent_max(socket: &impl AsFd, bytes: Option<NonZeroUsize>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes.map_or(0, NonZeroUsize::get))
}

/// Sets how many bytes must have come before the socket counts as readable (`SO_RCVLOWAT`); it begins as 1.
fn set_receive_low_water(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

fn set_option(socket: &impl AsFd, level: libc::c_int, option: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).map_err(io::Error::other)?;
    let (value, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    #[expect(unsafe_code, reason = "no library that is used here knows these options")]
    // SAFETY: `value` points to `length` bytes that live until the call returns, and it is only read.
    let outcome = unsafe { libc::setsockopt(socket, level, option, value, length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    const LONG: Duration = Duration::from_secs(60);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (sender, listener.accept().unwrap().0)
    }

    #[test]
    fn so_many_bytes_are_waited_for_or_the_end_or_the_time_limit() {
        let (mut sender, mut receiver) = pair();
        let mut buffer = [0; 20];
        sender.write_all(b"12345").unwrap();
        await_bytes(&receiver, 10, Duration::from_millis(1)).unwrap();
        let writer = thread::spawn(move || sender.write_all(b"67890"));
        await_bytes(&receiver, 10, LONG).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 10);
        writer.join().unwrap().unwrap();
        await_bytes(&receiver, 10, LONG).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn nothing_stalls_however_the_bytes_come() {
        let (mut sender, mut receiver) = pair();
        let bytes = 64 << 20;
        let writer = thread::spawn(move || {
            let data = vec![7; 1 << 20];
            let mut left = bytes;
            while left > 0 {
                let count = left.min(100_003);
                sender.write_all(&data[..count]).unwrap();
                left -= count;
            }
        });
        let (mut left, mut buffer) = (bytes, vec![0; 256 << 10]);
        while left > 0 {
            let due = left.min(buffer.len());
            await_bytes(&receiver, due, LONG).unwrap();
            left -= receiver.read(&mut buffer[..due]).unwrap();
        }
        writer.join().unwrap();
    }
}
