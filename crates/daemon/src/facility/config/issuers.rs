//! Issuers of tokens in the configuration.

use base::{Failure, FilePath, Result, check_name};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use wire::auth::token::issued::Issuer;

/// Issuers that one facility believes.
const ISSUERS_MAX: usize = 64;

/// An issuer whose tokens are accepted beside the facility's own; the section is repeated for each issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerConfig {
    /// URL of the issuer, exactly as its tokens name it in `iss`; https only.
    pub url: String,
    /// Further audiences that tokens may name; `https://host:port` of the https door is always accepted.
    pub audiences: Vec<String>,
    /// Directory in which the paths of its scopes begin; its tokens grant nothing outside; empty: `/`.
    pub base_path: String,
    /// User of subjects that `users` does not name; empty: they are refused.
    pub user: String,
    /// Users of subjects: `"subject" = "user"`.
    pub users: BTreeMap<String, String>,
    /// Groups of its groups: `"/vo/group" = "group"`; others are ignored.
    pub groups: BTreeMap<String, String>,
    /// Authorities of its https server, a PEM file; empty: those of the system.
    pub ca: PathBuf,
}

impl IssuerConfig {
    /// What its tokens mean here.
    pub fn issuer(&self) -> Result<Issuer> {
        let base = if self.base_path.is_empty() { "/" } else { &self.base_path };
        let base: FilePath = base.parse().map_err(|cause: Failure| {
            cause.during("base_path").hint("it is a directory of the facility, as /vo")
        })?;
        Ok(Issuer {
            url: self.url.clone(),
            base,
            user: Some(self.user.clone()).filter(|user| !user.is_empty()),
            users: self.users.clone(),
            groups: self.groups.clone(),
        })
    }

    fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if !self.url.starts_with("https://") || self.url.len() > wire::auth::token::issued::NAME_BYTES_MAX {
            return refuse(format!("url = {:?} is not an https URL", self.url), "write it as its tokens do");
        }
        if self.user.is_empty() && self.users.is_empty() {
            return refuse(
                "its subjects have no users here".to_owned(),
                "set user for all of them, or users for those that are meant",
            );
        }
        let names = [&self.user].into_iter().filter(|user| !user.is_empty());
        names.chain(self.users.values()).try_for_each(|name| check_name("user", name))?;
        self.groups.values().try_for_each(|name| check_name("group", name))?;
        if self.audiences.iter().any(String::is_empty) {
            return refuse("an audience is empty".to_owned(), "write it as the issuer's tokens do");
        }
        self.issuer().map(drop)
    }
}

/// Refuses issuers that cannot be told apart, and those that make no sense.
pub fn check(issuers: &[IssuerConfig]) -> Result<()> {
    if issuers.len() > ISSUERS_MAX {
        return Err(Failure::invalid(format!("{} issuers are more than {ISSUERS_MAX}", issuers.len()))
            .hint("remove unused ones"));
    }
    let mut known = BTreeSet::new();
    for issuer in issuers {
        issuer.check().map_err(|failure| failure.during(format!("issuer {:?}", issuer.url)))?;
        if !known.insert(&issuer.url) {
            return Err(Failure::invalid(format!("issuer {:?} is there twice", issuer.url))
                .hint("use one table for each issuer"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::facility::config::Config;

    const GOOD: &str = r#"[[issuers]]
url = "https://issuer.example/vo"
audiences = ["https://door.example"]
base_path = "/vo"
user = "vo"
users = { s1 = "ann" }
groups = { "/vo/prod" = "prod" }
"#;

    #[test]
    fn issuers_are_written_as_they_are_read() {
        let config = Config::parse(GOOD).unwrap();
        let issuer = config.issuers[0].issuer().unwrap();
        assert_eq!((issuer.base.as_str(), issuer.user.as_deref()), ("/vo", Some("vo")));
        assert_eq!(issuer.users["s1"], "ann");
        assert_eq!(issuer.groups["/vo/prod"], "prod");
        assert_eq!(Config::parse(&config.text()).unwrap(), config);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (from, to, word) in [
            ("https://issuer", "http://issuer", "not an https URL"),
            ("user = \"vo\"", "user = \"v:o\"", "v:o"),
            ("\"ann\"", "\"ann,root\"", "ann,root"),
            ("\"/vo\"\n", "\"vo\"\n", "base_path"),
            ("[\"https://door.example\"]", "[\"\"]", "audience"),
            ("base_path", "basepath", "basepath"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            let failure = Config::parse(&text).unwrap_err();
            assert!(failure.what.contains(word) && failure.hint.is_some(), "{failure}");
        }
        let failure = Config::parse(&GOOD.repeat(2)).unwrap_err();
        assert!(failure.what.contains("twice"), "{failure}");
        let nobody = GOOD.replace("user = \"vo\"\n", "").replace("s1 = \"ann\"", "");
        assert!(Config::parse(&nobody).unwrap_err().what.contains("no users here"));
    }
}
