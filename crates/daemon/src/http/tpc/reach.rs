//! Which addresses a third-party copy may go to.
//!
//! Whoever comes over loopback sees more than others do, at this daemon and at other programs of this host. Where tokens
//! are demanded a copy must not lend that to whoever asks for it. What counts is the address that is connected to, at
//! every redirect anew: names may stand for anything.

use base::{Failure, Result};
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpStream, lookup_host};
use wire::http::dav::Place;

/// Connects to the server of a place, to this host itself only with `is_near_open`.
pub(super) async fn connect(place: &Place, is_near_open: bool) -> Result<TcpStream> {
    let host = place.host.as_deref().unwrap_or_default();
    let failed = |cause| Failure::io(format!("connect to {}", place.authority()), &cause);
    let addresses = lookup_host((host, place.port)).await.map_err(failed)?.collect();
    let addresses = if is_near_open { addresses } else { far(host, addresses)? };
    TcpStream::connect(&addresses[..]).await.map_err(failed)
}

/// The addresses of a host that lie beyond this one.
fn far(host: &str, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
    let near = addresses.iter().find(|address| is_near(address.ip())).copied();
    addresses.retain(|address| !is_near(address.ip()));
    match near {
        Some(near) if addresses.is_empty() => {
            let what = format!("the address {} of {host} leads back to this host or its own link", near.ip());
            Err(Failure::permission(what)
                .hint("where tokens are demanded copies go to other hosts only: name one that is not local"))
        }
        _ => Ok(addresses),
    }
}

/// Whether an address leads to this host, or to what answers on its link alone, as the services of clouds do.
fn is_near(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;
    use wire::http::dav::parse_place;

    #[test]
    fn this_host_and_its_link_are_near() {
        for near in [
            "127.0.0.1",
            "127.8.9.10",
            "0.0.0.0",
            "169.254.169.254",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(is_near(near.parse().unwrap()), "{near}");
        }
        for far in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_near(far.parse().unwrap()), "{far}");
        }
    }

    #[test]
    fn a_host_is_reached_where_it_is_far() {
        let (near, far_one): (SocketAddr, SocketAddr) =
            ("127.0.0.1:80".parse().unwrap(), "192.0.2.1:80".parse().unwrap());
        assert_eq!(far("h", vec![near, far_one]).unwrap(), [far_one]);
        assert_eq!(far("h", vec![]).unwrap(), []);
        let failure = far("h", vec![near]).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Permission);
        assert!(failure.what.contains("127.0.0.1 of h"), "{failure}");
    }

    #[tokio::test]
    async fn nobody_is_called_who_is_near() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for name in ["127.0.0.1", "localhost", "0.0.0.0", "127.1"] {
            let place = parse_place(&format!("http://{name}:{port}/")).unwrap();
            assert_eq!(connect(&place, false).await.unwrap_err().kind, ErrorKind::Permission, "{name}");
            connect(&place, true).await.unwrap();
        }
    }
}
