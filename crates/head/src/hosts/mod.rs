//! Joining and removing hosts.

pub(crate) mod cap_keys;
pub(crate) mod presence;
pub(crate) mod sole_copies;

use crate::{Apply, Context, Core, batch, pool, store::HostRow, tape};
use base::{Failure, Millis, Result, Timestamp, limits};
use std::{collections::BTreeMap, net::IpAddr};
use wire::control::{
    AddInvitation, Admission, AdmitHost, Admitted, ChangeCertificate, CheckAdmission, DiskServer, Done,
    EventType, GetHosts, HOST_LABELS_MAX, HostInfo, HostLabel, HostNames, Hosts, LabelHost, Presence,
    RemoveHost, Role,
};

/// How long an invitation is remembered after its end, so that a host that comes late hears why it is refused.
const REMEMBERED: Millis = Millis::from_seconds(7 * 86_400);
/// Longest name of a host.
const NAME_BYTES_MAX: usize = 64;

impl Apply for AddInvitation {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("invite hosts")?;
        if self.roles.is_empty() || self.roles.contains(&Role::Head) {
            return Err(Failure::invalid("a host can be invited with the roles disk, tape and cpu")
                .hint("a standby head needs access to the catalogue's database, not an invitation"));
        }
        core.store.forget_invitations(Timestamp(context.now.0 - REMEMBERED.0))?;
        core.store.put_invitation(&self.hash, &self.roles, self.expires)?;
        Ok(Done {})
    }
}

impl Apply for CheckAdmission {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        check_admission(core, &self.admission, context)?;
        Ok(Done {})
    }
}

impl Apply for AdmitHost {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Admitted> {
        let Self { admission, certificate } = self;
        check_admission(core, &admission, context)?;
        let before = core.store.host(&admission.name)?;
        // Never twice the same, also when the clock went back: a key follows from it.
        let joined = before.map_or(context.now, |host| context.now.max(host.joined + Millis(1)));
        core.store.use_invitation(&admission.hash, &admission.name)?;
        let name = admission.name.clone();
        core.store.put_host(&HostRow {
            name: admission.name,
            roles: admission.roles,
            key: admission.key,
            current: certificate,
            next: None,
            joined,
            removed: None,
            reached: admission.reached,
        })?;
        // Doors have signed with the key from before.
        core.store.set_visible();
        core.say(context.now, EventType::HostJoined, &name, format!("host {name} joined"));
        Ok(Admitted { joined })
    }
}

/// Refuses whoever is not invited, or wants to be what another is.
fn check_admission(core: &Core, wish: &Admission, context: &Context) -> Result<()> {
    check_name(core, &wish.name)?;
    let known = core.store.host(&wish.name)?.filter(|host| host.removed.is_none());
    let is_known = known.as_ref().is_some_and(|host| host.key == wish.key);
    check_invitation(core, wish, context, is_known)?;
    if known.is_some() && !is_known {
        return Err(Failure::exists(format!("a host named {} has joined already", wish.name))
            .hint("give this one another name, or remove that one first: `bp host remove`"));
    }
    check_reached(core, wish)
}

/// A name that can stand in a certificate, in a URL and in front of the name of a partition.
fn check_name(core: &Core, name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        let what = format!("host name {name:?} is not 1 to {NAME_BYTES_MAX} of a-z 0-9 . -");
        return Err(Failure::invalid(what).hint("choose another with --name"));
    }
    if name == core.config.server.name {
        return Err(Failure::exists(format!("the head's own host is named {name}"))
            .hint("choose another name with --name"));
    }
    Ok(())
}

/// Refuses what others are called: a certificate for it would let this host speak for them.
fn check_reached(core: &Core, call: &Admission) -> Result<()> {
    let server = &core.config.server;
    let mut own = call.head.clone();
    for door in [&server.root, &server.https] {
        match place(door) {
            Some(DoorAddress::Address(address)) => own.addresses.push(address),
            Some(DoorAddress::Name(name)) => own.names.push(name),
            None => {}
        }
    }
    let hosts = core.store.hosts()?;
    let others = hosts.values().filter(|other| other.name != call.name && other.removed.is_none());
    let others = others.map(|other| (other.name.as_str(), &other.reached));
    for (owner, known) in std::iter::once((server.name.as_str(), &own)).chain(others) {
        if let Some(taken) = shared(&call.reached, owner, known) {
            return Err(Failure::exists(format!("{taken} is host {owner}, not {}", call.name)).hint(
                "each host has names and addresses of its own: see --name and --address of `bpd join`",
            ));
        }
    }
    Ok(())
}

/// A name or address that two hosts have. Loopback is everybody's own.
fn shared(asked: &HostNames, owner: &str, known: &HostNames) -> Option<String> {
    let is_taken = |name: &&String| *name == owner || known.names.contains(name);
    let name = asked.names.iter().filter(|name| *name != "localhost").find(is_taken).cloned();
    name.or_else(|| {
        let mut remote = asked.addresses.iter().filter(|address| !address.is_loopback());
        let is_same =
            |address: &&IpAddr| known.addresses.iter().any(|known| known.to_canonical() == **address);
        remote.find(is_same).map(IpAddr::to_string)
    })
}

/// An invitation is good once; the host that used it may come again, because the answer may have been lost.
fn check_invitation(core: &Core, call: &Admission, context: &Context, is_known: bool) -> Result<()> {
    let hint = "`bp host invite` on the head's host makes a new one";
    let refuse = |what: String| Err(Failure::permission(what).hint(hint));
    let Some(invitation) = core.store.invitation(&call.hash)? else {
        return refuse("this join token is unknown here".to_owned());
    };
    match &invitation.host {
        Some(host) if *host != call.name || !is_known => {
            return refuse(format!("this join token was used by host {host}"));
        }
        Some(_) => {}
        None if invitation.expires <= context.now => {
            return refuse("this join token has expired".to_owned());
        }
        None => {}
    }
    match call.roles.iter().find(|role| !invitation.roles.contains(role)) {
        Some(role) => refuse(format!("this join token is not for the role {role}")),
        None => Ok(()),
    }
}

impl Apply for ChangeCertificate {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_host(&self.name)?;
        let known = core.store.host(&self.name)?.filter(|host| host.removed.is_none());
        let host = known.ok_or_else(|| unknown(&self.name))?;
        if host.key != self.key {
            return Err(Failure::permission(format!("host {} joined with another key", self.name))
                .hint("let it join again: `bp host invite`, then `bpd join` with its directory"));
        }
        if host.current != self.shown && host.next.as_ref() != Some(&self.shown) {
            return Err(Failure::permission(format!("host {} has shown an old certificate", self.name))
                .hint("it must renew with its newest certificate"));
        }
        // What it shows it has: the answer to this call may be lost, again and again.
        core.store.put_host(&HostRow { current: self.shown, next: Some(self.certificate), ..host })?;
        Ok(Done {})
    }
}

impl Apply for RemoveHost {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("remove hosts")?;
        let known = core.store.host(&self.name)?.filter(|host| host.removed.is_none());
        let host = known.ok_or_else(|| unknown(&self.name))?;
        if !self.force {
            sole_copies::refuse_loss(core, &self.name)?;
        }
        pool::host_removed(core, context, &self.name)?;
        batch::host_removed(core, context, &self.name)?;
        tape::host_removed(core, context, &self.name)?;
        core.live.hosts.remove(&self.name);
        core.store.put_host(&HostRow { removed: Some(context.now), ..host })?;
        pool::notice_away(core, context.now)?;
        let what = format!("host {} was removed by {}", self.name, context.who.name);
        core.say(context.now, EventType::HostRemoved, &self.name, what);
        Ok(Done {})
    }
}

/// Refuses the rooms of another host than the one that has `what`; `owner` is empty for the rooms in the head's own process.
pub(crate) fn require_owner(context: &Context, what: &str, owner: &str) -> Result<()> {
    let own = context.who.as_host().unwrap_or_default();
    if own == owner {
        return Ok(());
    }
    let named =
        |host: &str| if host.is_empty() { "the head's own host".to_owned() } else { format!("host {host}") };
    Err(Failure::permission(format!("{what} is on {}, and {} may not act for it", named(owner), named(own)))
        .hint("each host acts for its own partitions, drives and workers only"))
}

/// Refuses doors elsewhere than where the host is reached, as was agreed when it joined: users are sent there.
pub(crate) fn require_doors(core: &Core, context: &Context, server: &DiskServer) -> Result<()> {
    let Some(own) = context.who.as_host() else { return Ok(()) };
    let host = core.store.host(own)?.filter(|host| host.removed.is_none()).ok_or_else(|| unknown(own))?;
    for door in [&server.root, &server.https] {
        let is_own = match place(door) {
            Some(DoorAddress::Address(address)) => {
                host.reached.addresses.iter().any(|known| known.to_canonical() == address)
            }
            Some(DoorAddress::Name(name)) => name == host.name || host.reached.names.contains(&name),
            None => false,
        };
        if !is_own {
            return Err(Failure::permission(format!("host {own} did not join with the address {door:?}"))
                .hint("after a change of its address it joins again: `bp host invite`, then `bpd join`"));
        }
    }
    Ok(())
}

/// The protocol of a door.
enum DoorAddress {
    Address(IpAddr),
    Name(String),
}

/// Where a door is, `host:port`.
fn place(door: &str) -> Option<DoorAddress> {
    let (host, port) = door.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    Some(match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => DoorAddress::Address(address.to_canonical()),
        Err(_) => DoorAddress::Name(host.to_ascii_lowercase()),
    })
}

/// Refuses a name that does not begin with that of the host that gives it to `what`: else it could be what another will be called.
pub(crate) fn require_name(core: &Core, context: &Context, what: &str, name: &str) -> Result<()> {
    let Some(own) = context.who.as_host() else { return Ok(()) };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_of = |host: &str| name.strip_prefix(host).is_some_and(|rest| rest.starts_with(['-', '.']));
    // What begins with d1-a is host d1-a's, not d1's, if there is one.
    let hosts = core.store.hosts()?;
    let mut others = hosts.values().filter(|other| other.removed.is_none() && other.name.len() > own.len());
    if is_of(own)
        && !others.any(|other| is_of(&other.name))
        && name.len() <= limits::NAME_BYTES_MAX
        && name.chars().all(is_plain)
    {
        return Ok(());
    }
    Err(Failure::permission(format!("{what} of host {own} cannot be called {name:?}")).hint(format!(
        "it must begin with {own}- and not with the name of another host, in A-Z a-z 0-9 . _ -"
    )))
}

pub(crate) fn unknown(name: &str) -> Failure {
    Failure::not_found(format!("no host named {name} has joined")).hint("`bp host list` shows them")
}

impl Apply for GetHosts {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Hosts> {
        let labels = core.store.host_labels()?;
        let info = |host: HostRow| HostInfo {
            roles: host.roles,
            certificates: match host.removed {
                None => [Some(host.current), host.next].into_iter().flatten().collect(),
                Some(_) => Vec::new(),
            },
            joined: host.joined,
            removed: host.removed,
            labels: labels.get(&host.name).map(told).unwrap_or_default(),
            reached: host.reached,
            presence: presence::presence(core, &host.name, context.now).unwrap_or(Presence::Silent),
            heard: core.live.hosts.get(&host.name).map(|live| live.heard),
            door: core
                .live
                .hosts
                .get(&host.name)
                .map(|live| live.door.clone())
                .filter(|door| !door.is_empty()),
            name: host.name,
        };
        Ok(Hosts { hosts: core.store.hosts()?.values().cloned().map(info).collect() })
    }
}

fn told(labels: &BTreeMap<String, String>) -> Vec<HostLabel> {
    labels.iter().map(|(name, value)| HostLabel { name: name.clone(), value: value.clone() }).collect()
}

impl Apply for LabelHost {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("label hosts")?;
        let is_server = core.store.partition_space()?.values().any(|row| row.server.name == self.name);
        if !is_server && core.store.host(&self.name)?.is_none() {
            return Err(unknown(&self.name));
        }
        for label in &self.labels {
            core.store.set_host_label(&self.name, label)?;
        }
        if core.store.host_labels()?.get(&self.name).is_some_and(|labels| labels.len() > HOST_LABELS_MAX) {
            return Err(Failure::busy(format!(
                "{} would have more than {HOST_LABELS_MAX} labels",
                self.name
            ))
            .hint("remove others: NAME="));
        }
        // Copies that shared nothing share something now, perhaps.
        core.live.maintenance.look_again();
        core.sweep_again();
        Ok(Done {})
    }
}
