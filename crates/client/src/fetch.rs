//! Fetches small documents of other services by https.

use crate::ControlTls;
use crate::control::tls_config;
use base::{ErrorKind, Failure, Result};
use std::{path::Path, time::Duration};
use ureq::Agent;

/// What to fetch, and how much patience there is.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<'a> {
    /// `https://…`; every redirect, too, must be one.
    pub url: &'a str,
    /// Authorities to believe, PEM; none: those of the system.
    pub authorities: Option<&'a Path>,
    /// Longest document.
    pub bytes_max: u64,
    /// For all of it: to find, reach and greet the server, and to receive the document.
    pub deadline: Duration,
}

impl Fetch<'_> {
    /// Fetches it. May wait for as long as the deadline says.
    pub fn run(&self) -> Result<Vec<u8>> {
        let url = self.url;
        if !url.starts_with("https://") {
            return Err(Failure::permission(format!("{url} is not fetched: it is not https")));
        }
        let tls = ControlTls { authorities: self.authorities.map(Path::to_owned), ..ControlTls::default() };
        let config = Agent::config_builder()
            .https_only(true)
            .proxy(None)
            .timeout_global(Some(self.deadline))
            .tls_config(tls_config(&tls)?);
        let agent: Agent = config.build().into();
        let failed = |cause: ureq::Error| {
            let kind = match cause {
                ureq::Error::Timeout(_) => ErrorKind::Timeout,
                ureq::Error::BodyExceedsLimit(_) => ErrorKind::Invalid,
                _ => ErrorKind::Unavailable,
            };
            Failure::new(kind, format!("fetch {url}: {cause}"))
        };
        let mut answer = agent.get(url).call().map_err(failed)?;
        answer.body_mut().with_config().limit(self.bytes_max).read_to_vec().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_fetched() {
        for url in ["http://127.0.0.1:9/", "file:///etc/passwd", ""] {
            let fetch = Fetch { url, authorities: None, bytes_max: 9, deadline: Duration::from_secs(1) };
            assert_eq!(fetch.run().unwrap_err().kind, ErrorKind::Permission, "{url}");
        }
    }
}
