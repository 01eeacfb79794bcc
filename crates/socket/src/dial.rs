//! The one dialer: looks a name up, asks the reach rule about each address, connects.
//!
//! What counts is the address that is connected to: a name may stand for anything, and for something else the next moment. So
//! nobody looks a name up twice, and whoever follows a redirect comes here again.

use base::{Failure, ReachRule, Result};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    time::Duration,
};

/// Connects to the first address of `host` that answers, of those that `rule` allows. Blocks.
pub fn dial(host: &str, port: u16, rule: &ReachRule, timeout: Duration) -> Result<(TcpStream, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "host has no address");
    for address in resolve(host, port, rule)? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => last = error,
        }
    }
    Err(Failure::io(format!("connect to {}", authority(host, port)), &last))
}

/// The addresses of `host` that `rule` allows; none of them is a failure. Blocks for as long as the name is looked up.
pub fn resolve(host: &str, port: u16, rule: &ReachRule) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|cause| Failure::io(format!("look up {host}"), &cause))?;
    reachable(found, rule).ok_or_else(|| refused(host, port))
}

/// Those of the addresses of one host that `rule` allows; `None` if there were some and it allows none.
///
/// Addresses of this host are refused like loopback: whoever connects from here to here is seen with an address of this host,
/// which some services take for a proof.
pub fn reachable(found: impl Iterator<Item = SocketAddr>, rule: &ReachRule) -> Option<Vec<SocketAddr>> {
    let found: Vec<_> = found.collect();
    let is_good = |ip| rule.is_configured(ip) || rule.allows(ip) && !is_own(ip);
    let good: Vec<_> = found.iter().filter(|address| is_good(address.ip())).copied().collect();
    (!good.is_empty() || found.is_empty()).then_some(good)
}

/// Whether an address belongs to this host: a packet to it would leave with that same address.
///
/// A datagram socket is connected, which asks the kernel for a route and sends nothing. Without a route the address is somebody
/// else's.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        // The port means nothing here; 0 is refused by some kernels.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    own.is_ok_and(|own| own.ip().to_canonical() == address.to_canonical())
}

/// One message for all that is refused: it does not say what is there, nor what the name stands for.
fn refused(host: &str, port: u16) -> Failure {
    let what = format!("this server does not connect to {} for its clients", authority(host, port));
    Failure::permission(what).hint(
        "addresses of this server, loopback and link-local are refused; its operator can allow networks by \
         `[reach] allow` in facility.toml",
    )
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn guarded(networks: &[&str]) -> ReachRule {
        let networks: Vec<_> = networks.iter().map(|text| text.parse().unwrap()).collect();
        ReachRule::guarded(&networks)
    }

    #[test]
    fn an_open_port_of_this_host_is_not_told_from_a_closed_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap().port();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for name in ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "::ffff:127.0.0.1"] {
            let told = |port: u16| {
                let failure = dial(name, port, &guarded(&[]), PATIENCE).unwrap_err();
                assert_eq!(failure.kind, ErrorKind::Permission, "{name}");
                (failure.what.replace(&port.to_string(), "PORT"), failure.hint)
            };
            assert_eq!(told(open), told(closed), "{name}");
        }
        dial("127.0.0.1", open, &guarded(&["127.0.0.0/8"]), PATIENCE).unwrap();
        dial("127.0.0.1", open, &ReachRule::anywhere(), PATIENCE).unwrap();
        let failure = dial("127.0.0.1", closed, &guarded(&["127.0.0.1"]), PATIENCE).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Unavailable);
    }

    #[test]
    fn a_host_is_reached_where_it_is_allowed() {
        let (near, far) = ("127.0.0.1:80".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
        assert_eq!(reachable([near, far].into_iter(), &guarded(&[])), Some(vec![far]));
        assert_eq!(reachable([near].into_iter(), &guarded(&[])), None);
        assert_eq!(reachable([near].into_iter(), &guarded(&["127.0.0.1"])), Some(vec![near]));
        assert_eq!(reachable([].into_iter(), &guarded(&[])), Some(vec![]));
    }

    #[test]
    fn this_host_knows_its_own_addresses() {
        assert!(is_own(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        // The range is for documentation: nobody has it.
        assert!(!is_own("192.0.2.77".parse().unwrap()));
        let probe = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Where there is a route to the world, the address that it would be used with is our own.
        if probe.connect("192.0.2.77:9").is_ok() {
            let own = probe.local_addr().unwrap().ip();
            assert!(is_own(own), "{own}");
            assert_eq!(reachable([(own, 1).into()].into_iter(), &guarded(&[])), None);
            assert!(reachable([(own, 1).into()].into_iter(), &guarded(&["0.0.0.0/0"])).is_some());
        }
    }
}
