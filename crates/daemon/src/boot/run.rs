//! Running a facility: every role in one process, wired together, until it is told to stop.

use crate::{
    access::{
        audit,
        identity::Gate,
        issuers::{Issuers, audience_of},
        roster::Roster,
    },
    boot::{
        facility::Possession,
        member,
        rooms::{Premises, Rooms},
        service,
        standby::{self, Start},
    },
    doors::{
        files::Files,
        http::{self, DoorNames, HttpDoor, RemoteTrust},
        xrootd::{AuditedDoor, RootDoor},
    },
    facility::{
        config::{self, Config, RootTls},
        layout::random,
        link::Link,
    },
    hosts::{
        Reception,
        authority::{Authority, names_of_this_host},
        presence::{self, Prober},
    },
    metrics::DoorCounters,
};
use base::{Clock, ErrorKind, Failure, Result, Timestamp, limits::CONNECTIONS_MAX};
use client::{Control, facility::SOCKET};
use disk::{
    remote::{objects::Reach, threads::PEER_THREADS_MAX},
    serve::local_objects::Objects,
    upkeep::{
        copier::Copier,
        janitor::{Introduction, Janitor, tend},
    },
};
use head::{Head, store::FacilityRow};
use net::{
    listener::Listener,
    local_listener::LocalListener,
    shutdown::Shutdown,
    unproven::Unproven,
    xrd::{PEER_MOVERS_MAX, TlsOffer, TlsRule},
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    pin::pin,
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use wire::{
    auth::capability::ServerKeys,
    control::{DiskServer, Endpoints, HostNames, Role},
};

/// How long transfers and calls that are under way may go on after the signal to stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Threads that may block at a time: those that serve files of this host, and those that wait for other servers.
const BLOCKING_THREADS_MAX: usize = 128 + PEER_MOVERS_MAX + PEER_THREADS_MAX;

/// What the command line says about the doors; the configuration says the rest.
#[derive(Debug, Clone, Default)]
pub struct Doors {
    /// Address.
    pub bind: Option<IpAddr>,
    /// Port of `root://`, 0 for any.
    pub root_port: Option<u16>,
    /// Port of `http://`, 0 for any.
    pub http_port: Option<u16>,
    /// Port of `https://`, 0 for any; any if only `http_port` is given.
    pub https_port: Option<u16>,
    /// How it starts where another head may be active.
    pub start: Start,
}

/// Runs the facility in `directory` until SIGTERM or SIGINT.
pub fn run(directory: &Path, doors: &Doors) -> Result<()> {
    let mut possession = Possession::take(directory)?;
    let config = &mut possession.config.doors;
    config.bind = doors.bind.unwrap_or(config.bind);
    config.root_port = doors.root_port.unwrap_or(config.root_port);
    // Whoever moves the one port has a reason not to use the usual ones.
    config.https_port = doors.https_port.or(doors.http_port.map(|_| 0)).unwrap_or(config.https_port);
    config.http_port = doors.http_port.unwrap_or(config.http_port);
    possession.config.check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("bpd")
        .enable_all()
        .build()
        .map_err(|cause| Failure::io("start the runtime", &cause))?;
    let outcome = runtime.block_on(serve(possession, doors.start));
    // A recall that a client waits for, or a stuck device, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// The parts that end in a certain order.
struct Running {
    doors: Shutdown,
    chores: Shutdown,
    rooms: Rooms,
    audit: audit::Writer,
    head: Head,
    head_thread: JoinHandle<()>,
}

async fn serve(possession: Possession, how: Start) -> Result<()> {
    tokio::spawn(service::keep_watchdog());
    // Signals first: one that comes during the start must not be lost.
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|cause| Failure::io("catch SIGTERM", &cause))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|cause| Failure::io("catch SIGINT", &cause))?;
    let mut told = pin!(async {
        tokio::select! {
            _ = terminate.recv() => info!("received SIGTERM; finishing open requests"),
            _ = interrupt.recv() => info!("received SIGINT; finishing open requests"),
        }
        service::stopping();
    });
    if possession.config.host.head.is_empty() {
        tokio::select! {
            turn = standby::await_turn(&possession, how) => turn?,
            () = &mut told => return Ok(()),
        }
        possession.begin()?;
        let running = start(&possession).await?;
        service::ready("the doors are open");
        let head = running.head.clone();
        let is_replaced = tokio::select! {
            () = told => false,
            () = head.superseded() => true,
        };
        drop(head);
        stop(&possession, running).await;
        if is_replaced {
            return Err(standby::replaced(&possession).await);
        }
    } else {
        let running = member::start(&possession.layout, &possession.config, system_clock()).await?;
        possession.announce(&running.endpoints)?;
        service::ready("the doors are open");
        told.await;
        let (link, host, boot) = running.leave;
        presence::say_goodbye(link, host, boot).await;
        close(running.rooms, [running.doors, running.chores]).await;
        possession.withdraw();
        info!("host is down");
    }
    Ok(())
}

fn system_clock() -> Clock {
    Arc::new(|| Timestamp::from_system(std::time::SystemTime::now()))
}

/// Lets transfers and calls that are under way end.
async fn drain(parts: [Shutdown; 2]) {
    for part in parts {
        if let Err(failure) = part.stop(DRAIN).await {
            warn!(%failure, "some tasks did not stop in time; no acknowledged data is lost");
        }
    }
}

async fn start(possession: &Possession) -> Result<Running> {
    let doors = &possession.config.doors;
    let has = |role| possession.config.host.roles.contains(&role);
    let budget = doors.unproven();
    let root = listen(doors.bind, doors.root_port, ("root_port", &budget)).await?;
    // Tokens are not sent in plain text: beyond this host there is only https.
    let near = if doors.bind.is_loopback() { doors.bind } else { Ipv4Addr::LOCALHOST.into() };
    let http = listen(near, doors.http_port, ("http_port", &budget)).await?;
    let https = listen(doors.bind, doors.https_port, ("https_port", &budget)).await?;
    let endpoints = endpoints(&root, &http, &https)?;

    let clock = system_clock();
    let introduction = introduction(&possession.config, root.address()?, https.address()?)?;
    let (server, head_server) = (introduction.server.clone(), introduction.server.clone());
    // It waits for its database.
    let core = tokio::task::block_in_place(|| possession.open_head(server.clone(), clock()))?;
    let facility = core.facility().clone();
    let (identity, authority) = possession.certificates(&facility.id, clock())?;
    let (tls, tls_for_hosts) =
        (net::tls::server_config(&identity)?, net::tls::server_config_for_hosts(&identity)?);
    let partition =
        has(Role::Disk).then(|| possession.open_partition(&facility.id).map(Arc::new)).transpose()?;
    let must_beat = core.must_beat();
    let (head, head_thread) = Head::start(core, Arc::clone(&clock))?;
    let (shutdown, chores) = (Shutdown::new(), Shutdown::new());
    let counters = Arc::new(DoorCounters::default());
    let (keys, port) = (possession.key.caps(), disk::port::Head::new(Link::Local(head.clone())));
    chores.spawn("heartbeat", standby::keep_alive(must_beat.then(|| head.clone()), chores.token()));
    let (served, own) = (partition.iter().cloned().collect(), ServerKeys::of_head(&keys, &server.name));
    let reach = Reach::new(possession.vouchers());
    let objects = Objects::new(port.clone(), served, own, Arc::clone(&clock), chores.child());
    let objects = Arc::new(objects.with_reach(reach.clone()));
    if let Some(partition) = partition {
        let copier = Copier::new(&port, &reach, &partition, &objects, &clock);
        let janitor = Janitor::new(port.clone(), introduction, partition, &objects);
        janitor.register().await?;
        keep_partition(janitor, copier, (&possession.config.disk, &clock), &chores);
    }
    chores.spawn("pools", tend(port, chores.token()));
    let files = Files::new(head.clone(), objects, keys, Arc::clone(&clock), doors.recall_wait.0);
    let prober = Prober::new(head.clone(), Arc::clone(&clock), chores.child());
    let files = Arc::new(files.with_reach(reach).with_prober(prober));
    let roster = Roster::of(&head).await?;
    let names = names_of_this_host(doors.bind, &possession.config.host.address);
    let reception = reception(possession, &authority, (&facility, server, names.clone()), &clock);
    chores.spawn("certificates", authority.keep(names, Arc::clone(&clock), chores.token()));
    let issuers = issuers(&possession.config, https.address()?)?;
    chores.spawn("keys of issuers", Arc::clone(&issuers).keep(chores.token()));
    let gate = gate(possession, &facility, &clock).with_issuers(issuers).with_hosts(roster.clone());
    let audit = audit::Writer::start(possession.layout.root(), &possession.config.audit)?;
    let root_door = RootDoor::new(Arc::clone(&files), &facility.name, gate.clone(), Arc::clone(&counters));
    let root_door = AuditedDoor::new(furnish(root_door, possession, tls, root.address()?), audit.audit());
    let sessions = net::xrd::serve(Arc::new(root_door), root, &shutdown);
    // The counters are new, and the door is opened once.
    let _ = (counters.unproven.set(budget), counters.sessions.set(sessions));
    let http_door = HttpDoor::new(files, possession.key.clone(), &facility.owner, counters, shutdown.token())
        .with_gate(gate)
        .with_names(door_names(&possession.config, &identity), doors.http_makes_parents)
        .with_hosts(roster, reception)
        .with_audit(audit.audit())
        .with_trust(RemoteTrust { authorities: possession.trust(), ..RemoteTrust::default() })
        .with_reach(possession.config.reach.rule());
    open_http(http_door, possession.layout.root(), (http, https), tls_for_hosts, &shutdown)?;
    let rooms = premises(possession, &facility.owner, (&head_server, &endpoints)).start()?;
    let endpoints =
        Endpoints { is_token_required: doors.require_token, facility: facility.id.clone(), ..endpoints };
    possession.announce(&endpoints)?;
    info!(root = endpoints.root, http = endpoints.http, incarnation = facility.incarnation, "facility is up");
    Ok(Running { doors: shutdown, chores, rooms, audit, head, head_thread })
}

/// What the rooms beside the head need.
///
/// Jobs cannot see the facility's directory: they find it at its doors.
fn premises<'a>(
    possession: &'a Possession,
    owner: &str,
    (server, endpoints): (&DiskServer, &Endpoints),
) -> Premises<'a> {
    let is_open = !possession.config.doors.require_token;
    Premises {
        layout: &possession.layout,
        config: &possession.config,
        control: Control::at_socket(possession.layout.root(), owner),
        authorities: possession.vouchers(),
        site: possession.config.name.clone(),
        facility: (format!("https://{}", server.https), is_open.then(|| endpoints.http.clone())),
        prefix: String::new(),
    }
}

/// Gives a door what the configuration says.
fn furnish(
    door: RootDoor,
    possession: &Possession,
    tls: Arc<rustls::ServerConfig>,
    own: SocketAddr,
) -> RootDoor {
    let config = &possession.config;
    door.with_tls(TlsOffer { config: tls, rule: tls_rule(&config.doors) })
        .with_trust(possession.trust())
        .with_reach(config.reach.rule(), own)
        .with_reads(config.disk.reads.into())
}

/// Keeps a partition: reports, deletes, fetches copies, compares it with the catalogue, adopts files.
pub(crate) fn keep_partition(
    janitor: Janitor,
    copier: Copier,
    (config, clock): (&config::Disk, &Clock),
    chores: &Shutdown,
) {
    chores.spawn("copier", copier.keep(chores.token()));
    chores.spawn("adopt", janitor.adopter(&config.adopt, clock, chores.token()).keep());
    chores.spawn("scan", janitor.scanner(chores.token()).keep());
    chores.spawn("janitor", janitor.keep(chores.token()));
}

/// By which names the HTTP doors of this host may be addressed.
pub(crate) fn door_names(config: &Config, identity: &net::tls::Identity) -> DoorNames {
    let given = config.doors.names.iter().cloned().chain([config.host.address.clone(), config.host_name()]);
    DoorNames::new(given, Some(identity.certificate.clone()))
}

/// Opens one door at both listeners, the second with TLS, and at the socket in the facility's directory.
fn open_http(
    door: HttpDoor,
    directory: &Path,
    (http, https): (Listener, Listener),
    tls: Arc<rustls::ServerConfig>,
    shutdown: &Shutdown,
) -> Result<()> {
    let door = Arc::new(door);
    let near = LocalListener::bind(directory, SOCKET, CONNECTIONS_MAX)?;
    http::serve_local(Arc::clone(&door), near, shutdown);
    http::serve(Arc::clone(&door), http, None, shutdown)?;
    http::serve(door, https, Some(tls), shutdown)
}

/// What hosts need that join.
fn reception(
    possession: &Possession,
    authority: &Authority,
    (facility, head, names): (&FacilityRow, DiskServer, HostNames),
    clock: &Clock,
) -> Reception {
    Reception {
        authority: authority.clone(),
        keys: possession.key.caps(),
        facility: facility.clone(),
        head,
        names,
        clock: Arc::clone(clock),
    }
}

/// Who is who at the doors.
fn gate(possession: &Possession, facility: &FacilityRow, clock: &Clock) -> Gate {
    let require_token = possession.config.doors.require_token;
    Gate::new(possession.key.tokens(), &facility.id, &facility.owner, require_token, Arc::clone(clock))
}

/// Whose tokens are taken beside the facility's own.
fn issuers(config: &Config, https: SocketAddr) -> Result<Arc<Issuers>> {
    let own = audience_of(&config.reachable(https));
    Issuers::new(&config.issuers, &[own], &config.reach.rule()).map(Arc::new)
}

/// Where the doors are.
fn endpoints(root: &Listener, http: &Listener, https: &Listener) -> Result<Endpoints> {
    Ok(Endpoints {
        root: format!("root://{}", root.address()?),
        http: format!("http://{}", http.address()?),
        roots: Some(format!("roots://{}", root.address()?)),
        https: Some(format!("https://{}", https.address()?)),
        is_token_required: false,
        pid: std::process::id(),
        facility: String::new(),
    })
}

/// What the disk server of this process tells the head about itself.
pub(crate) fn introduction(config: &Config, root: SocketAddr, https: SocketAddr) -> Result<Introduction> {
    let server =
        DiskServer { name: config.host_name(), root: config.reachable(root), https: config.reachable(https) };
    // Tells this start from all others. Positive for the catalogue, whose numbers have a sign.
    let boot = u64::from_le_bytes(random()?) >> 1;
    Ok(Introduction { server, boot, pool: config.disk.pool.clone(), is_direct: config.disk.direct })
}

/// A token must not be sent in plain text, so who demands one demands TLS at the login.
pub(crate) fn tls_rule(doors: &config::Doors) -> TlsRule {
    match doors.root_tls {
        RootTls::Required => TlsRule::Required,
        RootTls::Offered if !doors.require_token => TlsRule::Offered,
        RootTls::Offered | RootTls::Login => TlsRule::Login,
    }
}

pub(crate) async fn listen(bind: IpAddr, port: u16, (option, budget): (&str, &Unproven)) -> Result<Listener> {
    let address = SocketAddr::new(bind, port);
    let listener = Listener::bind(address, CONNECTIONS_MAX).await.map_err(|failure| {
        let flag = option.replace('_', "-");
        let hint = format!("another program has port {port}: choose one with --{flag} PORT, or 0 for any");
        Failure::new(ErrorKind::Busy, failure.what).hint(hint)
    })?;
    Ok(listener.with_budget(budget.clone()))
}

/// Rooms first, so that they can still report; then the doors; then what the doors left to do.
async fn close(rooms: Rooms, [doors, chores]: [Shutdown; 2]) {
    rooms.tell();
    doors.tell();
    let joined = tokio::task::spawn_blocking(move || rooms.join(DRAIN)).await;
    let rooms = joined.unwrap_or_else(|cause| Err(Failure::internal(format!("rooms ended badly: {cause}"))));
    if let Err(failure) = rooms {
        warn!(%failure, "some services did not stop in time; no acknowledged data is lost");
    }
    drain([doors, chores]).await;
}

/// The head last.
async fn stop(possession: &Possession, running: Running) {
    let Running { doors, chores, rooms, audit, head, head_thread } = running;
    close(rooms, [doors, chores]).await;
    audit.stop();
    possession.withdraw();
    drop(head);
    if tokio::task::spawn_blocking(move || head_thread.join()).await.is_err() {
        error!("the head's thread panicked");
    }
    info!("facility is down");
}
