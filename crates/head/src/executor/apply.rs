//! The interface between calls and the head: caller, time, and the topics that an answer depends on.

use crate::Core;
use base::{Failure, FilePath, Result, Timestamp};
use wire::control::{ActsFor, Call};

/// Begins the names of hosts: no user has a colon in their name.
const HOST_PREFIX: &str = "host:";

/// The principal that makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// User name.
    pub name: String,
    /// Its groups beside that of its own name. The first one is that of what it makes.
    pub groups: Vec<String>,
    /// Whether permissions do not bind it: the facility's owner and its rooms.
    pub is_operator: bool,
    /// The operator who makes the call on their behalf: a mount, for a user of its host. The kernel of that host has searched the
    /// directories above what is named, so that only the last one is searched again.
    pub agent: Option<String>,
}

impl Principal {
    /// A user, without groups.
    pub fn user(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new(), is_operator: false, agent: None }
    }

    /// A user on whose behalf this operator calls.
    pub fn acts_for(self, other: ActsFor) -> Result<Self> {
        if !self.is_operator || self.agent.is_some() {
            let what = format!("user {} may not act for user {}", self.name, other.user);
            return Err(Failure::permission(what).hint("only operators of the facility act for others"));
        }
        let ActsFor { user, groups, is_superuser } = other;
        Ok(Self { name: user, groups, is_operator: is_superuser, agent: Some(self.name) })
    }

    /// Whose session it may use: the agent's, if there is one.
    #[must_use]
    pub fn session_user(&self) -> &str {
        self.agent.as_deref().unwrap_or(&self.name)
    }

    /// A principal without permission checks.
    pub fn operator(name: &str) -> Self {
        Self { is_operator: true, ..Self::user(name) }
    }

    /// A room of the facility.
    pub fn room(name: &str) -> Self {
        Self::operator(name)
    }

    /// Whether it belongs to a group: one of those that were proven, or that of its own name.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.name == group || self.groups.iter().any(|own| own == group)
    }

    /// The group of what it makes.
    #[must_use]
    pub fn group(&self) -> &str {
        self.groups.first().unwrap_or(&self.name)
    }

    /// The rooms of a host that joined, as its certificate proves.
    pub fn host(name: &str) -> Self {
        Self::operator(&format!("{HOST_PREFIX}{name}"))
    }

    /// The host, if these are the rooms of one that joined.
    #[must_use]
    pub fn as_host(&self) -> Option<&str> {
        self.name.strip_prefix(HOST_PREFIX)
    }

    /// Refuses the rooms of other hosts.
    pub(crate) fn require_host(&self, host: &str) -> Result<()> {
        match self.as_host() {
            Some(own) if own != host => {
                Err(Failure::permission(format!("host {own} may not act for host {host}"))
                    .hint("each host acts for its own partitions, drives and workers only"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses anybody who does not run the facility.
    pub(crate) fn require_operator(&self, what: &str) -> Result<()> {
        if self.is_operator {
            return Ok(());
        }
        Err(Failure::permission(format!("user {} may not {what}", self.name))
            .hint("ask the owner of the facility"))
    }
}

/// The principal and the time of a call.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who.
    pub who: Principal,
    /// When, by the head's clock.
    pub now: Timestamp,
}

/// A topic that callers wait for; a change of it wakes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Files became online, archived, lost or removed.
    Files,
    /// The tape queue, drives or volumes changed.
    Tape,
    /// Jobs or workers changed.
    Jobs,
    /// Objects are to be deleted.
    Removals,
    /// Objects are to be copied from one disk server to another.
    Copies,
    /// The facility's key has another generation, or one less.
    Keys,
    /// Something happened that those are told who watch.
    Events,
}

impl Topic {
    /// All topics, in the order of their bits.
    pub const ALL: [Self; 7] =
        [Self::Files, Self::Tape, Self::Jobs, Self::Removals, Self::Copies, Self::Keys, Self::Events];

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A call that the head carries out.
///
/// A refused call leaves nothing behind. A reply is given to the caller only after everything that it says is durable.
pub trait Apply: Call + Clone {
    /// The topic that a pending reply waits for.
    const TOPIC: Topic = Topic::Files;

    /// What will be looked up, as far as the call says it: read ahead together with what the others of its group need.
    fn paths(&self) -> Vec<FilePath> {
        Vec::new()
    }

    /// Decides and changes the catalogue.
    fn apply(self, core: &mut Core, context: &Context) -> Result<Self::Reply>;
}
