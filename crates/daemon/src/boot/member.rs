//! Running a host that joined: its rooms, and doors that open objects by capability.

use crate::{
    access::cap_keys,
    boot::{
        join::{self, HostFiles, Member},
        rooms::{Premises, Rooms},
        run::{door_names, introduction, keep_partition, listen, tls_rule},
    },
    doors::{
        files::Files,
        http::{self, HttpDoor, RemoteTrust},
        xrootd::DataDoor,
    },
    facility::{config::Config, layout::Layout, link::Link},
    hosts::presence,
    metrics::DoorCounters,
};
use base::{Clock, Result, Timestamp};
use client::Control;
use disk::{
    clock::HeadTime,
    remote::{objects::Reach, redirect::host_and_port},
    serve::local_objects::Objects,
    upkeep::{copier::Copier, janitor::Janitor},
};
use net::{
    blocking,
    shutdown::{Shutdown, Token},
    tls::Identity,
    xrd::{Redirect, TlsOffer},
};
use std::path::PathBuf;
use std::{fs, sync::Arc, time::Duration};
use tracing::{error, info};
use wire::control::{DiskServer, Endpoints, Role};

/// How often the certificate is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3600);
/// What has less time than this is renewed.
const RENEW_S: i64 = 30 * 86_400;

/// What runs, in the order in which it ends.
pub(crate) struct Running {
    pub(crate) rooms: Rooms,
    pub(crate) doors: Shutdown,
    pub(crate) chores: Shutdown,
    pub(crate) endpoints: Endpoints,
    /// Says goodbye to the head, as the daemon of this name and start.
    pub(crate) leave: (Link, String, u64),
}

/// Starts the doors and rooms of a host that joined. The head need not be there: what it has given rights to is served.
pub(crate) async fn start(layout: &Layout, config: &Config, clock: Clock) -> Result<Running> {
    let member = Member::read(layout)?;
    let time = HeadTime::new(clock);
    let clock = time.clock();
    let doors = &config.doors;
    let budget = doors.unproven();
    let root = listen(doors.bind, doors.root_port, ("root_port", &budget)).await?;
    let https = listen(doors.bind, doors.https_port, ("https_port", &budget)).await?;
    let introduction = introduction(config, root.address()?, https.address()?)?;
    let server = introduction.server.clone();
    let files = HostFiles::new(layout);
    let authority = files.authority.clone();
    let identity =
        Identity { certificate: files.certificate.clone(), key: files.key.clone(), client_ca: None };
    let tls = net::tls::server_config(&identity)?;
    let (shutdown, chores) = (Shutdown::new(), Shutdown::new());
    let control = Control::new(&config.host.head, "host").with_tls(files.control());
    let link = Link::Remote(control.clone());
    let leave = (link.clone(), server.name.clone(), introduction.boot);
    let is_disk = config.host.roles.contains(&Role::Disk);
    let partition = is_disk.then(|| open_partition(layout, config, &member).map(Arc::new)).transpose()?;
    let reach = Reach::new(Some(authority.clone()));
    let (served, keys) = (partition.iter().cloned().collect(), cap_keys::read(layout)?);
    let port = disk::port::Head::new(link.clone());
    let objects = Objects::new(port.clone(), served, keys.clone(), Arc::clone(&clock), chores.child());
    let objects = Arc::new(objects.with_reach(reach.clone()).with_time(Arc::clone(&time)));
    if let Some(partition) = partition {
        chores.spawn("keys", cap_keys::keep(link, layout.clone(), keys, chores.token()));
        let copier = Copier::new(&port, &reach, &partition, &objects, &clock);
        let janitor = Janitor::new(port, introduction, partition, &objects).with_time(time);
        keep_partition(janitor, copier, (&config.disk, &clock), &chores);
    }
    chores.spawn(
        "certificate",
        keep_certificate(layout.clone(), config.clone(), Arc::clone(&clock), chores.token()),
    );

    let counters = Arc::new(DoorCounters::default());
    let (host, port) = host_and_port(&member.root)?;
    let (own, _) = host_and_port(&server.root)?;
    let head = Redirect { host, port, opaque: String::new() };
    let door =
        DataDoor::new(Arc::clone(&objects), (&member.facility_name, &own), head, Arc::clone(&counters))
            .with_tls(TlsOffer { config: Arc::clone(&tls), rule: tls_rule(doors) })
            .with_trust(config.trust(layout.root()))
            .with_reach(config.reach.rule(), root.address()?)
            .with_reads(config.disk.reads.into());
    let sessions = net::xrd::serve(Arc::new(door), root, &shutdown);
    // The door is opened once.
    let _ = counters.sessions.set(sessions);
    let files = Arc::new(Files::without_names(objects, Arc::clone(&clock)));
    let door = HttpDoor::without_names(files, (&config.host.head, &own), counters, shutdown.token())
        .with_trust(RemoteTrust { authorities: config.trust(layout.root()), ..RemoteTrust::default() })
        .with_reach(config.reach.rule())
        .with_names(door_names(config, &identity), false);
    http::serve(Arc::new(door), https, Some(tls), &shutdown)?;
    let endpoints = endpoints(&server, &config.host.head, member.facility);
    let rooms = premises((layout, config), control, (authority, member.facility_name)).start()?;
    chores.spawn("presence", presence::say_so(leave.0.clone(), server, leave.2, chores.token()));
    info!(root = endpoints.root, head = config.host.head, "host is up");
    Ok(Running { rooms, doors: shutdown, chores, endpoints, leave })
}

/// What the rooms of this host need.
fn premises<'a>(
    (layout, config): (&'a Layout, &'a Config),
    control: Control,
    (authority, site): (PathBuf, String),
) -> Premises<'a> {
    Premises {
        layout,
        config,
        control,
        authorities: Some(authority),
        site,
        facility: (config.host.head.clone(), None),
        prefix: format!("{}-", config.host_name()),
    }
}

fn endpoints(server: &DiskServer, head: &str, facility: String) -> Endpoints {
    Endpoints {
        root: format!("root://{}", server.root),
        http: head.to_owned(),
        roots: Some(format!("roots://{}", server.root)),
        https: Some(format!("https://{}", server.https)),
        is_token_required: true,
        pid: std::process::id(),
        facility,
    }
}

fn open_partition(layout: &Layout, config: &Config, member: &Member) -> Result<disk::Partition> {
    let disk = &config.disk;
    let limits = disk::Limits {
        share_bytes: (disk.size.0 > 0).then_some(disk.size.0),
        reserved_bytes: disk.reserve.0,
    };
    let directory = layout.partition_named(&join::partition_name(config));
    let partition = disk::Partition::open_limited(&directory, &member.facility, limits)?;
    partition.set_direct(disk.direct);
    Ok(partition)
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
