//! Which user of this host is at the other end of a connection over loopback.
//!
//! The other end of such a connection is a socket of the same kernel, and the kernel knows who made it. It is asked
//! through `sock_diag` (sock_diag(7)) for the socket that has the connection's addresses and ports the other way round.

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    SockDiagMessage,
    constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2},
    inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr as NetlinkAddress, protocols::NETLINK_SOCK_DIAG};
use std::{io, net::SocketAddr};

/// The cookie that fits every socket (`INET_DIAG_NOCOOKIE`).
const ANY_COOKIE: [u8; 8] = [0xff; 8];
/// The kernel, as a netlink address.
const KERNEL: (u32, u32) = (0, 0);
/// Longest answer about one socket without extensions: some hundred bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// The user id that owns the socket at the other end of a TCP connection over loopback; `None` if there is no such
/// socket, or not any more.
///
/// Ask right after the connection was accepted. The kernel gives a socket that its process has closed to root, and takes its
/// inode away: such a one counts as nobody's. One of which only the sending half is closed still has its process.
///
/// # Errors
/// The kernel has no `sock_diag`, or refuses it.
///
/// # Cost
/// Four system calls, none of which waits.
pub fn user_of_local_peer(local: SocketAddr, peer: SocketAddr) -> io::Result<Option<u32>> {
    let (local, peer) = (canonical(local), canonical(peer));
    if !peer.ip().is_loopback() || local.is_ipv4() != peer.is_ipv4() {
        return Ok(None);
    }
    let found = ask(local, peer)?;
    Ok(found.filter(|found| is_peer(found, local, peer)).map(|found| found.uid))
}

/// An IPv4 address that came in the form of IPv6 is looked up as the former.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether the kernel told of the very socket, and of one that a process still has.
fn is_peer(found: &InetResponseHeader, local: SocketAddr, peer: SocketAddr) -> bool {
    let SocketId { source_port, destination_port, source_address, destination_address, .. } =
        &found.socket_id;
    // Of a listening socket the kernel tells if there is no connection.
    [TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2].contains(&found.state)
        && found.inode != 0
        && (*source_port, *destination_port) == (peer.port(), local.port())
        && source_address.to_canonical() == peer.ip()
        && destination_address.to_canonical() == local.ip()
}

fn ask(local: SocketAddr, peer: SocketAddr) -> io::Result<Option<InetResponseHeader>> {
    let socket = Socket::new(NETLINK_SOCK_DIAG)?;
    // The answer is there when the request has been sent: the kernel makes it meanwhile.
    socket.set_non_blocking(true)?;
    socket.connect(&NetlinkAddress::new(KERNEL.0, KERNEL.1))?;
    let request = request(local, peer);
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let length = socket.recv(&mut &mut answer[..], 0)?;
    understand(answer.get(..length).unwrap_or(&answer))
}

fn request(local: SocketAddr, peer: SocketAddr) -> NetlinkMessage<SockDiagMessage> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let request = InetRequest {
        family: if peer.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: peer.port(),
            destination_port: local.port(),
            source_address: peer.ip(),
            destination_address: local.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        },
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    message
}

fn understand(answer: &[u8]) -> io::Result<Option<InetResponseHeader>> {
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => Ok(Some(response.header)),
        NetlinkPayload::Error(error) if error.raw_code() == -libc::ENOENT => Ok(None),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        other => Err(io::Error::other(format!("sock_diag answered with something else: {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{Shutdown, TcpListener, TcpStream},
        os::fd::AsFd,
    };

    fn connected(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn user_at(server: &TcpStream) -> Option<u32> {
        user_of_local_peer(server.local_addr().unwrap(), server.peer_addr().unwrap()).unwrap()
    }

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_other_end_of_a_connection_is_whose_the_socket_is() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (_client, server) = connected(address);
            assert_eq!(user_at(&server), Some(own()), "{address}");
        }
    }

    #[test]
    fn an_ipv4_peer_of_a_listener_for_both_is_found() {
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(user_at(&listener.accept().unwrap().0), Some(own()));
    }

    #[test]
    fn a_socket_that_was_given_to_another_user_is_his() {
        if own() != 0 {
            println!("skipped: only root gives sockets away");
            return;
        }
        let (client, server) = connected("127.0.0.1:0");
        rustix::fs::fchown(client.as_fd(), Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
        assert_eq!(user_at(&server), Some(65534));
    }

    #[test]
    fn who_has_left_is_nobody_and_never_root() {
        let (client, server) = connected("127.0.0.1:0");
        let (local, peer) = (server.local_addr().unwrap(), server.peer_addr().unwrap());
        drop(client);
        assert_eq!(user_of_local_peer(local, peer).unwrap(), None);
        let (client, server) = connected("127.0.0.1:0");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(user_at(&server), Some(own()), "half closed");
        drop(client);
        assert_eq!(user_at(&server), None, "closed");
    }

    #[test]
    fn a_listener_is_not_taken_for_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        let stranger: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(user_of_local_peer(stranger, listening).unwrap(), None);
        let far: SocketAddr = "192.0.2.1:9".parse().unwrap();
        assert_eq!(user_of_local_peer(listening, far).unwrap(), None);
    }
}
