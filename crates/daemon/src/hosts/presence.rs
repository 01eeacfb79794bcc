//! Presence of hosts, both ends: a host sends heartbeats and says goodbye when it stops; the head's process asks a
//! host at once when a connection of it breaks, or a client was there in vain.

use crate::facility::link::Link;
use base::{Clock, ReachRule};
use disk::remote::redirect::host_and_port;
use head::{Head, Principal};
use net::shutdown::{Shutdown, Token};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tracing::{debug, info};
use wire::{
    control::{DiskServer, HostHeartbeat, HostLeaves, HostUnanswered},
    xrd::HANDSHAKE,
};

/// How often a host says that it is there: three of these may be lost before it is silent.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How long a goodbye may take: a head that is away must not keep a host from stopping.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(2);
/// How long the doors stay open after the goodbye: for those who were sent there just before it.
const LINGER: Duration = Duration::from_millis(500);
/// How long a host may take to answer when it is asked.
const ASK_DEADLINE: Duration = Duration::from_secs(2);

/// Says that this host is there until it is time to stop.
pub(crate) async fn say_so(link: Link, server: DiskServer, boot: u64, token: Token) {
    while !token.is_stopped() {
        // The rooms say in the log if the head is out of reach.
        if let Err(failure) = link.call(HostHeartbeat { server: server.clone(), boot }).await {
            debug!(%failure, "could not tell the head that this host is up");
        }
        // Running out of time is the usual way.
        let _ = tokio::time::timeout(SAY_EVERY, token.stopped()).await;
    }
}

/// Says goodbye, and waits a moment for those who were sent here before.
pub(crate) async fn say_goodbye(link: Link, host: String, boot: u64) {
    match tokio::time::timeout(GOODBYE_DEADLINE, link.call(HostLeaves { host, boot })).await {
        Ok(Ok(_)) => {
            info!("told the head that this host stops");
            tokio::time::sleep(LINGER).await;
        }
        Ok(Err(failure)) => {
            info!(%failure, "could not tell the head that this host stops: the head is unreachable");
        }
        Err(_) => info!("could not tell the head that this host stops: the head does not answer"),
    }
}

/// What is known of the doors of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Door {
    root: String,
    boot: u64,
    /// It has answered once: that it does not answer means something.
    has_answered: bool,
    is_being_asked: bool,
}

/// Probes whether hosts answer. Clones share it.
#[derive(Clone)]
pub(crate) struct Prober {
    head: Head,
    clock: Clock,
    doors: Arc<Mutex<BTreeMap<String, Door>>>,
    tasks: Shutdown,
}

impl Prober {
    /// A prober that tells `head` who did not answer.
    #[must_use]
    pub(crate) fn new(head: Head, clock: Clock, tasks: Shutdown) -> Self {
        Self { head, clock, doors: Arc::default(), tasks }
    }

    fn doors(&self) -> MutexGuard<'_, BTreeMap<String, Door>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host has said where its doors are. A daemon that is new is asked once, so that it is known whether it can be reached.
    pub(crate) fn note(&self, server: &DiskServer, boot: u64) {
        let mut doors = self.doors();
        if doors.get(&server.name).is_some_and(|door| door.boot == boot && door.root == server.root) {
            return;
        }
        let door = Door { root: server.root.clone(), boot, has_answered: false, is_being_asked: false };
        doors.insert(server.name.clone(), door);
        drop(doors);
        self.look(server.name.clone());
    }

    /// Asks a host in the background.
    pub(crate) fn look(&self, host: String) {
        let prober = self.clone();
        self.tasks.spawn("ask a host", async move { prober.ask(&host).await });
    }

    /// Asks a host, unless it is being asked, and tells the head if it does not answer.
    pub(crate) async fn ask(&self, host: &str) {
        let Some(Door { root, boot, has_answered, .. }) = self.begin(host) else { return };
        let asked = (self.clock)();
        let answers = answers(root).await;
        if let Some(door) = self.doors().get_mut(host).filter(|door| door.boot == boot) {
            door.is_being_asked = false;
            door.has_answered |= answers;
        }
        if answers {
            return;
        }
        if !has_answered {
            info!(
                host,
                "the head cannot connect to this host's ports; a failure is noticed only when its heartbeats stop"
            );
            return;
        }
        let call = HostUnanswered { host: host.to_owned(), asked };
        if let Err(failure) = self.head.call(&Principal::room("hosts"), call).await {
            debug!(host, %failure, "could not tell the head that a host does not answer");
        }
    }

    /// Where to ask a host, unless it is being asked.
    fn begin(&self, host: &str) -> Option<Door> {
        let mut doors = self.doors();
        let door = doors.get_mut(host).filter(|door| !door.is_being_asked)?;
        door.is_being_asked = true;
        Some(door.clone())
    }
}

/// Whether a daemon answers the first bytes of a session at `root`, `host:port`.
async fn answers(root: String) -> bool {
    let asked = tokio::task::spawn_blocking(move || {
        let (host, port) = host_and_port(&root).ok()?;
        // The host itself said where it is, and was let in there.
        let host = host.trim_matches(['[', ']']);
        let (mut socket, _) = socket::dial(host, port, &ReachRule::anywhere(), ASK_DEADLINE).ok()?;
        socket.set_read_timeout(Some(ASK_DEADLINE)).ok()?;
        socket.write_all(&HANDSHAKE).ok()?;
        socket.read_exact(&mut [0; 4]).ok()
    });
    // Names that are looked up have no deadline of their own.
    matches!(tokio::time::timeout(2 * ASK_DEADLINE, asked).await, Ok(Ok(Some(()))))
}
