//! Header fields of WebDAV: `Depth`, `Overwrite`, `Destination` and, of third-party copies, `Source`.

use crate::http::{decode_path, target_names_directory};
use base::{Failure, FilePath, Result, Timestamp};

/// How far below a directory a request reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The thing itself.
    Zero,
    /// And what is directly in it.
    One,
    /// And everything below.
    Infinity,
}

/// Reads a `Depth` field; none means infinity (RFC 4918 §10.2).
pub fn parse_depth(field: Option<&str>) -> Result<Depth> {
    match field.map(str::trim) {
        None => Ok(Depth::Infinity),
        Some("0") => Ok(Depth::Zero),
        Some("1") => Ok(Depth::One),
        Some(text) if text.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
        Some(text) => Err(Failure::invalid(format!("depth {text:?} is not 0, 1 or infinity"))),
    }
}

/// Reads an `Overwrite` field; none means that what is there is replaced (RFC 4918 §10.6).
pub fn parse_overwrite(field: Option<&str>) -> Result<bool> {
    match field.map(str::trim) {
        None | Some("T" | "t") => Ok(true),
        Some("F" | "f") => Ok(false),
        Some(text) => Err(Failure::invalid(format!("overwrite {text:?} is neither T nor F"))),
    }
}

/// Reads an `X-OC-Mtime` field: seconds since 1970, perhaps with a fraction.
///
/// ```
/// use base::Timestamp;
/// use wire::http::dav::parse_mtime;
/// assert_eq!(parse_mtime("1577934245.75"), Ok(Timestamp(1_577_934_245_000)));
/// assert!(parse_mtime("yesterday").is_err());
/// ```
pub fn parse_mtime(field: &str) -> Result<Timestamp> {
    /// The end of the year 9999: no date of HTTP is later.
    const SECONDS_MAX: i64 = 253_402_300_799;
    let refuse = || Failure::invalid(format!("X-OC-Mtime {field:?} is no number of seconds since 1970"));
    let (seconds, fraction) = field.trim().split_once('.').unwrap_or((field.trim(), "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) {
        return Err(refuse());
    }
    let seconds = seconds.parse().ok().filter(|seconds: &i64| *seconds <= SECONDS_MAX).ok_or_else(refuse)?;
    Ok(Timestamp(seconds * 1000))
}

/// Where a `Destination` or `Source` field points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whether TLS is asked for.
    pub is_tls: bool,
    /// Host, without the brackets of an IPv6 address, in lower case; none for a path on the same server.
    pub host: Option<String>,
    /// Port, the scheme's if none is given.
    pub port: u16,
    /// Path and query as they stand in the URL.
    pub target: String,
}

impl Place {
    /// The path of the namespace that this names, if the server is ours.
    pub fn path(&self) -> Result<FilePath> {
        decode_path(self.target.split('?').next().unwrap_or(&self.target))
    }

    /// Whether the path is that of a directory by its form: with a slash at its end.
    #[must_use]
    pub fn names_directory(&self) -> bool {
        target_names_directory(self.target.split('?').next().unwrap_or(&self.target))
    }

    /// Host and port as they stand in `Host` and in URLs.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = self.host.as_deref().unwrap_or("");
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == self.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// The same place, asked for with one more parameter. The value must need no escape.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mark = if self.target.contains('?') { '&' } else { '?' };
        Self { target: format!("{}{mark}{name}={value}", self.target), ..self.clone() }
    }

    fn default_port(&self) -> u16 {
        if self.is_tls { 443 } else { 80 }
    }

    /// The whole URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.target)
    }

    /// Whether it lies on the server that a client reached as `host` (a `Host` field) over TLS or not.
    #[must_use]
    pub fn is_at(&self, host: &str, is_tls: bool) -> bool {
        if self.host.is_none() {
            return true;
        }
        let base = format!("{}://{host}/", if is_tls { "https" } else { "http" });
        parse_place(&base).is_ok_and(|own| own.host == self.host && own.port == self.port)
    }

    /// Follows a `Location` field given in answer to a request for this.
    pub fn follow(&self, location: &str) -> Result<Self> {
        let location = location.trim();
        if location.starts_with('/') && !location.starts_with("//") {
            return Ok(Self { target: checked_target(location)?, ..self.clone() });
        }
        let next = parse_place(location)?;
        match next.host {
            Some(_) => Ok(next),
            None => Err(Failure::invalid(format!("redirect to {:?} names no server", speakable(location)))),
        }
    }
}

/// Reads a URL (`http`, `https`, and the `dav` and `davs` of the grid) or an absolute path.
///
/// ```
/// use wire::http::dav::parse_place;
/// let place = parse_place("davs://se.example:2880/a%20b?token=x")?;
/// assert_eq!(place.url(), "https://se.example:2880/a%20b?token=x");
/// assert_eq!(place.path()?.as_str(), "/a b");
/// # Ok::<(), base::Failure>(())
/// ```
pub fn parse_place(field: &str) -> Result<Place> {
    let field = field.trim();
    if field.starts_with('/') && !field.starts_with("//") {
        return Ok(Place { is_tls: false, host: None, port: 0, target: checked_target(field)? });
    }
    let refuse = |why: &str| {
        let what = format!("{:?} {why}", speakable(field));
        Failure::invalid(what).hint("give an http or https URL")
    };
    let (scheme, rest) = field.split_once("://").ok_or_else(|| refuse("is no URL"))?;
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "http" | "dav" => false,
        "https" | "davs" => true,
        _ => return Err(refuse("has a scheme that is not offered")),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    // Names and passwords in URLs end up in other servers' logs.
    if authority.contains('@') {
        return Err(refuse("has a user name in it"));
    }
    let (host, port) =
        split_authority(authority).ok_or_else(|| refuse("has a host or port that cannot be"))?;
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    Ok(Place {
        is_tls,
        host: Some(host),
        port: port.unwrap_or(if is_tls { 443 } else { 80 }),
        target: checked_target(&target)?,
    })
}

/// The part of a URL or request target that messages and logs may show: no query, which may have tokens, and no password.
///
/// ```
/// use wire::http::dav::speakable;
/// assert_eq!(speakable("https://h:1/pool/f?authz=secret"), "https://h:1/pool/f");
/// assert_eq!(speakable("ftp://name:secret@h/f"), "h/f");
/// ```
#[must_use]
pub fn speakable(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

/// Host in lower case and port.
fn split_authority(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<core::net::Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(is_legal) {
        return None;
    }
    let port = match port {
        None | Some("") => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// A request target goes into a request line: nothing in it may end that line.
fn checked_target(target: &str) -> Result<String> {
    const TARGET_BYTES_MAX: usize = 16 << 10;
    if target.len() > TARGET_BYTES_MAX || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        let path = speakable(target);
        return Err(Failure::invalid(format!("URL path {path:?} has characters that must be encoded")));
    }
    Ok(target.to_owned())
}

/// Fuzz body: whatever is understood is written and read the same.
pub fn fuzz_place(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(place) = parse_place(&text)
        && place.host.is_some()
    {
        assert_eq!(parse_place(&place.url()), Ok(place.clone()));
        assert!(place.is_at(&place.authority(), place.is_tls));
        let _ = (place.path(), place.follow(&text));
    }
    let _ = (parse_depth(Some(&text)), parse_overwrite(Some(&text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places() {
        let place = parse_place("HTTP://Host.Example/a/b#c").unwrap();
        assert_eq!((place.url().as_str(), place.port), ("http://host.example/a/b", 80));
        assert!(place.is_at("host.example", false) && place.is_at("HOST.example:80", false));
        assert!(!place.is_at("host.example:81", false) && !place.is_at("host.example", true));
        let six = parse_place("https://[::1]:8443?x=1").unwrap();
        assert_eq!((six.host.as_deref(), six.url().as_str()), (Some("::1"), "https://[::1]:8443/?x=1"));
        let own = parse_place("/a%20b").unwrap();
        assert!(own.is_at("anything", true) && own.path().unwrap().as_str() == "/a b");
        for bad in [
            "",
            "a",
            "//host/x",
            "ftp://h/",
            "http://",
            "http://h:x/",
            "http://h:99999/",
            "http://u:p@h/",
            "http://[::1/",
            "http://h/a b",
            "http://h/\r\nX: y",
            "http://ho st/",
            "http://[1]/",
        ] {
            assert!(parse_place(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn redirects() {
        let place = parse_place("https://h:1/a").unwrap();
        assert_eq!(place.follow("/b?c").unwrap().url(), "https://h:1/b?c");
        assert_eq!(place.follow("http://g/b").unwrap().url(), "http://g/b");
        assert!(place.follow("//g/b").is_err() && place.follow("b").is_err());
    }

    #[test]
    fn tokens_and_passwords_are_told_to_nobody() {
        let place = parse_place("https://h:1/a").unwrap();
        for bad in [
            "pool/f?authz=SECRET",
            "//h/f?authz=SECRET",
            "/a b?authz=SECRET",
            "https://h/a b?authz=SECRET",
            "ftp://h/f?authz=SECRET",
            "https://h:x/f?authz=SECRET",
            "https://h:x?authz=SECRET",
            "https://h:x/#access_token=SECRET",
            "https://name:SECRET@h/f",
            "name:SECRET@h/f",
        ] {
            for failure in [parse_place(bad).unwrap_err(), place.follow(bad).unwrap_err()] {
                assert!(!format!("{failure:?}").contains("SECRET"), "{failure}");
            }
        }
    }

    #[test]
    fn depths() {
        assert_eq!(parse_depth(None).unwrap(), Depth::Infinity);
        assert_eq!(parse_depth(Some(" Infinity ")).unwrap(), Depth::Infinity);
        assert!(parse_depth(Some("2")).is_err());
        assert!(parse_overwrite(None).unwrap() && !parse_overwrite(Some("F")).unwrap());
        assert!(parse_overwrite(Some("yes")).is_err());
    }

    proptest! {
        #[test]
        fn noise_never_panics(text in "(https?|davs?)://[a-z0-9.\\[\\]:@]{0,12}[/?#a-z%]{0,10}", raw in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_place(text.as_bytes());
            fuzz_place(&raw);
        }
    }
}
