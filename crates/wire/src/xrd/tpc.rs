//! Third-party copies of the field: the keys in the opaque parts of the opens (spec/xrootd.md §9).
//!
//! The client opens the destination with `tpc.key`, `tpc.src` and the path at the source. After the client's first sync
//! the destination opens the source with the same key and the name of the client (`tpc.org`). Meanwhile the client opens
//! the source with the key and the name of the destination (`tpc.dst`). The copy begins when the source has both opens.

use super::{Opaque, Target};
use base::{Failure, FilePath, Result};

/// Longest key: clients of the field make 24 to 64 characters.
pub const KEY_BYTES_MAX: usize = 256;
/// Longest host with port and user.
const HOST_BYTES_MAX: usize = 512;
/// Longest opaque part that a client passes on to the source.
const PASSED_BYTES_MAX: usize = 16 << 10;
/// Port of sources that name none.
pub const PORT_DEFAULT: u16 = 1094;

/// The secret that the two opens of a source have in common. It never shows itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CopyKey(String);

impl std::fmt::Debug for CopyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CopyKey(..)")
    }
}

impl CopyKey {
    fn parse(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > KEY_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Failure::invalid(format!(
                "tpc.key is not 1 to {KEY_BYTES_MAX} printable characters"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The key, to be sent to the source.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// What an open of a source has to do with a third-party copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceOpen {
    /// The client announces who will fetch the file.
    Offer {
        /// Their secret.
        key: CopyKey,
        /// Name or address of the destination.
        destination: String,
        /// Seconds for which this holds, if the client has a wish.
        ttl_s: Option<u32>,
    },
    /// The destination fetches it.
    Fetch {
        /// Their secret.
        key: CopyKey,
        /// Who asked for the copy: `user.process@host`.
        origin: String,
    },
}

/// What a destination is to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// The secret for the source.
    pub key: CopyKey,
    /// Name or address of the source.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The file there.
    pub path: FilePath,
    /// Whether the source is to be reached by TLS from the first byte.
    pub is_tls: bool,
    /// Size that the client saw at the source.
    pub size: Option<u64>,
    /// Connections to use, if the client has a wish.
    pub streams: Option<u16>,
    /// Checksum to compare: type and, if the client knows it, value in hex.
    pub checksum: Option<(String, Option<String>)>,
    /// What the client passes on to the source; may hold secrets.
    pub passed: Opaque,
}

/// Reads the keys of an open for reading; `None`: an open like any other.
pub fn source_open(opaque: &Opaque) -> Result<Option<SourceOpen>> {
    let (Some(key), destination, origin) =
        (opaque.get("tpc.key"), opaque.get("tpc.dst"), opaque.get("tpc.org"))
    else {
        return Ok(None);
    };
    let key = CopyKey::parse(key)?;
    match (destination, origin) {
        (Some(destination), None) => {
            let destination = host(destination, "tpc.dst")?.0;
            // As servers of the field: what is no number is no wish.
            let ttl_s = opaque.get("tpc.ttl").and_then(|ttl| ttl.parse().ok());
            Ok(Some(SourceOpen::Offer { key, destination, ttl_s }))
        }
        (None, Some(origin)) => {
            if origin.is_empty() || origin.len() > HOST_BYTES_MAX || origin.contains(char::is_control) {
                return Err(Failure::invalid("tpc.org does not name who asked for the copy"));
            }
            Ok(Some(SourceOpen::Fetch { key, origin: origin.to_owned() }))
        }
        _ => Err(Failure::invalid("a third-party source needs tpc.key and either tpc.dst or tpc.org")),
    }
}

/// Reads the keys of an open for writing of `path`; `None`: an open like any other.
pub fn pull(opaque: &Opaque, path: &FilePath) -> Result<Option<Pull>> {
    let (Some(key), Some(source)) = (opaque.get("tpc.key"), opaque.get("tpc.src")) else {
        return Ok(None);
    };
    // A user before the host is what the client says of itself; it proves nothing to anybody.
    let (host, port) = host(source, "tpc.src")?;
    let path =
        opaque.get("tpc.lfn").map_or_else(|| Ok(path.clone()), |lfn| Target::from_text(lfn).path.parse())?;
    Ok(Some(Pull {
        key: CopyKey::parse(key)?,
        host,
        port: port.unwrap_or(PORT_DEFAULT),
        path,
        is_tls: is_tls(opaque.get("tpc.spr"))?,
        size: opaque.get("oss.asize").and_then(|size| size.parse().ok()),
        streams: streams(opaque.get("tpc.str"))?,
        checksum: opaque.get("tpc.cks").map(checksum).transpose()?,
        passed: passed(opaque.get("tpc.scgi").unwrap_or(""))?,
    }))
}

/// The opaque part of a destination's open of the source.
#[must_use]
pub fn fetch_opaque(pull: &Pull, origin: &str) -> Opaque {
    pull.passed.clone().with("tpc.key", pull.key.text()).with("tpc.org", origin)
}

/// Host and port of `[user@]host[:port]`, with brackets around addresses that have colons.
fn host(text: &str, what: &str) -> Result<(String, Option<u16>)> {
    let refuse = || Failure::invalid(format!("{what} {text:?} is not a host"));
    let rest = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let (name, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']').ok_or_else(refuse)?;
            (address, after.strip_prefix(':').or_else(|| after.is_empty().then_some("")).ok_or_else(refuse)?)
        }
        None => rest.split_once(':').unwrap_or((rest, "")),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if name.is_empty() || text.len() > HOST_BYTES_MAX || !name.chars().all(legal) {
        return Err(refuse());
    }
    // Servers of the field write IPv4 addresses as IPv6 ones; certificates name them as they are.
    let mapped = name.parse::<core::net::Ipv6Addr>().ok().and_then(|address| address.to_ipv4_mapped());
    let name = mapped.map_or_else(|| name.to_owned(), |address| address.to_string());
    let port = if port.is_empty() { None } else { Some(port.parse().map_err(|_| refuse())?) };
    Ok((name, port))
}

fn is_tls(protocol: Option<&str>) -> Result<bool> {
    match protocol.unwrap_or("root") {
        "root" | "xroot" => Ok(false),
        "roots" | "xroots" => Ok(true),
        other => Err(Failure::unsupported(format!("third-party copies from {other:?} are not made here"))
            .hint("sources are root:// or roots://; for https:// copy over https:// with davs")),
    }
}

fn streams(text: Option<&str>) -> Result<Option<u16>> {
    let refuse = |text: &str| Failure::invalid(format!("tpc.str {text:?} is not a number of streams"));
    text.map(|text| text.parse().map_err(|_| refuse(text))).transpose()
}

/// `TYPE` or `TYPE:HEX`.
fn checksum(text: &str) -> Result<(String, Option<String>)> {
    let (kind, value) = text.split_once(':').unwrap_or((text, ""));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if kind.is_empty() || !kind.chars().all(is_name) || !value.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(Failure::invalid(format!("tpc.cks {text:?} is not a checksum")));
    }
    let value = (!value.is_empty()).then(|| value.to_ascii_lowercase());
    Ok((kind.to_ascii_lowercase(), value))
}

/// What is passed on: pairs between tabs, without those that steer this copy or the client.
fn passed(text: &str) -> Result<Opaque> {
    if text.len() > PASSED_BYTES_MAX {
        return Err(Failure::invalid(format!("tpc.scgi is longer than {PASSED_BYTES_MAX} bytes")));
    }
    let is_ours = |key: &str| ["tpc.", "xrd.", "xrdcl."].iter().any(|prefix| key.starts_with(prefix));
    let pairs = text.split('\t').filter_map(|pair| pair.split_once('=')).filter(|pair| !is_ours(pair.0));
    // A value with `&` would become another key of ours at the source.
    let pairs = pairs.filter(|pair| !pair.0.is_empty() && !pair.1.contains('&') && !pair.0.contains('&'));
    Ok(pairs.fold(Opaque::default(), |opaque, (key, value)| opaque.with(key, value)))
}

/// Fuzz body: whatever an open carries, it is read or refused, and what is sent on cannot be taken for another copy.
pub fn fuzz_tpc(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let opaque = Opaque::parse(&text);
    let _ = source_open(&opaque);
    if let Ok(Some(pull)) = pull(&opaque, &FilePath::root()) {
        let sent = Opaque::parse(&fetch_opaque(&pull, "u.1@h").to_text());
        let Ok(Some(SourceOpen::Fetch { key, origin })) = source_open(&sent) else {
            assert!(pull.key.text().contains(['&', '=']), "what is sent is a fetch");
            return;
        };
        assert!(key == pull.key && origin == "u.1@h", "the key comes through");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DESTINATION: &str = "oss.asize=1234567&tpc.dlgon=0&tpc.key=0a1b2c&tpc.lfn=/data/run 1&tpc.spr=root&\
                               tpc.src=ann@disk1:1095&tpc.stage=copy&tpc.str=4&tpc.tpr=root";

    fn path() -> FilePath {
        "/here".parse().unwrap()
    }

    fn opaque(text: &str) -> Opaque {
        Opaque::parse(text)
    }

    #[test]
    fn the_destination_learns_where_the_file_is() {
        let pull = pull(&opaque(DESTINATION), &path()).unwrap().unwrap();
        assert_eq!((pull.host.as_str(), pull.port), ("disk1", 1095));
        assert_eq!((pull.path.as_str(), pull.size, pull.streams), ("/data/run 1", Some(1_234_567), Some(4)));
        assert!(!pull.is_tls && pull.checksum.is_none() && pull.passed.is_empty());
        assert_eq!(fetch_opaque(&pull, "ann.7@host").to_text(), "tpc.key=0a1b2c&tpc.org=ann.7@host");
    }

    #[test]
    fn what_is_passed_on_does_not_steer_the_copy() {
        let text = "tpc.key=k&tpc.src=[::1]&tpc.spr=xroots&tpc.cks=Adler32:0A&tpc.scgi=authz=Bearer%20x\ttpc.key=y\txrd.k=1\tb";
        let pull = pull(&opaque(text), &path()).unwrap().unwrap();
        assert_eq!((pull.host.as_str(), pull.port, pull.path.as_str()), ("::1", 1094, "/here"));
        assert!(pull.is_tls);
        assert_eq!(pull.checksum, Some(("adler32".to_owned(), Some("0a".to_owned()))));
        assert_eq!(pull.passed.to_text(), "authz=Bearer%20x");
        assert_eq!(host("[::ffff:192.0.2.7]:1", "tpc.src").unwrap().0, "192.0.2.7");
    }

    #[test]
    fn bad_keys_are_named() {
        for (text, word) in [
            ("tpc.key=&tpc.src=h", "tpc.key"),
            ("tpc.key=a b&tpc.src=h", "tpc.key"),
            ("tpc.key=k&tpc.src=", "tpc.src"),
            ("tpc.key=k&tpc.src=h:x", "tpc.src"),
            ("tpc.key=k&tpc.src=[::1", "tpc.src"),
            ("tpc.key=k&tpc.src=h/x", "tpc.src"),
            ("tpc.key=k&tpc.src=h&tpc.spr=https", "https"),
            ("tpc.key=k&tpc.src=h&tpc.str=-1", "tpc.str"),
            ("tpc.key=k&tpc.src=h&tpc.cks=a:xyz", "tpc.cks"),
            ("tpc.key=k&tpc.src=h&tpc.lfn=/a/../b", ".."),
        ] {
            assert!(pull(&opaque(text), &path()).unwrap_err().what.contains(word), "{text}");
        }
        assert!(pull(&opaque("tpc.stage=placement&tpc.key=k"), &path()).unwrap().is_none());
    }

    #[test]
    fn a_source_is_offered_or_fetched() {
        let offer = source_open(&opaque("tpc.key=k&tpc.dst=dst.example.org&tpc.ttl=9")).unwrap().unwrap();
        let key = CopyKey("k".to_owned());
        let destination = "dst.example.org".to_owned();
        assert_eq!(offer, SourceOpen::Offer { key: key.clone(), destination, ttl_s: Some(9) });
        let fetch = source_open(&opaque("tpc.key=k&tpc.org=ann.7@host")).unwrap().unwrap();
        assert_eq!(fetch, SourceOpen::Fetch { key, origin: "ann.7@host".to_owned() });
        assert_eq!(source_open(&opaque("tpc.stage=placement")).unwrap(), None);
        assert!(source_open(&opaque("tpc.key=k&tpc.org=a&tpc.dst=b")).is_err());
        assert!(source_open(&opaque("tpc.key=k")).is_err());
        assert!(!format!("{:?}", CopyKey("s3cret".to_owned())).contains("s3cret"));
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_tpc(&data);
        }

        #[test]
        fn damaged_opens_never_panic(at in 0usize..200, byte: u8) {
            let mut text = DESTINATION.as_bytes().to_vec();
            let length = text.len();
            text[at % length] = byte;
            fuzz_tpc(&text);
        }
    }
}
