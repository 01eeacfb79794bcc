//! Who asks, and what they may do: the same answer for every door.
//!
//! A token says both and is checked here alone, without asking the head. Without one, whoever comes over loopback is
//! who they say, unless the facility demands tokens.

use crate::{hosts::Roster, issuers::Issuers};
use base::{Failure, FilePath, Result};
use head::{Clock, Principal};
use std::{fmt, net::IpAddr, sync::Arc};
use wire::token::{
    Claims, Right, Scopes, TokenKey,
    foreign::{Person, Presented},
};

/// Somebody whom a door serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who it is, for the head's own permissions.
    pub who: Principal,
    limits: Limits,
}

/// What is added to the permissions of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Limits {
    /// Nothing.
    None,
    /// What a token says. Without scopes the user's permissions alone count.
    Token { scopes: Option<Scopes>, expires: base::Timestamp, is_of_job: bool, lease: Option<Lease> },
    /// Everything is refused, for this reason.
    Nothing(Failure),
}

/// A token is good as long as a host belongs to the facility, also in sessions that go on.
#[derive(Clone)]
struct Lease {
    host: String,
    roster: Roster,
}

impl Lease {
    fn is_over(&self) -> bool {
        !self.roster.has(&self.host)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.host).finish()
    }
}

impl PartialEq for Lease {
    fn eq(&self, other: &Self) -> bool {
        self.host == other.host
    }
}

impl Eq for Lease {}

impl Identity {
    /// Somebody who needs no token.
    #[must_use]
    pub fn trusted(who: Principal) -> Self {
        Self { who, limits: Limits::None }
    }

    /// Somebody who could not prove who they are, and hears so at whatever they want to do.
    #[must_use]
    pub fn refused(failure: Failure) -> Self {
        Self { who: Principal::user("nobody"), limits: Limits::Nothing(failure) }
    }

    /// Whether a token narrows what this user may do.
    #[must_use]
    pub fn is_scoped(&self) -> bool {
        matches!(self.limits, Limits::Token { scopes: Some(_), .. })
    }

    /// Refuses jobs that would make jobs: each would have a token of its own, so that none of them ever ended.
    pub fn may_submit(&self) -> Result<()> {
        match self.limits {
            Limits::Token { is_of_job: true, .. } => Err(Failure::permission(format!(
                "the token of a job of {:?} cannot submit other jobs",
                self.who.name
            ))
            .hint("submit them with a token of your own: `bp token create` makes one")),
            _ => Ok(()),
        }
    }

    /// Refuses what the token does not allow, or no longer.
    pub fn may(&self, right: Right, path: &FilePath, now: base::Timestamp) -> Result<()> {
        self.is_good(now)?;
        match &self.limits {
            Limits::Token { scopes: Some(scopes), .. } if !scopes.allow(right, path) => {
                let what =
                    format!("token of {:?} does not allow to {} {path}", self.who.name, right.as_str());
                let hint = if scopes.is_empty() {
                    "it has no storage scope".to_owned()
                } else {
                    format!("it allows {scopes}")
                };
                Err(Failure::permission(what).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// Refuses who is nobody, and tokens that are over.
    pub fn is_good(&self, now: base::Timestamp) -> Result<()> {
        match &self.limits {
            Limits::Token { expires, .. } if *expires <= now => {
                Err(Failure::permission(format!("token of {:?} has expired", self.who.name))
                    .hint("get a new one: `bp token create` makes those of this facility"))
            }
            Limits::Token { lease: Some(lease), .. } if lease.is_over() => Err(Failure::permission(format!(
                "token of {:?} was made for a job on a host that was turned away or has joined anew",
                self.who.name
            ))
            .hint("the worker of a job that still runs gets a new one")),
            Limits::Nothing(failure) => Err(failure.clone()),
            _ => Ok(()),
        }
    }
}

/// Decides who somebody is.
#[derive(Clone)]
pub struct Gate {
    key: TokenKey,
    facility: Arc<str>,
    owner: Arc<str>,
    is_token_required: bool,
    clock: Clock,
    issuers: Arc<Issuers>,
    roster: Roster,
}

impl Gate {
    /// The gate of the facility with id `facility`, whose owner may do everything.
    pub fn new(key: TokenKey, facility: &str, owner: &str, is_token_required: bool, clock: Clock) -> Self {
        let (facility, owner, issuers) = (facility.into(), owner.into(), Arc::default());
        Self { key, facility, owner, is_token_required, clock, issuers, roster: Roster::default() }
    }

    /// Takes tokens of jobs on these hosts.
    #[must_use]
    pub fn with_hosts(self, roster: Roster) -> Self {
        Self { roster, ..self }
    }

    /// Takes tokens of these issuers, too.
    #[must_use]
    pub fn with_issuers(self, issuers: Arc<Issuers>) -> Self {
        Self { issuers, ..self }
    }

    /// Whether everybody must bring a token.
    #[must_use]
    pub fn is_token_required(&self) -> bool {
        self.is_token_required
    }

    /// Who may do everything.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> base::Timestamp {
        (self.clock)()
    }

    /// The bearer of a token. May wait for the keys of its issuer.
    pub async fn bearer(&self, token: &str) -> Result<Identity> {
        if !self.issuers.is_empty()
            && let Some(presented) = Presented::parse(token)?
        {
            return self.outsider(self.issuers.admit(presented, self.now()).await?);
        }
        let Claims { subject, scopes, groups, expires, is_of_job, host, .. } =
            self.key.verify(token, &self.facility, self.now())?;
        // Scopes bind the owner too: a token that was narrowed is no master key.
        let is_operator = subject == *self.owner;
        // Whoever has a right to anything by scopes has nothing by groups.
        let groups = if scopes.is_some() { Vec::new() } else { groups };
        let lease = host.map(|host| Lease { host, roster: self.roster.clone() });
        let identity = Identity {
            who: Principal { is_operator, groups, ..Principal::user(&subject) },
            limits: Limits::Token { scopes, expires, is_of_job, lease },
        };
        identity.is_good(self.now()).map(|()| identity)
    }

    /// Somebody whom another issuer knows. No issuer can make an operator.
    fn outsider(&self, person: Person) -> Result<Identity> {
        let Person { user, groups, scopes, expires } = person;
        if user == *self.owner {
            return Err(Failure::permission(format!(
                "only this facility's own tokens speak for {user}, its owner"
            ))
            .hint("the operator can name another user for this subject in facility.toml"));
        }
        Ok(Identity {
            who: Principal { groups, ..Principal::user(&user) },
            limits: Limits::Token { scopes: Some(scopes), expires, is_of_job: false, lease: None },
        })
    }

    /// Whoever says that their name is `name` and proves nothing.
    pub fn claimed(&self, name: &str, address: IpAddr) -> Result<Identity> {
        if self.is_token_required || !address.to_canonical().is_loopback() {
            return Err(Failure::permission("this facility wants to see a token")
                .hint("`bp token create` makes one; clients find it in BEARER_TOKEN and send it over TLS"));
        }
        Ok(Identity::trusted(Principal { is_operator: name == &*self.owner, ..Principal::user(name) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Member;
    use base::{Millis, Timestamp};
    use wire::{control::HostNames, token::enrolment};

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn gate(is_token_required: bool) -> Gate {
        Gate::new(TokenKey::derive(&[1; 32]), "f00", "root", is_token_required, Arc::new(|| NOW))
    }

    fn token(subject: &str, scopes: Option<&str>) -> String {
        let claims = Claims {
            issuer: "f00".to_owned(),
            subject: subject.to_owned(),
            audience: Vec::new(),
            id: String::new(),
            issued: NOW,
            starts: NOW,
            expires: NOW + Millis(1000),
            scopes: scopes.map(|scopes| Scopes::parse(scopes).unwrap()),
            groups: vec!["prod".to_owned()],
            is_of_job: false,
            host: None,
        };
        TokenKey::derive(&[1; 32]).sign(&claims)
    }

    #[tokio::test]
    async fn tokens_of_jobs_end_with_their_host() {
        let member = |joined| Member {
            name: "c1".to_owned(),
            enrolment: enrolment("c1", joined),
            roles: Vec::new(),
            reached: HostNames::default(),
        };
        let claims = Claims {
            issuer: "f00".to_owned(),
            subject: "ann".to_owned(),
            audience: Vec::new(),
            id: String::new(),
            issued: NOW,
            starts: NOW,
            expires: NOW + Millis(1000),
            scopes: None,
            groups: Vec::new(),
            is_of_job: true,
            host: Some(enrolment("c1", NOW)),
        };
        let token = TokenKey::derive(&[1; 32]).sign(&claims);
        let roster = Roster::default();
        let gate = gate(true).with_hosts(roster.clone());
        roster.set([("certificate".to_owned(), member(NOW))]);
        let session = gate.bearer(&token).await.unwrap();
        session.is_good(NOW).unwrap();
        for later in [vec![], vec![("another".to_owned(), member(NOW + Millis(1)))]] {
            roster.set(later);
            let refused = gate.bearer(&token).await.unwrap_err();
            assert!(refused.what.contains("turned away") && refused.hint.is_some(), "{refused}");
            assert!(session.is_good(NOW).is_err(), "a session that goes on");
        }
    }

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    #[test]
    fn loopback_is_trusted_unless_tokens_are_demanded() {
        let root = gate(false).claimed("root", LOOPBACK).unwrap();
        assert!(root.who.is_operator && root.may(Right::Modify, &path("/"), NOW).is_ok());
        assert!(!gate(false).claimed("alice", "::1".parse().unwrap()).unwrap().who.is_operator);
        assert!(gate(false).claimed("root", "192.0.2.1".parse().unwrap()).is_err());
        assert!(gate(true).claimed("root", LOOPBACK).unwrap_err().hint.is_some());
        assert!(gate(false).claimed("x", "::ffff:127.0.0.1".parse().unwrap()).is_ok());
    }

    #[tokio::test]
    async fn scopes_bind_everybody_and_only_while_the_token_holds() {
        let owner = gate(true).bearer(&token("root", Some("storage.read:/data"))).await.unwrap();
        assert!(owner.who.is_operator && owner.is_scoped() && !owner.who.is_in("prod"));
        assert!(owner.may(Right::Read, &path("/data/x"), NOW).is_ok());
        let refused = owner.may(Right::Modify, &path("/data/x"), NOW).unwrap_err();
        assert!(refused.what.contains("does not allow to modify /data/x"), "{refused}");
        assert_eq!(refused.hint.as_deref(), Some("it allows storage.read:/data"));
        assert!(owner.may(Right::Read, &path("/other"), NOW).is_err());
        assert!(
            owner
                .may(Right::Read, &path("/data/x"), NOW + Millis(1000))
                .unwrap_err()
                .what
                .contains("expired")
        );
    }

    #[test]
    fn no_issuer_speaks_for_the_owner() {
        let person = |user: &str| Person {
            user: user.to_owned(),
            groups: vec!["prod".to_owned()],
            scopes: Scopes::everything_below(&path("/vo")),
            expires: NOW + Millis(1000),
        };
        assert!(gate(true).outsider(person("root")).unwrap_err().what.contains("its owner"));
        let ann = gate(true).outsider(person("ann")).unwrap();
        assert!(!ann.who.is_operator && ann.is_scoped() && ann.who.is_in("prod") && ann.who.is_in("ann"));
        assert_eq!((ann.who.group(), Principal::user("ann").group()), ("prod", "ann"));
        assert!(ann.may(Right::Modify, &path("/vo/x"), NOW).is_ok());
        assert!(ann.may(Right::List, &path("/"), NOW).is_err());
    }

    #[tokio::test]
    async fn a_token_without_scopes_is_its_user() {
        let alice = gate(true).bearer(&token("alice", None)).await.unwrap();
        assert!(!alice.who.is_operator && !alice.is_scoped() && alice.who.is_in("prod"));
        assert!(alice.may(Right::Modify, &path("/home/alice"), NOW).is_ok());
        let refused = Identity::refused(Failure::permission("no"));
        assert!(refused.may(Right::Look, &path("/"), NOW).is_err() && !refused.who.is_operator);
        let nothing = gate(true).bearer(&token("alice", Some("openid"))).await.unwrap();
        assert!(nothing.may(Right::Look, &path("/"), NOW).is_err());
        assert!(gate(true).bearer("a.b.c").await.is_err());
    }
}
