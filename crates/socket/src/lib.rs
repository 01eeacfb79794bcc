//! Options of sockets that the libraries lack.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Sets how many bytes must have come before a receive returns and before the socket counts as readable (`SO_RCVLOWAT`);
/// it begins as 1.
///
/// A receive that ends by its time limit still returns what there is. Costs a system call that does not wait.
pub fn set_receive_low_water(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(io::Error::other)?;
    let (value, length) = ((&raw const bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    #[expect(unsafe_code, reason = "no library that is used here knows this option")]
    // SAFETY: `value` points to `length` bytes that live until the call returns, and it is only read.
    let outcome = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, length) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    #[test]
    fn a_receive_waits_for_so_many_bytes_and_then_for_its_time_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        set_receive_low_water(&receiver, 10).unwrap();
        receiver.set_nonblocking(true).unwrap();
        sender.write_all(b"12345").unwrap();
        let mut buffer = [0; 20];
        receiver.set_nonblocking(false).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 5);
        receiver.set_read_timeout(None).unwrap();
        sender.write_all(b"123").unwrap();
        let writer = std::thread::spawn(move || sender.write_all(b"4567890"));
        assert_eq!(receiver.read(&mut buffer).unwrap(), 10);
        writer.join().unwrap().unwrap();
    }
}
