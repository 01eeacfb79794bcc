//! Who makes a request.

use crate::{
    access::{host_registry::Member, identity::TokenRight},
    doors::http::Peer,
};
use base::{Failure, Result};
use head::Principal;
use wire::control::{Audience, Call, Role};

/// The name of an unauthenticated user.
const NOBODY: &str = "nobody";

/// The caller of a request; the guard stores it as an extension for all handlers.
#[derive(Debug, Clone)]
pub(in crate::doors::http) struct Caller {
    /// On whose behalf.
    pub(in crate::doors::http) who: Principal,
    /// The host that joined, if the caller has shown its certificate.
    pub(in crate::doors::http) host: Option<Member>,
    /// Whether it is a room beside the head, in this process.
    pub(in crate::doors::http) is_room: bool,
    /// The token by whose right it is made, if there is one.
    pub(in crate::doors::http) token: Option<TokenRight>,
    /// The other end of the connection.
    pub(in crate::doors::http) peer: Option<Peer>,
}

impl Caller {
    /// A user.
    pub(in crate::doors::http) fn user(who: Principal, peer: Option<Peer>) -> Self {
        let is_room = peer.is_some_and(|peer| peer.is_own_process);
        Self { who, host: None, is_room, token: None, peer }
    }

    /// The same, by the right of a token. A room shows none.
    pub(in crate::doors::http) fn with_token(self, token: Option<TokenRight>) -> Self {
        Self { is_room: self.is_room && token.is_none(), token, ..self }
    }

    /// An unauthenticated caller.
    pub(in crate::doors::http) fn nobody(peer: Option<Peer>) -> Self {
        Self { who: Principal::user(NOBODY), host: None, is_room: false, token: None, peer }
    }

    /// Whether nobody has found out who it is.
    pub(in crate::doors::http) fn is_nobody(&self) -> bool {
        self.host.is_none() && self.who.name == NOBODY
    }

    /// The rooms of a host that joined. It is no user, whatever it is named.
    pub(in crate::doors::http) fn host(host: Member, peer: Option<Peer>) -> Self {
        Self { host: Some(host), ..Self::nobody(peer) }
    }

    /// What it is called in the audit log.
    pub(in crate::doors::http) fn name(&self) -> String {
        self.host.as_ref().map_or_else(|| self.who.name.clone(), |host| Principal::host(&host.name).name)
    }

    /// Who makes a call: no host those of people, the guard has seen to that. Those of rooms are made by rooms of this process,
    /// and by hosts that do such work.
    pub(in crate::doors::http) fn principal_for<C: Call>(&self) -> Result<Principal> {
        let role = match C::AUDIENCE {
            Audience::People | Audience::Mounts => return Ok(self.who.clone()),
            Audience::Rooms => None,
            Audience::Disk => Some(Role::Disk),
            Audience::Tape => Some(Role::Tape),
            Audience::Cpu => Some(Role::Cpu),
            Audience::Hosts => self.host.as_ref().and_then(|host| host.roles.first().copied()),
        };
        if let (Some(host), Some(role)) = (&self.host, role)
            && host.roles.contains(&role)
        {
            return Ok(Principal::host(&host.name));
        }
        if self.is_room {
            return Ok(Principal::room("room"));
        }
        Err(Failure::permission(format!("call {} is for the rooms of the facility", C::NAME))
            .hint("only bpd makes it, on this host or on a host with that role"))
    }
}
