//! `root://host:port//path?opaque`, `roots://` with TLS.

use base::{Failure, FilePath};
use std::{fmt, str::FromStr};
use wire::xrd::Opaque;

/// The port of the protocol.
pub const PORT_DEFAULT: u16 = 1094;

/// Where a file is, as people write it.
///
/// `Display` leaves the opaque part out: it may hold a capability or a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XrdUrl {
    /// Encrypted from the start: `roots://`.
    pub is_tls: bool,
    /// The user before `@`, if there is one.
    pub user: Option<String>,
    /// Host name or address; IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Which file.
    pub path: FilePath,
    /// What follows `?`.
    pub opaque: Opaque,
}

impl XrdUrl {
    /// The same server, another path, no opaque part.
    #[must_use]
    pub fn with_path(&self, path: FilePath) -> Self {
        Self { path, opaque: Opaque::default(), ..self.clone() }
    }

    /// `host:port` with brackets where IPv6 needs them.
    #[must_use]
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

/// `host:port` with brackets where IPv6 needs them.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Refuses a path that a request cannot name: what follows a question mark is no part of the path there.
pub(super) fn check_path(path: &FilePath) -> Result<(), Failure> {
    let text = path.as_str();
    if text.contains('?') {
        let failure = Failure::invalid(format!("path {text:?} has a question mark"));
        return Err(failure.hint("the XRootD protocol cannot name it; use HTTP"));
    }
    Ok(())
}

impl FromStr for XrdUrl {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (shown, opaque) = text.split_once('?').unwrap_or((text, ""));
        let refuse =
            |why: &str| Failure::invalid(format!("url {shown:?} {why}")).hint("write root://host:port//path");
        let schemes = [("root://", false), ("xroot://", false), ("roots://", true), ("xroots://", true)];
        let rest = schemes.iter().find_map(|(scheme, tls)| Some((shown.strip_prefix(scheme)?, *tls)));
        let (rest, is_tls) = rest.ok_or_else(|| refuse("does not begin with root:// or roots://"))?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (user, place) =
            authority.rsplit_once('@').map_or((None, authority), |(u, p)| (Some(u.to_owned()), p));
        let (host, port) = split_port(place).ok_or_else(|| refuse("has no valid host and port"))?;
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(refuse("has no valid host and port"));
        }
        Ok(Self {
            is_tls,
            user,
            host: host.to_owned(),
            port,
            path: path.parse()?,
            opaque: Opaque::parse(opaque),
        })
    }
}

/// Splits `host:port`, `[v6]:port`, or either without port.
fn split_port(place: &str) -> Option<(&str, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => place.find(':').map_or((place, ""), |at| place.split_at(at)),
    };
    match port.strip_prefix(':') {
        Some(port) => Some((host, port.parse().ok()?)),
        None if port.is_empty() => Some((host, PORT_DEFAULT)),
        None => None,
    }
}

impl fmt::Display for XrdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "roots" } else { "root" };
        write!(f, "{scheme}://{}/{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_field_are_understood() {
        let url: XrdUrl = "root://me@disk1.site:1095//data/a b?authz=x&y=1".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.host.as_str(), url.port), (Some("me"), "disk1.site", 1095));
        assert_eq!(url.path.as_str(), "/data/a b");
        assert_eq!(url.opaque.get("authz"), Some("x"));
        assert_eq!(url.to_string(), "root://disk1.site:1095//data/a b");
        let six: XrdUrl = "xroot://[::1]//x".parse().unwrap();
        assert_eq!((six.host.as_str(), six.port), ("::1", PORT_DEFAULT));
        assert_eq!(six.to_string(), "root://[::1]:1094//x");
        assert_eq!("root://h".parse::<XrdUrl>().unwrap().path, FilePath::root());
        let encrypted: XrdUrl = "roots://h//x".parse().unwrap();
        assert!(encrypted.is_tls && !six.is_tls);
        assert_eq!(encrypted.to_string(), "roots://h:1094//x");
    }

    #[test]
    fn paths_that_requests_cannot_name_are_refused() {
        let failure = check_path(&"/what?".parse().unwrap()).unwrap_err();
        assert!(failure.what.contains("question mark") && failure.hint.is_some(), "{failure:?}");
        assert!(check_path(&"/a b=c&d%41 #".parse().unwrap()).is_ok());
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_secrets() {
        for bad in
            ["", "/data", "http://h/x", "root:///x", "root://h:x//y", "root://h:99999//y", "root://[::1//y"]
        {
            assert!(bad.parse::<XrdUrl>().is_err(), "{bad:?}");
        }
        let failure = "rootz://h//x?authz=s3cret".parse::<XrdUrl>().unwrap_err();
        assert!(!failure.what.contains("s3cret"));
    }
}
