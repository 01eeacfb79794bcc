//! The steps by which a host starts. The head's host and a host that joined take the same steps, in the same order.
//!
//! [`Step`] lists what is started. Each start is a plain sequence of functions over one [`Host`]. Each function ends
//! with [`Host::done`], which logs the step and its time. Start reading with `head_host::start` and `member::start`.

use crate::{
    boot::rooms::{RoomConfiguration, Rooms},
    doors::http::DoorNames,
    facility::{
        config::{self, Config, RootTls},
        layout::{Layout, random},
        link::Link,
    },
    metrics::DoorCounters,
};
use base::{Clock, ErrorKind, Failure, Result, limits::CONNECTIONS_MAX};
use disk::{
    Partition,
    clock::HeadTime,
    port,
    remote::objects::PeerClient,
    serve::local_objects::Objects,
    upkeep::{
        copier::Copier,
        janitor::{Janitor, ServerRegistration},
    },
};
use net::{
    listener::Listener,
    shutdown::Shutdown,
    unproven::Unproven,
    xrd::{Service, TlsRule},
};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Instant,
};
use tracing::info;
use wire::{auth::capability::ServerKeys, control::DiskServer};

/// The steps of a start, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The ports are taken, so that the addresses are known. Nobody is answered yet.
    Listeners,
    /// The head opens its catalogue; a host that joined reads what it was told then.
    Facility,
    /// What the doors show is made, renewed or read.
    Certificates,
    /// The partition is opened, its objects can be served, and what keeps it runs.
    DiskServer,
    /// Clients of `root://` are answered.
    RootDoor,
    /// Clients of `https://` are answered, and on the head's host those of `http://` and of the socket.
    HttpDoor,
    /// The tape server and the worker run, if the host has these roles.
    Rooms,
}

impl Step {
    /// What the log says when it is done.
    const fn done(self) -> &'static str {
        match self {
            Self::Listeners => "ports are taken",
            Self::Facility => "facility is opened",
            Self::Certificates => "certificates are read",
            Self::DiskServer => "disk server is started",
            Self::RootDoor => "root door is open",
            Self::HttpDoor => "HTTP door is open",
            Self::Rooms => "tape server and worker are started",
        }
    }
}

/// A host while it starts: what all its steps need.
pub(crate) struct Host<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) config: &'a Config,
    pub(crate) clock: Clock,
    /// Serves clients. It ends first.
    pub(crate) doors: Shutdown,
    /// Runs beside the doors. It ends when they have.
    pub(crate) chores: Shutdown,
    pub(crate) counters: Arc<DoorCounters>,
    /// The last step that is done.
    last: Option<Step>,
    /// When the step under way began.
    began: Instant,
}

impl<'a> Host<'a> {
    /// A host of which nothing has been started.
    pub(crate) fn new(layout: &'a Layout, config: &'a Config, clock: Clock) -> Self {
        let (doors, chores, counters) = (Shutdown::new(), Shutdown::new(), Arc::default());
        Self { layout, config, clock, doors, chores, counters, last: None, began: Instant::now() }
    }

    /// Notes in the log that a step is done.
    pub(crate) fn done(&mut self, step: Step) {
        assert!(self.last < Some(step), "the steps of a start follow each other");
        let took_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(?step, took_ms, "{}", step.done());
        (self.last, self.began) = (Some(step), Instant::now());
    }

    /// Takes the ports that every host has.
    pub(crate) async fn listeners(&self) -> Result<Listeners> {
        let doors = &self.config.doors;
        let budget = doors.unproven();
        let root = listen(doors.bind, doors.root_port, Port { option: "root_port", budget: &budget }).await?;
        let https =
            listen(doors.bind, doors.https_port, Port { option: "https_port", budget: &budget }).await?;
        Ok(Listeners { root, https, budget })
    }

    /// What the disk server of this process tells the head about itself.
    pub(crate) fn registration(&self, listeners: &Listeners) -> Result<ServerRegistration> {
        let (config, root, https) = (self.config, listeners.root.address()?, listeners.https.address()?);
        let server = DiskServer {
            name: config.host_name(),
            root: config.reachable(root),
            https: config.reachable(https),
        };
        // Tells this start from all others. Positive for the catalogue, whose numbers have a sign.
        let boot = u64::from_le_bytes(random()?) >> 1;
        Ok(ServerRegistration { server, boot, pool: config.disk.pool.clone(), is_direct: config.disk.direct })
    }

    /// By which names the HTTP doors of this host may be addressed.
    pub(crate) fn door_names(&self, identity: &net::tls::Identity) -> DoorNames {
        let config = self.config;
        let own = [config.host.address.clone(), config.host_name()];
        let given = config.doors.names.iter().cloned().chain(own);
        DoorNames::new(given, Some(identity.certificate.clone()))
    }

    /// Serves `root://`.
    pub(crate) fn open_root_door<S: Service>(&mut self, door: S, listener: Listener) {
        let sessions = net::xrd::serve(Arc::new(door), listener, &self.doors);
        // The counters are new, and the door is opened once.
        let _ = self.counters.sessions.set(sessions);
        self.done(Step::RootDoor);
    }

    /// Starts the tape server and the worker.
    pub(crate) fn start_rooms(&mut self, room_configuration: RoomConfiguration<'_>) -> Result<Rooms> {
        let rooms = room_configuration.start()?;
        self.done(Step::Rooms);
        Ok(rooms)
    }
}

/// The ports that every host has.
pub(crate) struct Listeners {
    pub(crate) root: Listener,
    pub(crate) https: Listener,
    /// Limits connections that have not proven who they are, at all doors together.
    pub(crate) budget: Unproven,
}

/// What a port is called, and what limits its connections.
pub(crate) struct Port<'a> {
    /// The key of the configuration that says its number.
    pub(crate) option: &'a str,
    pub(crate) budget: &'a Unproven,
}

/// Takes a port.
pub(crate) async fn listen(bind: IpAddr, port: u16, Port { option, budget }: Port<'_>) -> Result<Listener> {
    let address = SocketAddr::new(bind, port);
    let listener = Listener::bind(address, CONNECTIONS_MAX).await.map_err(|failure| {
        let flag = option.replace('_', "-");
        let hint = format!("another program has port {port}: choose one with --{flag} PORT, or 0 for any");
        Failure::new(ErrorKind::Busy, failure.what).hint(hint)
    })?;
    Ok(listener.with_budget(budget.clone()))
}

/// A token must not be sent in plain text, so who demands one demands TLS at the login.
pub(crate) fn tls_rule(doors: &config::Doors) -> TlsRule {
    match doors.root_tls {
        RootTls::Required => TlsRule::Required,
        RootTls::Offered if !doors.require_token => TlsRule::Offered,
        RootTls::Offered | RootTls::Login => TlsRule::Login,
    }
}

/// Opens the partition in `directory`, within the limits of the configuration.
pub(crate) fn open_partition(directory: &Path, facility: &str, config: &config::Disk) -> Result<Partition> {
    let limits = disk::Limits {
        share_bytes: (config.size.0 > 0).then_some(config.size.0),
        reserved_bytes: config.reserve.0,
    };
    let partition = Partition::open_limited(directory, facility, limits)?;
    partition.set_direct(config.direct);
    Ok(partition)
}

/// The disk server of a host, before it runs. Without a partition it serves what other disk servers have.
pub(crate) struct DiskParts {
    pub(crate) link: Link,
    pub(crate) peers: PeerClient,
    /// They check the capabilities that clients show.
    pub(crate) keys: ServerKeys,
    pub(crate) registration: ServerRegistration,
    pub(crate) partition: Option<Arc<Partition>>,
    /// The clock of the head, if the head is another host.
    pub(crate) time: Option<Arc<HeadTime>>,
}

impl DiskParts {
    /// Starts it. The head of this process must know the partition before a client comes; one on another host may be away, so
    /// the janitor tells it when it can.
    pub(crate) async fn start(self, host: &mut Host<'_>) -> Result<Arc<Objects>> {
        let is_beside_head = matches!(self.link, Link::Local(_));
        let objects = Arc::new(self.objects(host));
        if let Some(partition) = &self.partition {
            let port = port::Head::new(self.link);
            let copier = Copier::new(&port, &self.peers, partition, &objects, &host.clock);
            let janitor = Janitor::new(port, self.registration, Arc::clone(partition), &objects);
            let janitor = match self.time {
                Some(time) => janitor.with_time(time),
                None => janitor,
            };
            if is_beside_head {
                janitor.register().await?;
            }
            keep_partition(janitor, copier, host);
        }
        host.done(Step::DiskServer);
        Ok(objects)
    }

    fn objects(&self, host: &Host<'_>) -> Objects {
        let port = port::Head::new(self.link.clone());
        let partitions = self.partition.iter().cloned().collect();
        let (keys, clock) = (self.keys.clone(), Arc::clone(&host.clock));
        let objects = Objects::new(port, partitions, keys, clock, host.chores.child());
        let objects = objects.with_peer_client(self.peers.clone());
        match &self.time {
            Some(time) => objects.with_time(Arc::clone(time)),
            None => objects,
        }
    }
}

/// Keeps a partition: reports, deletes, fetches copies, compares it with the catalogue, adopts files.
fn keep_partition(janitor: Janitor, copier: Copier, host: &Host<'_>) {
    let chores = &host.chores;
    let live = janitor.live_keeper(&copier, &host.clock);
    chores.spawn("copier", copier.keep(chores.token()));
    let allowed = &host.config.disk.adopt;
    chores.spawn("adopt", janitor.adopter(allowed, &host.clock, chores.token()).keep());
    chores.spawn("live", live.keep(chores.token()));
    chores.spawn("scan", janitor.scanner(chores.token()).keep());
    chores.spawn("janitor", janitor.keep(chores.token()));
}
