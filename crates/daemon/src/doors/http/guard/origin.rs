//! Refuses requests that a web page of another site makes a browser send.
//!
//! A browser on this host reaches the doors as its user does, and it runs pages of other sites. Three fields of their
//! requests give them away:
//!
//! - `Host` has the name of the page's site, also if that name was pointed to a loopback address later (DNS rebinding);
//! - `Origin` and `Sec-Fetch-Site` name the site of the page (Fetch standard, Fetch Metadata);
//! - so does `Referer`.
//!
//! Other programs send the name by which they reach the door, and none of the other fields.

use axum::http::{HeaderMap, HeaderName, Request, StatusCode, Version, header, uri::Authority};
use base::Failure;
use rustls::{
    client::verify_server_name,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};
use std::{net::IpAddr, path::PathBuf};

/// Where the browser says from where a request is made.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names by which a door may be addressed.
#[derive(Debug, Clone, Default)]
pub struct DoorNames {
    /// In lower case, beside loopback.
    given: Vec<String>,
    /// The file of the certificate that the door shows: its names are the door's.
    certificate: Option<PathBuf>,
}

impl DoorNames {
    /// Loopback, these, and those in the certificate.
    pub fn new(given: impl IntoIterator<Item = String>, certificate: Option<PathBuf>) -> Self {
        let given = given.into_iter().filter(|name| !name.is_empty());
        Self { given: given.map(|name| name.to_ascii_lowercase()).collect(), certificate }
    }

    fn has(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let is_loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        host == "localhost"
            || is_loopback()
            || self.given.iter().any(|name| name == host)
            || self.is_in_certificate(host)
    }

    /// Reads the file each time: only who uses an unusual name comes here, and the certificate may have been renewed.
    fn is_in_certificate(&self, host: &str) -> bool {
        let Some(file) = &self.certificate else { return false };
        let Ok(name) = ServerName::try_from(host) else { return false };
        let shown = CertificateDer::from_pem_file(file);
        shown.is_ok_and(|shown| {
            ParsedCertificate::try_from(&shown).is_ok_and(|shown| verify_server_name(&shown, &name).is_ok())
        })
    }
}

/// Refuses a request that is not meant for this door, or that a page of another site has made.
pub(in crate::doors::http) fn check<B>(
    names: &DoorNames,
    request: &Request<B>,
    is_tls: bool,
) -> Result<(), (StatusCode, Failure)> {
    check_codings(request.headers())?;
    // HTTP/1.0 had no such field: who leaves it out there makes no mistake, but is not served either.
    let is_demanded = request.version() >= Version::HTTP_11;
    let unclear = if is_demanded { StatusCode::BAD_REQUEST } else { StatusCode::MISDIRECTED_REQUEST };
    let host = named(request).map_err(|failure| (unclear, failure))?;
    addressed(names, request, &host).map_err(|failure| (StatusCode::MISDIRECTED_REQUEST, failure))?;
    came_from_here(request.headers(), &host, is_tls).map_err(|failure| (StatusCode::FORBIDDEN, failure))
}

/// Refuses a body that is coded in a way that this door cannot undo (RFC 9112 §6.1): its bytes are not those of the file.
fn check_codings(headers: &HeaderMap) -> Result<(), (StatusCode, Failure)> {
    let fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    let fields: Vec<_> = fields.map(|field| String::from_utf8_lossy(field.as_bytes())).collect();
    let codings = fields.iter().flat_map(|field| field.split(',')).map(str::trim);
    let others = || codings.clone().filter(|coding| !coding.eq_ignore_ascii_case("chunked"));
    if codings.clone().count() > others().count() + 1 {
        return Err((StatusCode::BAD_REQUEST, Failure::invalid("the body is chunked twice")));
    }
    match others().find(|coding| !coding.is_empty()) {
        Some(coding) => {
            let failure = Failure::unsupported(format!("transfer coding {coding:?} is not known here"));
            Err((StatusCode::NOT_IMPLEMENTED, failure.hint("send the body chunked, or with its length")))
        }
        None => Ok(()),
    }
}

/// The one host that the request names (RFC 9112 §3.2).
fn named<B>(request: &Request<B>) -> Result<Authority, Failure> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (fields.next(), fields.next()) else {
        return Err(Failure::invalid("a request must have one Host field"));
    };
    let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let host = host.filter(|host| !host.as_str().contains('@'));
    host.ok_or_else(|| Failure::invalid("the Host field holds no name of a host"))
}

/// Refuses a request for a host that is not this door.
fn addressed<B>(names: &DoorNames, request: &Request<B>, host: &Authority) -> Result<(), Failure> {
    let refused = |what: String| {
        Failure::permission(what)
            .hint("use localhost, the address of the door, or a name in `doors.names` of facility.toml")
    };
    if !names.has(host.host()) {
        return Err(refused(format!("this door is not called {:?}", host.host())));
    }
    // RFC 9112 §3.2.2: what stands in the target counts, and ours must not depend on which of them is read.
    if request.uri().authority().is_some_and(|target| !target.as_str().eq_ignore_ascii_case(host.as_str())) {
        return Err(refused("the target of the request names another host than its Host field".to_owned()));
    }
    Ok(())
}

fn came_from_here(headers: &HeaderMap, host: &Authority, is_tls: bool) -> Result<(), Failure> {
    let refused = |field: &str| {
        Err(Failure::permission(format!(
            "the request was made by a web page of another site (field {field})"
        ))
        .hint("open the page of this facility itself, or use a program that is no browser"))
    };
    if headers.get_all(FETCH_SITE).iter().any(|site| site != "none" && site != "same-origin") {
        return refused("Sec-Fetch-Site");
    }
    let scheme = if is_tls { "https" } else { "http" };
    let is_own = |place: &[u8]| {
        let place = std::str::from_utf8(place).ok();
        let authority = place.and_then(|place| place.strip_prefix(scheme)?.strip_prefix("://"));
        let authority = authority.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
    };
    for field in [header::ORIGIN, header::REFERER] {
        if headers.get_all(&field).iter().any(|place| !is_own(place.as_bytes())) {
            return refused(field.as_str());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(fields: &[(&'static str, &'static str)], target: &str) -> u16 {
        let mut request = Request::get(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let names =
            DoorNames::new(["Door.Example.org".to_owned(), "192.0.2.7".to_owned(), String::new()], None);
        check(&names, &request.body(()).unwrap(), false).err().map_or(200, |(status, _)| status.as_u16())
    }

    #[test]
    fn a_request_names_this_door_once() {
        for good in [
            "localhost",
            "LOCALHOST:8094",
            "localhost.",
            "127.0.0.1:8094",
            "127.3.2.1",
            "[::1]:8094",
            "door.example.org",
            "192.0.2.7:1",
        ] {
            assert_eq!(outcome(&[("host", good)], "/x"), 200, "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "192.0.2.8",
            "[::2]",
            "0.0.0.0",
            "127.0.0.1.evil.example",
            "door.example.org.evil",
            "2130706433",
            "xn--localhost",
        ] {
            assert_eq!(outcome(&[("host", bad)], "/x"), 421, "{bad}");
        }
        for malformed in ["", "a b", "evil@localhost"] {
            assert_eq!(outcome(&[("host", malformed)], "/x"), 400, "{malformed}");
        }
        assert_eq!(outcome(&[], "/x"), 400, "none");
        assert_eq!(outcome(&[("host", "localhost"), ("host", "localhost")], "/x"), 400, "two");
        assert_eq!(outcome(&[("host", "localhost:1")], "http://localhost:1/x"), 200);
        for target in ["http://evil.example/x", "http://localhost:2/x", "http://u@localhost:1/x"] {
            assert_eq!(outcome(&[("host", "localhost:1")], target), 421, "{target}");
        }
    }

    #[test]
    fn bodies_are_chunked_once_or_not() {
        for (coding, code) in
            [("chunked", 200), ("Chunked,", 200), ("chunked, chunked", 400), ("gzip, chunked", 501)]
        {
            let fields = [("host", "localhost"), ("transfer-encoding", coding)];
            assert_eq!(outcome(&fields, "/x"), code, "{coding}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let with = |name, value| outcome(&[("host", "localhost:1"), (name, value)], "/x");
        for (name, value) in [
            ("origin", "http://localhost:1"),
            ("origin", "http://LOCALHOST:1"),
            ("referer", "http://localhost:1/console?a#b"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert_eq!(with(name, value), 200, "{name}: {value}");
        }
        for (name, value) in [
            ("origin", "null"),
            ("origin", "http://evil.example"),
            ("origin", "http://localhost:2"),
            ("origin", "https://localhost:1"),
            ("origin", "http://localhost:1.evil.example"),
            ("origin", "http://localhost:1@evil.example"),
            ("origin", ""),
            ("referer", "http://evil.example/localhost:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "odd"),
        ] {
            assert_eq!(with(name, value), 403, "{name}: {value}");
        }
        let twice = [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
        assert_eq!(outcome(&twice, "/x"), 403);
    }

    #[test]
    fn the_names_in_the_certificate_are_the_doors() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let names = vec!["*.example.org".to_owned(), "192.0.2.9".to_owned()];
        let shown = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(file.path(), shown.cert.pem()).unwrap();
        let names = DoorNames::new([], Some(file.path().to_owned()));
        assert!(names.has("a.example.org") && names.has("192.0.2.9") && names.has("localhost"));
        assert!(!names.has("example.org") && !names.has("a.b.example.org") && !names.has("192.0.2.8"));
    }
}
