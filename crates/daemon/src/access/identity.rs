//! Authentication and authorisation for all doors.
//!
//! A token does both, and the door checks it without asking the head. A process of this host without a token is the
//! user that the kernel names, unless the facility demands tokens. Everybody else is refused.

use crate::access::{host_registry::HostRegistry, issuers::Issuers, local_users::LocalUsers};
use base::{Clock, Failure, FilePath, Result, check_name, is_name};
use head::Principal;
use std::{fmt, sync::Arc};
use wire::{
    auth::{
        keys::Keyring,
        token::{
            Claims, Right, Scopes, TokenKey,
            issued::{Person, Presented},
        },
    },
    xrd::LOGIN_NAME_BYTES,
};

/// The identity of a caller at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The principal, for the permission checks of the head.
    pub who: Principal,
    limits: Limits,
}

/// What is added to the permissions of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Limits {
    /// Nothing.
    None,
    /// What a token says. Without scopes the user's permissions alone count.
    Token {
        scopes: Option<Scopes>,
        expires: base::Timestamp,
        is_of_job: bool,
        lease: Option<Lease>,
        signed: Option<Signed>,
    },
    /// Everything is refused, for this reason.
    Nothing(Failure),
}

/// A token is good as long as a host belongs to the facility, also in sessions that go on.
#[derive(Clone)]
struct Lease {
    host: String,
    host_registry: HostRegistry,
}

impl Lease {
    fn is_over(&self) -> bool {
        !self.host_registry.has(&self.host)
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

/// A token of this facility is good as long as the generation of the key verifies that has signed it, also in sessions that go on.
#[derive(Debug, Clone)]
struct Signed {
    generation: u32,
    keys: Keyring,
}

impl PartialEq for Signed {
    fn eq(&self, other: &Self) -> bool {
        self.generation == other.generation
    }
}

impl Eq for Signed {}

/// A token by whose right something is made: that is to end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRight {
    /// Until when it holds.
    pub expires: base::Timestamp,
    /// Which generation of the facility's key has signed it; `None`: another issuer.
    pub generation: Option<u32>,
    /// Whether it was made for a job.
    pub is_of_job: bool,
    /// Whether it allows less than its user may do.
    pub is_scoped: bool,
}

impl Identity {
    /// An identity that needs no token.
    #[must_use]
    pub fn trusted(who: Principal) -> Self {
        Self { who, limits: Limits::None }
    }

    /// Somebody who could not prove who they are, and hears so at whatever they want to do.
    #[must_use]
    pub fn refused(failure: Failure) -> Self {
        Self { who: Principal::user("nobody"), limits: Limits::Nothing(failure) }
    }

    /// Whether it was proven who it is, or need not be.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        !matches!(self.limits, Limits::Nothing(_))
    }

    /// Whether a token narrows what this user may do.
    #[must_use]
    pub fn is_scoped(&self) -> bool {
        matches!(self.limits, Limits::Token { scopes: Some(_), .. })
    }

    /// Whether the token was made for a job that may do anything with all files, as those of an operator.
    #[must_use]
    pub fn is_for_all_files(&self) -> bool {
        let Limits::Token { scopes: Some(scopes), is_of_job: true, .. } = &self.limits else { return false };
        let rights = [Right::Read, Right::Create, Right::Modify, Right::Stage];
        rights.into_iter().all(|right| scopes.allow(right, &FilePath::root()))
    }

    /// The token that was shown.
    #[must_use]
    pub fn token(&self) -> Option<TokenRight> {
        let Limits::Token { scopes, expires, is_of_job, signed, .. } = &self.limits else { return None };
        let generation = signed.as_ref().map(|signed| signed.generation);
        Some(TokenRight { expires: *expires, generation, is_of_job: *is_of_job, is_scoped: scopes.is_some() })
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
                "token of {:?} was made for a job on a host that was removed or has joined again",
                self.who.name
            ))
            .hint("the worker of a job that still runs gets a new one")),
            Limits::Token { signed: Some(signed), .. } if !signed.keys.is_live(signed.generation, now) => {
                Err(Failure::permission(format!(
                    "token of {:?} was signed with generation {} of the facility's key, which has expired",
                    self.who.name, signed.generation
                ))
                .hint("get a new one: `bp token create` makes those of this facility"))
            }
            Limits::Nothing(failure) => Err(failure.clone()),
            _ => Ok(()),
        }
    }
}

/// What a caller without a token says about who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<'a> {
    /// Nothing.
    None,
    /// The user name of a login, which clients of the field cut to eight bytes. It counts for those who may name others.
    Login(&'a str),
    /// A name that the caller was told to use. It is refused to those who may not.
    Named(&'a str),
}

/// Decides who somebody is.
#[derive(Clone)]
pub struct Authenticator {
    key: TokenKey,
    facility: Arc<str>,
    owner: Arc<str>,
    is_token_required: bool,
    users: LocalUsers,
    clock: Clock,
    issuers: Arc<Issuers>,
    host_registry: HostRegistry,
}

impl Authenticator {
    /// The gate of the facility with id `facility`, whose owner may do everything.
    pub fn new(key: TokenKey, facility: &str, owner: &str, is_token_required: bool, clock: Clock) -> Self {
        let (facility, owner, issuers) = (facility.into(), owner.into(), Arc::default());
        let (users, host_registry) = (LocalUsers::default(), HostRegistry::default());
        Self { key, facility, owner, is_token_required, users, clock, issuers, host_registry }
    }

    /// Takes the users of this host from `users`.
    #[must_use]
    pub fn with_users(self, users: LocalUsers) -> Self {
        Self { users, ..self }
    }

    /// Takes tokens of jobs on these hosts.
    #[must_use]
    pub fn with_hosts(self, host_registry: HostRegistry) -> Self {
        Self { host_registry, ..self }
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

    /// The owner of the facility.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The id of the facility.
    #[must_use]
    pub fn facility(&self) -> &str {
        &self.facility
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
        let (claims, generation) = self.key.verify_generation(token, &self.facility, self.now())?;
        let Claims { subject, scopes, groups, expires, is_of_job, host, .. } = claims;
        check_name("user", &subject)?;
        groups.iter().try_for_each(|group| check_name("group", group))?;
        let signed = Some(Signed { generation, keys: self.key.keys().clone() });
        // Scopes bind the owner too: a token that was narrowed is no master key.
        let is_operator = subject == *self.owner;
        // Whoever has a right to anything by scopes has nothing by groups.
        let groups = if scopes.is_some() { Vec::new() } else { groups };
        let lease = host.map(|host| Lease { host, host_registry: self.host_registry.clone() });
        let identity = Identity {
            who: Principal { is_operator, groups, ..Principal::user(&subject) },
            limits: Limits::Token { scopes, expires, is_of_job, lease, signed },
        };
        identity.is_good(self.now()).map(|()| identity)
    }

    /// Somebody whom another issuer knows. No issuer can make an operator.
    fn outsider(&self, person: Person) -> Result<Identity> {
        let Person { user, groups, scopes, expires } = person;
        if user == *self.owner {
            return Err(Failure::permission(format!(
                "only this facility's own tokens can act as {user}, its owner"
            ))
            .hint("the operator can name another user for this subject in facility.toml"));
        }
        Ok(Identity {
            who: Principal { groups, ..Principal::user(&user) },
            limits: Limits::Token {
                scopes: Some(scopes),
                expires,
                is_of_job: false,
                lease: None,
                signed: None,
            },
        })
    }

    /// A caller without a token at a door that everybody on this host can reach; `uid` is who they are as the kernel says.
    pub async fn local(&self, uid: Option<u32>, claim: Claim<'_>) -> Result<Identity> {
        if self.is_token_required {
            return self.stranger();
        }
        let uid = uid.ok_or_else(unknown_caller)?;
        self.user(uid, claim).await
    }

    /// A caller without a token who is not on this host, or is not to be served without one.
    pub fn stranger(&self) -> Result<Identity> {
        Err(Failure::permission("this facility requires a token")
            .hint("`bp token create` makes one; clients find it in BEARER_TOKEN and send it over TLS"))
    }

    /// A caller at the socket in the facility's directory, which only its owner can reach: no token is demanded of them.
    pub async fn at_socket(&self, uid: Option<u32>, claim: Claim<'_>) -> Result<Identity> {
        let uid = uid.ok_or_else(unknown_caller)?;
        if self.users.is_owner(uid) {
            return self.user(uid, claim).await;
        }
        self.local(Some(uid), claim).await
    }

    async fn user(&self, uid: u32, claim: Claim<'_>) -> Result<Identity> {
        let name = self.users.name(uid).await?;
        if self.users.is_owner(uid) {
            return self.owner_as(&name, claim);
        }
        if let Claim::Named(other) = claim
            && other != name
        {
            return Err(Failure::permission(format!("user {name} (uid {uid}) cannot act as user {other:?}")).hint(
                "only root and the user who runs the facility may name another user; others present a token",
            ));
        }
        // Their jobs and files would be those of the owner.
        if name == *self.owner {
            return Err(Failure::permission(format!(
                "user {name} (uid {uid}) has the name of the facility's owner but another uid"
            ))
            .hint("present a token: the owner makes one with `bp token create --user NAME`"));
        }
        Ok(Identity::trusted(Principal::user(&name)))
    }

    /// The user who runs the facility, or root: the owner, unless they name somebody else.
    fn owner_as(&self, own_name: &str, claim: Claim<'_>) -> Result<Identity> {
        let is_own = |name: &str| name == own_name || name == &*self.owner;
        let is_cut = |name: &str| {
            name.len() == LOGIN_NAME_BYTES && (own_name.starts_with(name) || self.owner.starts_with(name))
        };
        let other = match claim {
            Claim::None => None,
            // Clients of the field that do not know who runs them say `????`.
            Claim::Login(name) => Some(name).filter(|name| is_name(name) && !is_own(name) && !is_cut(name)),
            Claim::Named(name) => Some(name).filter(|name| !is_own(name)),
        };
        let Some(name) = other else { return Ok(Identity::trusted(Principal::operator(&self.owner))) };
        check_name("user", name)?;
        Ok(Identity::trusted(Principal::user(name)))
    }
}

fn unknown_caller() -> Failure {
    Failure::permission("the kernel does not say which user of this host makes this connection")
        .hint("connect over loopback and keep the connection open, or present a token")
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
