//! Presence of hosts.
//!
//! A host that stops says so. The door notices a host that dies by its broken connection: it asks the host once, and
//! tells the head if there is no answer. Any other host is silent when the head has not heard from it for
//! [`HEARD_BOUND`]. All this only changes where clients are sent. Replicas of a silent disk server count as before, and
//! jobs of a silent worker are not started again.

use crate::{Apply, Context, Core, Topic, hosts::require_doors, pool};
use base::{Failure, Millis, Result, Timestamp};
use tracing::info;
use wire::control::{Done, EventType, HostHeartbeat, HostLeaves, HostUnanswered, Presence};

/// How long a host may say nothing before it is silent: three times as long as between two reports, as for disk servers.
pub(crate) const HEARD_BOUND: Millis = Millis::from_seconds(15);

/// The last report of a host; lost when the head stops, and sent again.
#[derive(Debug, Clone)]
pub(crate) struct HostLive {
    /// Which start of its daemon it was.
    boot: u64,
    /// Where its XRootD door is; empty if it has not said so.
    pub(crate) door: String,
    /// When it was heard last.
    pub(crate) heard: Timestamp,
    /// When it said goodbye.
    pub(crate) left: Option<Timestamp>,
    /// When it was asked and did not answer.
    pub(crate) unanswered: Option<Timestamp>,
    /// What people were told last.
    told: Presence,
}

impl HostLive {
    fn new(boot: u64, now: Timestamp) -> Self {
        Self { boot, door: String::new(), heard: now, left: None, unanswered: None, told: Presence::Here }
    }

    fn presence(&self, now: Timestamp) -> Presence {
        match self {
            Self { left: Some(_), .. } => Presence::Stopped,
            Self { unanswered: Some(_), .. } => Presence::Silent,
            _ if now - self.heard > HEARD_BOUND => Presence::Silent,
            _ => Presence::Here,
        }
    }
}

/// Whether a host is there; `None` if it has never said so, as those of earlier releases.
pub(crate) fn presence(core: &Core, host: &str, now: Timestamp) -> Option<Presence> {
    core.live.hosts.get(host).map(|live| live.presence(now))
}

/// Whether nothing can be expected of the rooms of a host. The head's own host is there, and has no name here or its own.
pub(crate) fn is_away(core: &Core, host: &str, now: Timestamp) -> bool {
    presence(core, host, now).is_some_and(|presence| presence != Presence::Here)
}

/// Whether a host has said goodbye, or was asked and did not answer: it need not be waited for until it has been silent for long.
pub(crate) fn is_known_to_be_away(core: &Core, host: &str) -> bool {
    core.live.hosts.get(host).is_some_and(|live| live.left.is_some() || live.unanswered.is_some())
}

/// Whether a host is silent without a word: nobody waits for what is under way there. One that has said goodbye brings it to its end
/// first.
pub(crate) fn does_not_answer(core: &Core, host: &str, now: Timestamp) -> bool {
    let live = core.live.hosts.get(host);
    live.is_some_and(|live| live.unanswered.is_some() || now - live.heard > HEARD_BOUND)
}

/// A host was heard. What a daemon says after its goodbye does not call it back.
pub(crate) fn note_heard(core: &mut Core, host: &str, boot: u64, now: Timestamp) {
    let known = core.live.hosts.get_mut(host);
    let Some(live) = known else { return };
    if live.boot != boot {
        (live.boot, live.left) = (boot, None);
    }
    (live.heard, live.unanswered) = (now, None);
    tell(core, host, now);
}

/// Says in the log what has changed, and lets everybody look again who waits for a host.
fn tell(core: &mut Core, host: &str, now: Timestamp) {
    let Some(live) = core.live.hosts.get_mut(host) else { return };
    let presence = live.presence(now);
    let before = std::mem::replace(&mut live.told, presence);
    if before == presence {
        return;
    }
    let heard_ms = (now - live.heard).0;
    let (kind, what) = match presence {
        Presence::Here => {
            info!(host, "host is reachable again");
            (EventType::HostBack, format!("host {host} is reachable again"))
        }
        Presence::Stopped => {
            info!(host, "host is stopping; clients are no longer sent to it");
            (EventType::HostStopped, format!("host {host} is stopping; clients are no longer sent to it"))
        }
        Presence::Silent => {
            info!(host, heard_ms, "host is silent; clients are not sent to it until it reports again");
            let what = format!("host {host} is silent; clients are not sent to it until it reports again");
            (EventType::HostSilent, what)
        }
    };
    core.say(now, kind, host, what);
    // Doors have kept where files are.
    core.store.set_visible();
    for topic in [Topic::Files, Topic::Tape, Topic::Jobs, Topic::Copies] {
        core.touch(topic);
    }
}

/// Notices which hosts were not heard lately.
pub(crate) fn notice_silent_hosts(core: &mut Core, now: Timestamp) {
    let changed = |live: &HostLive| live.presence(now) != live.told;
    let hosts: Vec<_> =
        core.live.hosts.iter().filter(|(_, live)| changed(live)).map(|(name, _)| name.clone()).collect();
    for host in hosts {
        tell(core, &host, now);
    }
}

impl Apply for HostHeartbeat {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let (host, boot) = (self.server.name.clone(), self.boot);
        require_member(core, context, &host)?;
        require_doors(core, context, &self.server)?;
        let new = HostLive::new(boot, context.now);
        let live = core.live.hosts.entry(host.clone()).or_insert(new);
        live.door = self.server.root;
        let was_away = is_known_to_be_away(core, &host);
        note_heard(core, &host, boot, context.now);
        if was_away {
            pool::notice_away(core, context.now)?;
        }
        Ok(Done {})
    }
}

impl Apply for HostLeaves {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        require_member(core, context, &self.host)?;
        let now = context.now;
        let new = HostLive::new(self.boot, now);
        let live = core.live.hosts.entry(self.host.clone()).or_insert(new);
        if live.boot == self.boot {
            live.left.get_or_insert(now);
            tell(core, &self.host, now);
            pool::notice_away(core, now)?;
        }
        Ok(Done {})
    }
}

impl Apply for HostUnanswered {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        // Whoever has never said where its doors are was not asked there.
        if let Some(live) = core.live.hosts.get_mut(&self.host)
            && live.heard <= self.asked
        {
            live.unanswered = Some(self.asked);
            tell(core, &self.host, context.now);
            pool::notice_away(core, context.now)?;
        }
        Ok(Done {})
    }
}

/// A host that has joined and speaks for itself.
fn require_member(core: &Core, context: &Context, host: &str) -> Result<()> {
    context.who.require_host(host)?;
    let known = core.store.hosts()?.get(host).is_some_and(|row| row.removed.is_none());
    if known {
        return Ok(());
    }
    Err(Failure::not_found(format!("no host named {host} has joined")).hint("`bp host list` shows them"))
}
