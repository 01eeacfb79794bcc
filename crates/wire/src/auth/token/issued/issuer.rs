//! Maps the subjects and groups of an issuer to users and groups of the facility.

use super::Verified;
use crate::auth::token::Scopes;
use base::{Failure, FilePath, Result, Timestamp};
use std::collections::BTreeMap;

/// An issuer whose tokens are taken, and what they mean here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its URL, exactly as its tokens name it.
    pub url: String,
    /// Its tokens mean nothing outside of this directory, and their paths begin here.
    pub base: FilePath,
    /// The user of subjects that are not in `users`; none: they are refused.
    pub user: Option<String>,
    /// Users of subjects.
    pub users: BTreeMap<String, String>,
    /// Groups of its groups; others mean nothing.
    pub groups: BTreeMap<String, String>,
}

/// Whom a token speaks of, in words of the facility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The user.
    pub user: String,
    /// Groups, the first one that of new files.
    pub groups: Vec<String>,
    /// What the token allows; what the user may do is a limit, too.
    pub scopes: Scopes,
    /// When the token ends.
    pub expires: Timestamp,
}

impl Issuer {
    /// Maps a verified token to its user.
    ///
    /// A token with scopes allows what these allow below the issuer's directory. A token without scopes must have a
    /// group or a subject that the configuration of the issuer names.
    pub fn admit(&self, token: Verified) -> Result<Person> {
        let Verified { subject, scopes, groups, expires, .. } = token;
        let named = self.users.get(&subject);
        let user = named.or(self.user.as_ref()).cloned().ok_or_else(|| {
            Failure::permission(format!("subject {subject:?} of {} has no user here", self.url))
                .hint("the operator can add it to `users` of the issuer in facility.toml")
        })?;
        if let Some(scopes) = scopes {
            let scopes = scopes.below(&self.base)?;
            return Ok(Person { user, groups: Vec::new(), scopes, expires });
        }
        let mut own: Vec<String> = Vec::new();
        for group in groups.iter().filter_map(|group| self.groups.get(group)) {
            if !own.contains(group) {
                own.push(group.clone());
            }
        }
        if own.is_empty() && named.is_none() {
            let what =
                format!("token of {subject:?} has neither a storage scope nor a group that is known here");
            return Err(Failure::permission(what)
                .hint("ask its issuer for one with scopes such as storage.read:/path"));
        }
        Ok(Person { user, groups: own, scopes: Scopes::everything_below(&self.base), expires })
    }
}
