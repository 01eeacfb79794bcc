//! Starting the head's host: the head, and the roles that run beside it.

use crate::{
    access::{
        audit::{self, Audit},
        host_registry::HostRegistry,
        identity::Authenticator,
        issuers::{Issuers, audience_of},
    },
    boot::{
        facility::FacilityHandle,
        rooms::{RoomConfiguration, Rooms},
        standby,
        steps::{DiskParts, Host, Listeners, Port, Step, listen, tls_rule},
    },
    doors::{
        files::Files,
        http::{self, HttpDoor, RemoteTrust},
        xrootd::{RootDoor, Settings},
    },
    facility::link::Link,
    hosts::{
        JoinService,
        authority::{Authority, names_of_this_host},
        presence::Prober,
    },
};
use base::{Clock, Result, limits::CONNECTIONS_MAX};
use client::{Control, facility::SOCKET};
use disk::{
    remote::objects::PeerClient,
    serve::local_objects::Objects,
    upkeep::janitor::{ServerRegistration, maintain},
};
use head::{Head, store::FacilityRow};
use net::{
    listener::Listener, local_listener::LocalListener, shutdown::Shutdown, tls::Identity, xrd::TlsOffer,
};
use rustls::ServerConfig;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
};
use tracing::info;
use wire::{
    auth::capability::ServerKeys,
    control::{DiskServer, Endpoints, Role},
};

/// The running services, in the order in which they stop.
pub(crate) struct Running {
    pub(crate) rooms: Rooms,
    pub(crate) doors: Shutdown,
    pub(crate) chores: Shutdown,
    pub(crate) audit: audit::Writer,
    pub(crate) head: Head,
    pub(crate) head_thread: JoinHandle<()>,
}

/// Starts the head, its doors and the rooms of its host, step by step.
pub(crate) async fn start(handle: &FacilityHandle, clock: Clock) -> Result<Running> {
    let mut host = Host::new(&handle.layout, &handle.config, clock);
    let ports = Ports::take(&mut host).await?;
    let registration = host.registration(&ports.listeners)?;
    let mut head = HeadHost::open(host, handle, &registration.server)?;
    let endpoints = ports.endpoints(&head)?;
    let Certificates { identity, authority, tls, tls_for_hosts } = head.read_certificates()?;
    let files = head.start_disk_server(registration).await?;
    let audit = audit::Writer::start(handle.layout.root(), &handle.config.audit)?;
    let Ports { listeners: Listeners { root, https, budget }, http } = ports;
    let access = Access::new(&head, authority, https.address()?, audit.audit()).await?;
    // The counters are new.
    let _ = head.host.counters.unproven.set(budget);
    head.open_root_door(&files, &access, tls, root)?;
    let door = head.http_door(files, access, &identity);
    head.open_http_door(door, tls_for_hosts, HttpListeners { http, https })?;
    let rooms = head.room_configuration(&endpoints);
    let rooms = head.host.start_rooms(rooms)?;
    handle.announce(&endpoints)?;
    let incarnation = head.facility.incarnation;
    info!(root = endpoints.root, http = endpoints.http, incarnation, "facility is up");
    let HeadHost { host: Host { doors, chores, .. }, head, head_thread, .. } = head;
    Ok(Running { rooms, doors, chores, audit, head, head_thread })
}

/// The ports of the head's host.
struct Ports {
    listeners: Listeners,
    /// Plain, for this host only.
    http: Listener,
}

impl Ports {
    async fn take(host: &mut Host<'_>) -> Result<Self> {
        let listeners = host.listeners().await?;
        let doors = &host.config.doors;
        // Tokens are not sent in plain text: beyond this host there is only https.
        let near = if doors.bind.is_loopback() { doors.bind } else { Ipv4Addr::LOCALHOST.into() };
        let port = Port { option: "http_port", budget: &listeners.budget };
        let http = listen(near, doors.http_port, port).await?;
        host.done(Step::Listeners);
        Ok(Self { listeners, http })
    }

    /// The addresses of the doors.
    fn endpoints(&self, head: &HeadHost<'_>) -> Result<Endpoints> {
        let Listeners { root, https, .. } = &self.listeners;
        Ok(Endpoints {
            root: format!("root://{}", root.address()?),
            http: format!("http://{}", self.http.address()?),
            roots: Some(format!("roots://{}", root.address()?)),
            https: Some(format!("https://{}", https.address()?)),
            is_token_required: head.host.config.doors.require_token,
            pid: std::process::id(),
            facility: head.facility.id.clone(),
        })
    }
}

/// The listeners of the HTTP door.
struct HttpListeners {
    http: Listener,
    https: Listener,
}

/// The certificate of the doors.
struct Certificates {
    identity: Identity,
    authority: Authority,
    tls: Arc<ServerConfig>,
    /// Asks for the certificate of a host.
    tls_for_hosts: Arc<ServerConfig>,
}

/// The head's host while it starts, once the head runs.
struct HeadHost<'a> {
    host: Host<'a>,
    handle: &'a FacilityHandle,
    head: Head,
    head_thread: JoinHandle<()>,
    facility: FacilityRow,
    /// The disk server in this process.
    server: DiskServer,
    /// How other disk servers are spoken to.
    peers: PeerClient,
}

impl<'a> HeadHost<'a> {
    /// Opens the catalogue and starts the head's thread.
    fn open(mut host: Host<'a>, handle: &'a FacilityHandle, server: &DiskServer) -> Result<Self> {
        // It waits for its database.
        let core = tokio::task::block_in_place(|| handle.open_head(server.clone(), (host.clock)()))?;
        let (facility, must_beat) = (core.facility().clone(), core.must_beat());
        let (head, head_thread) = Head::start(core, Arc::clone(&host.clock))?;
        let chores = &host.chores;
        chores.spawn("heartbeat", standby::keep_alive(must_beat.then(|| head.clone()), chores.token()));
        host.done(Step::Facility);
        let (server, peers) = (server.clone(), PeerClient::new(handle.vouchers()));
        Ok(Self { host, handle, head, head_thread, facility, server, peers })
    }

    fn read_certificates(&mut self) -> Result<Certificates> {
        let now = (self.host.clock)();
        let (identity, authority) = self.handle.certificates(&self.facility.id, now)?;
        let tls = net::tls::server_config(&identity)?;
        let tls_for_hosts = net::tls::server_config_for_hosts(&identity)?;
        self.host.done(Step::Certificates);
        Ok(Certificates { identity, authority, tls, tls_for_hosts })
    }

    /// Starts the disk server; what is returned opens its files by their names, for all doors.
    async fn start_disk_server(&mut self, registration: ServerRegistration) -> Result<Arc<Files>> {
        let is_disk = self.host.config.host.roles.contains(&Role::Disk);
        let partition =
            is_disk.then(|| self.handle.open_partition(&self.facility.id).map(Arc::new)).transpose()?;
        let link = Link::Local(self.head.clone());
        let chores = &self.host.chores;
        chores.spawn("pools", maintain(disk::port::Head::new(link.clone()), chores.token()));
        let keys = ServerKeys::of_head(&self.handle.key.caps(), &self.server.name);
        let peers = self.peers.clone();
        let parts = DiskParts { link, peers, keys, registration, partition, time: None };
        let objects = parts.start(&mut self.host).await?;
        Ok(self.files(objects))
    }

    fn files(&self, objects: Arc<Objects>) -> Arc<Files> {
        let Host { config, clock, chores, .. } = &self.host;
        let (keys, wait) = (self.handle.key.caps(), config.doors.recall_wait.0);
        let files = Files::new(self.head.clone(), objects, keys, Arc::clone(clock), wait);
        let prober = Prober::new(self.head.clone(), Arc::clone(clock), chores.child());
        Arc::new(files.with_peer_client(self.peers.clone()).with_prober(prober))
    }

    fn open_root_door(
        &mut self,
        files: &Arc<Files>,
        access: &Access,
        tls: Arc<ServerConfig>,
        listener: Listener,
    ) -> Result<()> {
        let Host { config, counters, .. } = &self.host;
        let (authenticator, counters) = (access.authenticator.clone(), Arc::clone(counters));
        let settings = Settings {
            facility: self.facility.name.clone(),
            reads: config.disk.reads.into(),
            tls: Some(TlsOffer { config: tls, rule: tls_rule(&config.doors) }),
            authorities: self.handle.trust(),
            reach: Some((config.reach.rule(), listener.address()?)),
        };
        let door = RootDoor::new(Arc::clone(files), settings, authenticator, counters)
            .with_audit(access.audit.clone());
        self.host.open_root_door(door, listener);
        Ok(())
    }

    /// Opens one door at both listeners, the second with TLS, and at the socket in the facility's directory.
    fn open_http_door(
        &mut self,
        door: HttpDoor,
        tls: Arc<ServerConfig>,
        HttpListeners { http, https }: HttpListeners,
    ) -> Result<()> {
        let Host { layout, doors, .. } = &self.host;
        let door = Arc::new(door);
        let near = LocalListener::bind(layout.root(), SOCKET, CONNECTIONS_MAX)?;
        http::serve_local(Arc::clone(&door), near, doors);
        http::serve(Arc::clone(&door), http, None, doors)?;
        http::serve(door, https, Some(tls), doors)?;
        self.host.done(Step::HttpDoor);
        Ok(())
    }

    fn http_door(&self, files: Arc<Files>, access: Access, identity: &Identity) -> HttpDoor {
        let Host { config, doors, counters, .. } = &self.host;
        let (key, owner) = (self.handle.key.clone(), &self.facility.owner);
        let trust = RemoteTrust { authorities: self.handle.trust(), ..RemoteTrust::default() };
        HttpDoor::new(files, key, owner, Arc::clone(counters), doors.token())
            .with_authenticator(access.authenticator)
            .with_names(self.host.door_names(identity), config.doors.http_makes_parents)
            .with_sitename(&self.facility.name)
            .with_hosts(access.host_registry, access.join_service)
            .with_audit(access.audit)
            .with_trust(trust)
            .with_reach_rule(config.reach.rule())
    }

    /// The dependencies of the services beside the head.
    ///
    /// Jobs cannot see the facility's directory: they find it at its doors.
    fn room_configuration(&self, endpoints: &Endpoints) -> RoomConfiguration<'a> {
        let Host { layout, config, .. } = self.host;
        let is_open = !config.doors.require_token;
        RoomConfiguration {
            layout,
            config,
            control: Control::at_socket(layout.root(), &self.facility.owner),
            authorities: self.handle.vouchers(),
            site: config.name.clone(),
            facility: (self.server.https_url(), is_open.then(|| endpoints.http.clone())),
            prefix: String::new(),
        }
    }
}

/// Authentication at the doors, the join service, and the audit log.
struct Access {
    authenticator: Authenticator,
    host_registry: HostRegistry,
    join_service: JoinService,
    audit: Audit,
}

impl Access {
    async fn new(head: &HeadHost<'_>, authority: Authority, https: SocketAddr, audit: Audit) -> Result<Self> {
        let Host { config, clock, chores, .. } = &head.host;
        let names = names_of_this_host(config.doors.bind, &config.host.address);
        chores
            .spawn("certificates", authority.clone().keep(names.clone(), Arc::clone(clock), chores.token()));
        let own = audience_of(&config.reachable(https));
        let issuers = Arc::new(Issuers::new(&config.issuers, &[own], &config.reach.rule())?);
        chores.spawn("keys of issuers", Arc::clone(&issuers).keep(chores.token()));
        let host_registry = HostRegistry::of(&head.head).await?;
        let (tokens, facility) = (head.handle.key.tokens(), &head.facility);
        let require_token = config.doors.require_token;
        let authenticator =
            Authenticator::new(tokens, &facility.id, &facility.owner, require_token, Arc::clone(clock))
                .with_issuers(issuers)
                .with_hosts(host_registry.clone());
        let join_service = JoinService {
            authority,
            keys: head.handle.key.caps(),
            facility: facility.clone(),
            head: head.server.clone(),
            names,
            clock: Arc::clone(clock),
        };
        Ok(Self { authenticator, host_registry, join_service, audit })
    }
}
