//! Which addresses a server may connect to when a client chooses the destination.
//!
//! A client that names the other end of a copy makes the server connect there. It could so use the server to reach services that
//! it cannot reach itself: services that trust their own host, metadata services of clouds, the local link. The rule is a pure
//! function of the address. The caller applies it after the name lookup, before it connects, and again for every redirect.
//!
//! Private ranges (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7) are allowed, because computer centres use
//! them for their storage.

use crate::{Failure, Result};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// Networks in one configuration; a facility names a few.
pub const NETWORKS_MAX: usize = 256;

/// IPv4 networks that are refused unless they are configured: this network, loopback, link-local, protocol assignments
/// (RFC 6890; one cloud has its metadata service there), multicast, reserved and broadcast, and metadata services elsewhere.
const REFUSED_V4: [Network; 8] = [
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([127, 0, 0, 0], 8),
    Network::v4([169, 254, 0, 0], 16),
    Network::v4([192, 0, 0, 0], 24),
    Network::v4([224, 0, 0, 0], 4),
    Network::v4([240, 0, 0, 0], 4),
    Network::v4([100, 100, 100, 200], 32),
    Network::v4([168, 63, 129, 16], 32),
];

/// The same for IPv6: unspecified, loopback and the deprecated IPv4-compatible form (RFC 4291 §2.5.5.1), link-local, multicast,
/// translation of local use, which hides an IPv4 address at a place that only its translator knows (RFC 8215), discarded
/// (RFC 6666), and metadata services of clouds.
const REFUSED_V6: [Network; 7] = [
    Network::v6([0; 8], 96),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
    Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
    Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
    Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128),
];

/// A network, written `10.1.0.0/16` or `2001:db8::/32`; an address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix }
    }

    const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), prefix }
    }

    /// Whether an address of the same family lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        // Shifting by all bits is not defined; a prefix of 0 holds everything.
        let differs = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let differing = ours.to_bits() ^ other.to_bits();
                differing.checked_shr(32 - u32::from(self.prefix)).unwrap_or(0) != 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let differing = ours.to_bits() ^ other.to_bits();
                differing.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) != 0
            }
            _ => true,
        };
        !differs
    }
}

impl FromStr for Network {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Failure::invalid(format!("{text:?} is not a network"))
                .hint("write it as 127.0.0.0/8, 10.1.2.3 or 2001:db8::/32")
        };
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(refuse)?
            }
            Some(_) => return Err(refuse()),
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl TryFrom<String> for Network {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

/// Which addresses may be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ReachRule {
    /// Networks that are allowed whatever they are; without a list everything is.
    allowed: Option<Arc<[Network]>>,
}

impl ReachRule {
    /// Every address: for a program that connects where its own user, or the facility, says.
    #[must_use]
    pub fn anywhere() -> Self {
        Self::default()
    }

    /// For connections that a client asks for: what leads back to this host or its link is refused unless it is in `allowed`.
    #[must_use]
    pub fn guarded(allowed: &[Network]) -> Self {
        Self { allowed: Some(allowed.into()) }
    }

    /// Whether an address may be connected to, by its class. Whether it is one of this host is not seen from it alone; see
    /// [`ReachRule::is_configured`].
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.is_configured(address) || !is_refused(address)
    }

    /// Whether an address is allowed even if it is one of this host's own: the operator has named it, or there is no limit.
    #[must_use]
    pub fn is_configured(&self, address: IpAddr) -> bool {
        let Some(allowed) = &self.allowed else { return true };
        // The mapped form of an IPv4 address is that address; other forms are sent to somebody else first.
        let plain = address.to_canonical();
        allowed.iter().any(|network| network.contains(address) || network.contains(plain))
    }
}

/// Whether an address, or one that a translator makes of it, is refused by its class.
fn is_refused(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_refused_v4(v4),
        IpAddr::V6(v6) => {
            REFUSED_V6.iter().any(|network| network.contains(v6.into()))
                || embedded(v6).into_iter().flatten().any(is_refused_v4)
        }
    }
}

fn is_refused_v4(address: Ipv4Addr) -> bool {
    REFUSED_V4.iter().any(|network| network.contains(address.into()))
}

/// IPv4 addresses that routers or this host make of an IPv6 address: 6to4 (RFC 3056), NAT64 (RFC 6052), Teredo with its server and
/// its client (RFC 4380), ISATAP (RFC 5214).
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let [first, second, third, fourth, fifth, sixth, ..] = address.segments();
    let bits = address.to_bits();
    let at = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    let isatap = (matches!(fifth, 0 | 0x200) && sixth == 0x5efe).then(|| at(0));
    match (first, second) {
        (0x2002, _) => [Some(at(80)), None, isatap],
        (0x64, 0xff9b) if (third, fourth, fifth, sixth) == (0, 0, 0, 0) => [Some(at(0)), None, None],
        (0x2001, 0) => [Some(at(64)), Some(Ipv4Addr::from_bits(!at(0).to_bits())), None],
        _ => [isatap, None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn guarded(networks: &[&str]) -> ReachRule {
        let networks: Vec<Network> = networks.iter().map(|text| text.parse().unwrap()).collect();
        ReachRule::guarded(&networks)
    }

    #[test]
    fn what_leads_back_is_refused_and_the_rest_is_not() {
        let rule = guarded(&[]);
        for refused in [
            "127.0.0.1",
            "127.8.9.10",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "192.0.0.192",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::1",
            "2001:0:7f00:1::",
            "2001::80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:127.0.0.1",
        ] {
            assert!(!rule.allows(ip(refused)), "{refused}");
            assert!(ReachRule::anywhere().allows(ip(refused)), "{refused}");
        }
        for allowed in [
            "192.0.2.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "2001:db8::1",
            "fd12:3456::1",
            "::ffff:192.0.2.1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::1",
        ] {
            assert!(rule.allows(ip(allowed)), "{allowed}");
            assert!(!rule.is_configured(ip(allowed)), "{allowed}");
        }
    }

    #[test]
    fn what_is_configured_is_allowed_and_nothing_else() {
        let rule = guarded(&["127.0.0.0/8", "::1", "169.254.7.7"]);
        for (address, is_allowed) in [
            ("127.9.9.9", true),
            ("::ffff:127.0.0.1", true),
            ("::1", true),
            ("169.254.7.7", true),
            ("169.254.7.8", false),
            ("0.0.0.0", false),
            ("2002:7f00:1::", false),
            ("64:ff9b::127.0.0.1", false),
        ] {
            assert_eq!(rule.allows(ip(address)), is_allowed, "{address}");
        }
        assert!(guarded(&["0.0.0.0/0", "::/0"]).allows(ip("127.0.0.1")));
    }

    #[test]
    fn networks_are_written_as_they_are_read() {
        for text in ["127.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1/128"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3/32");
        for bad in
            ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10/8", "::1%lo/128"]
        {
            let failure = bad.parse::<Network>().unwrap_err();
            assert!(failure.hint.is_some(), "{failure}");
        }
    }

    fn v4() -> impl Strategy<Value = Ipv4Addr> {
        // Half of them from ranges that are refused.
        prop_oneof![
            any::<u32>().prop_map(Ipv4Addr::from_bits),
            (0usize..REFUSED_V4.len(), any::<u32>()).prop_map(|(which, low)| {
                let Network { address: IpAddr::V4(base), prefix } = REFUSED_V4[which] else { unreachable!() };
                let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                Ipv4Addr::from_bits(base.to_bits() | low & host_bits)
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_form_of_a_refused_address_is_refused(v4 in v4(), suffix: u64, own: u16) {
            let rule = guarded(&[]);
            let bits = u128::from(v4.to_bits());
            let forms = [
                bits | 0xffff << 32,
                0x2002 << 112 | bits << 80 | u128::from(suffix),
                0x64_ff9b << 96 | bits,
                0x2001 << 112 | bits << 64 | u128::from(suffix),
                0x2001 << 112 | 0xc000_0201 << 64 | u128::from(!v4.to_bits()),
                0x2001_0db8 << 96 | u128::from(own) << 64 | 0x5efe << 32 | bits,
            ];
            if !rule.allows(v4.into()) {
                for form in forms {
                    prop_assert!(!rule.allows(Ipv6Addr::from_bits(form).into()), "{}", Ipv6Addr::from_bits(form));
                }
            } else {
                prop_assert!(rule.allows(v4.to_ipv6_mapped().into()));
            }
        }

        #[test]
        fn standard_classes_are_refused(bits: u128, v4: u32) {
            let (six, four) = (Ipv6Addr::from_bits(bits), Ipv4Addr::from_bits(v4));
            let rule = guarded(&[]);
            let is_near = |four: Ipv4Addr| {
                four.is_loopback() || four.is_link_local() || four.is_unspecified() || four.is_multicast() || four.is_broadcast()
            };
            prop_assert!(!(is_near(four) && rule.allows(four.into())));
            prop_assert!(!((six.is_multicast() || six.is_unicast_link_local()) && rule.allows(six.into())));
            if four.is_private() {
                prop_assert!(rule.allows(four.into()));
            }
        }

        #[test]
        fn a_network_holds_its_addresses(base: u128, prefix in 0u8..=128, other: u128) {
            let network = Network { address: Ipv6Addr::from_bits(base).into(), prefix };
            let same = prefix == 0 || (base ^ other) >> (128 - u32::from(prefix)) == 0;
            prop_assert_eq!(network.contains(Ipv6Addr::from_bits(other).into()), same);
            prop_assert!(network.contains(Ipv6Addr::from_bits(base).into()));
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
        }
    }
}
