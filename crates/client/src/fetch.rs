//! Fetches small documents of other services by https.

use crate::{ControlTls, control::tls_config};
use base::{ErrorKind, Failure, ReachRule, Result};
use std::{fmt, path::Path, time::Duration};
use ureq::{
    Agent,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

/// A document to fetch, with its limits of size and time.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<'a> {
    /// `https://…`; every redirect, too, must be one.
    pub url: &'a str,
    /// Authorities to believe, PEM; none: those of the system.
    pub authorities: Option<&'a Path>,
    /// Longest document.
    pub bytes_max: u64,
    /// Which addresses may be connected to, also where a server sends us.
    pub reach: &'a ReachRule,
    /// For all of it: to find, reach and greet the server, and to receive the document.
    pub deadline: Duration,
}

impl Fetch<'_> {
    /// Fetches it. May wait for as long as the deadline says.
    pub fn run(&self) -> Result<Vec<u8>> {
        let url = self.url;
        if !url.starts_with("https://") {
            return Err(Failure::permission(format!("{url} is not fetched, because it is not https")));
        }
        let tls = ControlTls { authorities: self.authorities.map(Path::to_owned), ..ControlTls::default() };
        let config = Agent::config_builder()
            .https_only(true)
            .proxy(None)
            .timeout_global(Some(self.deadline))
            .tls_config(tls_config(&tls)?);
        let resolver = RestrictedResolver { resolver: DefaultResolver::default(), rule: self.reach.clone() };
        let agent = Agent::with_parts(config.build(), DefaultConnector::default(), resolver);
        let failed = |cause: ureq::Error| {
            let kind = match cause {
                ureq::Error::Timeout(_) => ErrorKind::Timeout,
                ureq::Error::BodyExceedsLimit(_) => ErrorKind::Invalid,
                ureq::Error::Other(_) => ErrorKind::Permission,
                _ => ErrorKind::Unavailable,
            };
            Failure::new(kind, format!("fetch {url}: {cause}"))
        };
        let mut answer = agent.get(url).call().map_err(failed)?;
        answer.body_mut().with_config().limit(self.bytes_max).read_to_vec().map_err(failed)
    }
}

/// Looks names up, and hides the addresses that must not be connected to.
struct RestrictedResolver {
    resolver: DefaultResolver,
    rule: ReachRule,
}

impl fmt::Debug for RestrictedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

impl Resolver for RestrictedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.resolver.resolve(uri, config, timeout)?;
        let good = socket::reachable(found.iter().copied(), &self.rule);
        let Some(good) = good else {
            let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
            let what = format!(
                "connecting to {authority} is not allowed; `[reach] allow` in facility.toml can \
                allow it"
            );
            return Err(ureq::Error::Other(what.into()));
        };
        let mut addresses = self.resolver.empty();
        for address in good {
            addresses.push(address);
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_fetched() {
        for url in ["http://127.0.0.1:9/", "file:///etc/passwd", ""] {
            let (reach, deadline) = (&ReachRule::anywhere(), Duration::from_secs(1));
            let fetch = Fetch { url, authorities: None, bytes_max: 9, reach, deadline };
            assert_eq!(fetch.run().unwrap_err().kind, ErrorKind::Permission, "{url}");
        }
    }

    #[test]
    fn what_leads_back_is_not_fetched() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let (reach, deadline) = (&ReachRule::guarded(&[]), Duration::from_secs(5));
        let fetch = Fetch { url: &url, authorities: None, bytes_max: 9, reach, deadline };
        assert_eq!(fetch.run().unwrap_err().kind, ErrorKind::Permission);
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
    }
}
