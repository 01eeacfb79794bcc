//! Running a host that joined: its rooms, and doors that open objects by capability.

use crate::{
    access::cap_keys,
    boot::{
        join::{self, HostFiles, Member},
        rooms::{RoomConfiguration, Rooms},
        steps::{DiskParts, Host, Listeners, Step, open_partition, tls_rule},
    },
    doors::{
        files::Files,
        http::{self, HttpDoor, RemoteTrust},
        xrootd::{DataDoor, Settings},
    },
    facility::{config::Config, layout::Layout, link::Link},
    hosts::presence,
};
use base::{Clock, Result, Timestamp};
use client::Control;
use disk::{
    clock::HeadTime,
    remote::{objects::PeerClient, redirect::host_and_port},
    serve::local_objects::Objects,
    upkeep::janitor::ServerRegistration,
};
use net::{
    blocking,
    listener::Listener,
    shutdown::{Shutdown, Token},
    tls::Identity,
    xrd::{Redirect, TlsOffer},
};
use rustls::ServerConfig;
use std::{fs, sync::Arc, time::Duration};
use tracing::{error, info};
use wire::control::{DiskServer, Endpoints, Role};

/// How often the certificate is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3600);
/// What has less time than this is renewed.
const RENEW_S: i64 = 30 * 86_400;

/// The running services, in the order in which they stop.
pub(crate) struct Running {
    pub(crate) rooms: Rooms,
    pub(crate) doors: Shutdown,
    pub(crate) chores: Shutdown,
    pub(crate) endpoints: Endpoints,
    /// Says goodbye to the head, as the daemon of this name and start.
    pub(crate) leave: (Link, String, u64),
}

/// Starts the doors and rooms of a host that joined, step by step. The head need not be there: what it has given rights to is served.
pub(crate) async fn start(layout: &Layout, config: &Config, clock: Clock) -> Result<Running> {
    let time = HeadTime::new(clock);
    let mut host = Host::new(layout, config, time.clock());
    let listeners = host.listeners().await?;
    host.done(Step::Listeners);
    let registration = host.registration(&listeners)?;
    let (server, boot) = (registration.server.clone(), registration.boot);
    let mut member = MemberHost::open(host)?;
    let tls = member.read_certificates()?;
    let objects = member.start_disk_server(registration, time).await?;
    let Listeners { root, https, .. } = listeners;
    member.open_root_door(&objects, &server, &tls, root)?;
    member.open_http_door(objects, &server, tls, https)?;
    let rooms = member.room_configuration();
    let rooms = member.host.start_rooms(rooms)?;
    let MemberHost { host: Host { doors, chores, .. }, record, link, .. } = member;
    chores.spawn("presence", presence::say_so(link.clone(), server.clone(), boot, chores.token()));
    let endpoints = endpoints(&server, &config.host.head, record.facility);
    info!(root = endpoints.root, head = config.host.head, "host is up");
    Ok(Running { rooms, doors, chores, endpoints, leave: (link, server.name, boot) })
}

/// A host that joined while it starts, once it knows its facility.
struct MemberHost<'a> {
    host: Host<'a>,
    /// What it was told when it joined.
    record: Member,
    /// Certificates and keys that it got then.
    files: HostFiles,
    control: Control,
    link: Link,
}

impl<'a> MemberHost<'a> {
    /// Reads what the host was told when it joined.
    fn open(mut host: Host<'a>) -> Result<Self> {
        let (record, files) = (Member::read(host.layout)?, HostFiles::new(host.layout));
        let control = Control::new(&host.config.host.head, "host").with_tls(files.control());
        let link = Link::Remote(control.clone());
        host.done(Step::Facility);
        Ok(Self { host, record, files, control, link })
    }

    fn identity(&self) -> Identity {
        let HostFiles { certificate, key, .. } = &self.files;
        Identity { certificate: certificate.clone(), key: key.clone(), client_ca: None }
    }

    fn read_certificates(&mut self) -> Result<Arc<ServerConfig>> {
        let tls = net::tls::server_config(&self.identity())?;
        let Host { layout, config, clock, chores, .. } = &self.host;
        let (layout, config) = ((*layout).clone(), (*config).clone());
        chores.spawn("certificate", keep_certificate(layout, config, Arc::clone(clock), chores.token()));
        self.host.done(Step::Certificates);
        Ok(tls)
    }

    async fn start_disk_server(
        &mut self,
        registration: ServerRegistration,
        time: Arc<HeadTime>,
    ) -> Result<Arc<Objects>> {
        let Host { layout, config, chores, .. } = &self.host;
        let (link, keys) = (self.link.clone(), cap_keys::read(layout)?);
        let partition = if config.host.roles.contains(&Role::Disk) {
            let directory = layout.partition_named(&join::partition_name(config));
            let partition = open_partition(&directory, &self.record.facility, &config.disk)?;
            let keep = cap_keys::keep(link.clone(), (*layout).clone(), keys.clone(), chores.token());
            chores.spawn("keys", keep);
            Some(Arc::new(partition))
        } else {
            None
        };
        let peers = PeerClient::new(Some(self.files.authority.clone()));
        let parts = DiskParts { link, peers, keys, registration, partition, time: Some(time) };
        parts.start(&mut self.host).await
    }

    fn open_root_door(
        &mut self,
        objects: &Arc<Objects>,
        server: &DiskServer,
        tls: &Arc<ServerConfig>,
        listener: Listener,
    ) -> Result<()> {
        let Host { layout, config, counters, .. } = &self.host;
        let (host, port) = host_and_port(&self.record.root)?;
        let head = Redirect { host, port, opaque: String::new() };
        let (own, _) = host_and_port(&server.root)?;
        let settings = Settings {
            facility: self.record.facility_name.clone(),
            reads: config.disk.reads.into(),
            tls: Some(TlsOffer { config: Arc::clone(tls), rule: tls_rule(&config.doors) }),
            authorities: config.trust(layout.root()),
            reach: Some((config.reach.rule(), listener.address()?)),
        };
        let door = DataDoor::new(Arc::clone(objects), &own, settings, head, Arc::clone(counters));
        self.host.open_root_door(door, listener);
        Ok(())
    }

    fn open_http_door(
        &mut self,
        objects: Arc<Objects>,
        server: &DiskServer,
        tls: Arc<ServerConfig>,
        listener: Listener,
    ) -> Result<()> {
        let Host { layout, config, clock, counters, doors, .. } = &self.host;
        let (own, _) = host_and_port(&server.root)?;
        let files = Arc::new(Files::without_names(objects, Arc::clone(clock)));
        let names = (&*config.host.head, &*own);
        let trust = RemoteTrust { authorities: config.trust(layout.root()), ..RemoteTrust::default() };
        let door = HttpDoor::without_names(files, names, Arc::clone(counters), doors.token())
            .with_trust(trust)
            .with_reach_rule(config.reach.rule())
            .with_names(self.host.door_names(&self.identity()), false);
        http::serve(Arc::new(door), listener, Some(tls), doors)?;
        self.host.done(Step::HttpDoor);
        Ok(())
    }

    /// The dependencies of the services on this host.
    fn room_configuration(&self) -> RoomConfiguration<'a> {
        let Host { layout, config, .. } = self.host;
        RoomConfiguration {
            layout,
            config,
            control: self.control.clone(),
            authorities: Some(self.files.authority.clone()),
            site: self.record.facility_name.clone(),
            facility: (config.host.head.clone(), None),
            prefix: format!("{}-", config.host_name()),
        }
    }
}

fn endpoints(server: &DiskServer, head: &str, facility: String) -> Endpoints {
    Endpoints {
        root: server.root_url(),
        http: head.to_owned(),
        roots: Some(server.roots_url()),
        https: Some(server.https_url()),
        is_token_required: true,
        pid: std::process::id(),
        facility,
    }
}

/// Renews the certificate in time. The doors and the way to the head take the new one by themselves.
async fn keep_certificate(layout: Layout, config: Config, clock: Clock, token: Token) {
    loop {
        if is_ending(&layout, clock()) {
            let (layout, config) = (layout.clone(), config.clone());
            match blocking(move || join::renew(&layout, &config)).await {
                Ok(()) => info!("this host's certificate was renewed"),
                Err(failure) => error!(%failure, "cannot renew this host's certificate"),
            }
        }
        tokio::select! {
            () = token.stopped() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn is_ending(layout: &Layout, now: Timestamp) -> bool {
    let later = Timestamp(now.0 + RENEW_S * 1000);
    fs::read(HostFiles::new(layout).certificate)
        .is_ok_and(|pem| !crate::hosts::authority::is_good_pem(&pem, later))
}
