//! Trusted token issuers: how their subjects map to users, and their signing keys.
//!
//! Tokens that name another issuer are not looked at here. An issuer says where its keys are, and may redirect the
//! request: every address obeys the reach rule. Keys are fetched by https, kept, and fetched again in time; one attempt
//! at a time for each issuer.

mod cache;

use crate::facility::config::issuers::IssuerConfig;
use base::{Failure, ReachRule, Result, Timestamp};
use cache::Cache;
use client::Fetch;
use net::shutdown::Token;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tracing::{info, warn};
use wire::auth::token::issued::{Issuer, KeySet, Person, Presented, jwks_place};

/// Longest document of an issuer.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// For one document; a login waits for two at most.
const FETCH_DEADLINE: Duration = Duration::from_secs(8);
/// For somebody else's attempt.
const WAIT_DEADLINE: Duration = Duration::from_secs(20);
/// The path below an issuer's URL where it says where its keys are.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// All trusted issuers.
#[derive(Default)]
pub struct Issuers {
    known: Vec<CachedKeys>,
}

struct CachedKeys {
    issuer: Issuer,
    audiences: Vec<String>,
    authorities: Option<PathBuf>,
    reach: ReachRule,
    /// Guards a few words; never held while anything is waited for.
    cache: Mutex<Cache>,
    /// Held by whoever fetches.
    attempt: tokio::sync::Mutex<()>,
}

impl Issuers {
    /// The issuers of a configuration; `own` are the audiences by which this facility is known to all of them.
    /// `reach` says where their keys may lie.
    pub fn new(configs: &[IssuerConfig], own: &[String], reach: &ReachRule) -> Result<Self> {
        let known = configs.iter().map(|config| {
            Ok(CachedKeys {
                issuer: config.issuer()?,
                audiences: own.iter().chain(&config.audiences).cloned().collect(),
                authorities: Some(config.ca.clone()).filter(|path| !path.as_os_str().is_empty()),
                reach: reach.clone(),
                cache: Mutex::default(),
                attempt: tokio::sync::Mutex::default(),
            })
        });
        Ok(Self { known: known.collect::<Result<_>>()? })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The identity that a token stands for.
    pub async fn admit(&self, token: Presented<'_>, now: Timestamp) -> Result<Person> {
        let known = self.known.iter().find(|known| known.issuer.url == token.issuer()).ok_or_else(|| {
            Failure::permission(format!(
                "token was issued by {:?}, which this facility does not \
                accept",
                token.issuer()
            ))
            .hint("the operator can add the issuer to facility.toml")
        })?;
        let keys = known.keys_for(token.key_id()).await?;
        known.issuer.admit(token.verify(&keys, &known.audiences, now)?)
    }

    /// Fetches keys before they are needed, until `token` says stop.
    pub async fn keep(self: Arc<Self>, token: Token) {
        if self.is_empty() {
            return;
        }
        loop {
            let refresh = async {
                for known in &self.known {
                    known.refresh_if_due().await;
                }
            };
            tokio::select! {
                () = refresh => {}
                () = token.stopped() => return,
            }
            let now = Instant::now();
            let next = self.known.iter().map(|known| known.cache().due(now)).min().unwrap_or(now);
            let pause = next.saturating_duration_since(now).max(Duration::from_secs(1));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = token.stopped() => return,
            }
        }
    }
}

impl CachedKeys {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys with that of `id` among them, if its issuer publishes it. Who can be answered does not wait.
    async fn keys_for(&self, id: Option<&str>) -> Result<Arc<KeySet>> {
        let known = self.cache().keys(Instant::now());
        let _attempt = match known {
            Some(keys) if keys.knows(id) => return Ok(keys),
            Some(keys) => match self.attempt.try_lock() {
                Ok(attempt) => attempt,
                Err(_) => return Ok(keys),
            },
            None => timeout(WAIT_DEADLINE, self.attempt.lock()).await.map_err(|_| self.silent())?,
        };
        let keys = self.cache().keys(Instant::now());
        if let Some(keys) = keys.filter(|keys| keys.knows(id)) {
            return Ok(keys);
        }
        if self.cache().may_ask(Instant::now()) {
            self.attempt().await;
        }
        self.cache().keys(Instant::now()).ok_or_else(|| self.silent())
    }

    async fn refresh_if_due(&self) {
        let _attempt = self.attempt.lock().await;
        let now = Instant::now();
        if self.cache().due(now) <= now {
            self.attempt().await;
        }
    }

    /// Fetches; whoever calls holds the lock on attempts.
    async fn attempt(&self) {
        let (url, authorities, reach) =
            (self.issuer.url.clone(), self.authorities.clone(), self.reach.clone());
        let fetched = net::blocking(move || {
            let fetch = |url: &str| {
                let (authorities, bytes_max) = (authorities.as_deref(), DOCUMENT_BYTES_MAX);
                Fetch { url, authorities, bytes_max, reach: &reach, deadline: FETCH_DEADLINE }.run()
            };
            let place = fetch(&format!("{}{DISCOVERY}", url.trim_end_matches('/')))?;
            KeySet::parse(&fetch(&jwks_place(&place, &url)?)?)
        });
        let fetched = fetched.await;
        match &fetched {
            Ok(_) => info!(issuer = self.issuer.url, "fetched the keys of a token issuer"),
            Err(failure) => {
                warn!(issuer = self.issuer.url, %failure, "cannot fetch the keys of a token issuer");
            }
        }
        self.cache().fetched(fetched.ok(), Instant::now());
    }

    fn silent(&self) -> Failure {
        Failure::permission(format!(
            "cannot fetch the keys of issuer {:?}, so its tokens are refused",
            self.issuer.url
        ))
        .hint("try again in a minute; the daemon's log has the cause")
    }
}

/// The audience by which a door is known that others reach at `host:port`: its URL, without the usual port.
#[must_use]
pub fn audience_of(https: &str) -> String {
    format!("https://{}", https.strip_suffix(":443").unwrap_or(https))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_port_is_not_named() {
        assert_eq!(audience_of("door.example:443"), "https://door.example");
        assert_eq!(audience_of("door.example:8443"), "https://door.example:8443");
    }

    #[tokio::test]
    async fn nobody_is_asked_for_tokens_of_strangers() {
        let config =
            IssuerConfig { url: "https://a".to_owned(), user: "vo".to_owned(), ..IssuerConfig::default() };
        let issuers = Issuers::new(&[config], &[], &ReachRule::default()).unwrap();
        // {"alg":"ES256"}.{"iss":"https://b","exp":9}
        let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2IiLCJleHAiOjl9.c2ln";
        let presented = Presented::parse(token).unwrap().unwrap();
        let refused = issuers.admit(presented, Timestamp(0)).await.unwrap_err();
        assert!(refused.what.contains("\"https://b\", which this facility does not accept"), "{refused}");
        assert!(issuers.known[0].cache().may_ask(Instant::now()), "nothing was asked");
    }
}
