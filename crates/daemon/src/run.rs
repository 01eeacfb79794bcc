//! Running a facility: every role in one process, wired together, until it is told to stop.

use crate::{
    authority::HostNames,
    config::{self, Config, RootTls},
    copier::Copier,
    door::RootDoor,
    facility::{Key, Possession, TokenWish, random, sign_token},
    far::Reach,
    files::Files,
    hosts::{Reception, Roster},
    http::{self, HttpDoor, RemoteTrust},
    identity::Gate,
    janitor::{Introduction, Janitor, tend},
    link::Link,
    member,
    metrics::DoorCounters,
    objects::Objects,
};
use base::{ErrorKind, Failure, Millis, Result, Timestamp, limits::CONNECTIONS_MAX};
use batch::{Credentials, WorkerConfig, run_worker};
use client::{Control, FacilityKey, xrd::Token};
use head::{Clock, Head, store::FacilityRow};
use net::{
    listener::Listener,
    shutdown::Shutdown,
    xrd::{TlsOffer, TlsRule},
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use tape::{TapeRoom, VirtualLibrary, session::LabelStyle};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use wire::{
    control::{DiskServer, Endpoints},
    label::LabelDate,
};

/// How long transfers and calls that are under way may go on after the signal to stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Threads that may block on files at a time.
const BLOCKING_THREADS_MAX: usize = 128;
/// How long the worker's tokens are good: longer than a job's files take to be stored.
const STORE_TOKEN_LIFETIME: Millis = Millis(24 * 3_600_000);
/// Pause before a room that ended badly is started again.
const ROOM_PAUSE: Duration = Duration::from_secs(2);

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
}

/// The name of the user who runs this process, from the system's user list.
#[must_use]
pub fn user_of_process() -> String {
    let uid = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid{uid}"))
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
    let outcome = runtime.block_on(serve(possession));
    // A recall that a client waits for, or a stuck device, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// The parts that end in a certain order.
struct Running {
    doors: Shutdown,
    chores: Shutdown,
    rooms: Rooms,
    head: Head,
    head_thread: JoinHandle<()>,
}

async fn serve(possession: Possession) -> Result<()> {
    // Signals first: one that comes during the start must not be lost.
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|cause| Failure::io("catch SIGTERM", &cause))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|cause| Failure::io("catch SIGINT", &cause))?;
    let told = async {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: draining"),
            _ = interrupt.recv() => info!("SIGINT: draining"),
        }
    };
    if possession.config.host.head.is_empty() {
        let running = start(&possession).await?;
        told.await;
        stop(&possession, running).await;
    } else {
        let running = member::start(&possession.layout, &possession.config, system_clock()).await?;
        possession.announce(&running.endpoints)?;
        told.await;
        drain([running.doors, running.chores]).await;
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
            warn!(%failure, "not everything ended in time; nothing acknowledged is lost");
        }
    }
}

async fn start(possession: &Possession) -> Result<Running> {
    let doors = &possession.config.doors;
    let root = listen(doors.bind, doors.root_port, "root_port").await?;
    // Tokens are not sent in plain text: beyond this host there is only https.
    let near = if doors.bind.is_loopback() { doors.bind } else { Ipv4Addr::LOCALHOST.into() };
    let http = listen(near, doors.http_port, "http_port").await?;
    let https = listen(doors.bind, doors.https_port, "https_port").await?;
    let endpoints = endpoints(&root, &http, &https)?;

    let clock = system_clock();
    let introduction = introduction(&possession.config, root.address()?, https.address()?)?;
    let server = introduction.server.clone();
    let core = possession.open_head(server.clone(), clock())?;
    let facility = core.facility().clone();
    let (identity, authority) = possession.certificates(&facility.id, clock())?;
    let (tls, tls_for_hosts) =
        (net::tls::server_config(&identity)?, net::tls::server_config_for_hosts(&identity)?);
    let partition = Arc::new(possession.open_partition(&facility.id)?);
    let library = possession.open_library()?;
    let (head, head_thread) = Head::start(core, Arc::clone(&clock))?;
    let (shutdown, chores) = (Shutdown::new(), Shutdown::new());
    let counters = Arc::new(DoorCounters::default());
    let (keys, link) = (possession.key.caps(), Link::Near(head.clone()));
    let (served, key) = (vec![Arc::clone(&partition)], keys.of(&server.name));
    let reach = Reach::new(possession.vouchers());
    let objects = Objects::new(link.clone(), served, key, Arc::clone(&clock), chores.child());
    let objects = Arc::new(objects.with_reach(reach.clone()));
    let copier = Copier::new(link.clone(), reach.clone(), Arc::clone(&partition), Arc::clone(&clock));
    let janitor = Janitor::new(link.clone(), introduction, partition, &objects);
    janitor.register().await?;
    let files = Files::new(head.clone(), objects, keys, Arc::clone(&clock), doors.recall_wait.0);
    let files = Arc::new(files.with_reach(reach));
    let roster = Roster::of(&head).await?;
    let reception = Reception {
        authority: authority.clone(),
        keys: possession.key.caps(),
        facility: facility.clone(),
        head: server,
        clock: Arc::clone(&clock),
    };
    let renewal = authority.keep(HostNames::of_this_host(doors.bind), Arc::clone(&clock), chores.token());
    chores.spawn("certificates", renewal);
    chores.spawn("janitor", janitor.keep(chores.token()));
    chores.spawn("copier", copier.keep(chores.token()));
    chores.spawn("pools", tend(link, chores.token()));
    let gate = gate(possession, &facility, &clock);
    let root_door = RootDoor::new(Arc::clone(&files), &facility.name, gate.clone(), Arc::clone(&counters))
        .with_tls(TlsOffer { config: Arc::clone(&tls), rule: tls_rule(doors) })
        .with_trust(possession.trust())
        .with_reads(possession.config.disk.reads.into());
    let sessions = net::xrd::serve(Arc::new(root_door), root, &shutdown);
    // The door is opened once.
    let _ = counters.sessions.set(sessions);
    let key: Key = possession.key.clone();
    let http_door = HttpDoor::new(files, key, &facility.owner, counters, shutdown.token())
        .with_gate(gate)
        .with_hosts(roster, reception)
        .with_trust(RemoteTrust { authorities: possession.trust(), ..RemoteTrust::default() });
    let http_door = Arc::new(http_door);
    http::serve(Arc::clone(&http_door), http, None, &shutdown)?;
    http::serve(http_door, https, Some(tls_for_hosts), &shutdown)?;

    let control =
        Control::new(&endpoints.http, &facility.owner).with_key(FacilityKey::new(possession.key.token()));
    let worker = worker_config(possession, (&facility.id, &facility.owner), &clock)?;
    let rooms = Rooms::start(possession, &library, &control, worker)?;
    let endpoints =
        Endpoints { is_token_required: doors.require_token, facility: facility.id.clone(), ..endpoints };
    possession.announce(&endpoints)?;
    info!(root = endpoints.root, http = endpoints.http, incarnation = facility.incarnation, "facility is up");
    Ok(Running { doors: shutdown, chores, rooms, head, head_thread })
}

/// Who is who at the doors.
fn gate(possession: &Possession, facility: &FacilityRow, clock: &Clock) -> Gate {
    let require_token = possession.config.doors.require_token;
    Gate::new(possession.key.tokens(), &facility.id, &facility.owner, require_token, Arc::clone(clock))
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
    Ok(Introduction { server, boot, pool: config.disk.pool.clone() })
}

/// A token must not be sent in plain text, so who demands one demands TLS at the login.
pub(crate) fn tls_rule(doors: &config::Doors) -> TlsRule {
    match doors.root_tls {
        RootTls::Required => TlsRule::Required,
        RootTls::Offered if !doors.require_token => TlsRule::Offered,
        RootTls::Offered | RootTls::Login => TlsRule::Login,
    }
}

pub(crate) async fn listen(bind: IpAddr, port: u16, option: &str) -> Result<Listener> {
    let address = SocketAddr::new(bind, port);
    Listener::bind(address, CONNECTIONS_MAX).await.map_err(|failure| {
        let flag = option.replace('_', "-");
        let hint = format!("another program has port {port}: choose one with --{flag} PORT, or 0 for any");
        Failure::new(ErrorKind::Busy, failure.what).hint(hint)
    })
}

/// Rooms first, so that they can still report; then the doors; then what the doors left to do; the head last.
async fn stop(possession: &Possession, running: Running) {
    let Running { doors, chores, rooms, head, head_thread } = running;
    rooms.tell();
    doors.tell();
    let joined = tokio::task::spawn_blocking(move || rooms.join()).await;
    let rooms = joined.unwrap_or_else(|cause| Err(Failure::internal(format!("rooms ended badly: {cause}"))));
    if let Err(failure) = rooms {
        warn!(%failure, "not every room ended in time; nothing acknowledged is lost");
    }
    drain([doors, chores]).await;
    possession.withdraw();
    drop(head);
    if tokio::task::spawn_blocking(move || head_thread.join()).await.is_err() {
        error!("the head's thread ended badly");
    }
    info!("facility is down");
}

/// The tape server and the worker, on threads of their own.
struct Rooms {
    tape: TapeRoom,
    stop_worker: Arc<AtomicBool>,
    worker: JoinHandle<()>,
}

impl Rooms {
    fn start(
        possession: &Possession,
        library: &VirtualLibrary,
        control: &Control,
        worker: WorkerConfig,
    ) -> Result<Self> {
        let labels = LabelStyle {
            site: possession.config.name.clone(),
            host: "localhost".to_owned(),
            block_bytes: u32::try_from(possession.config.tape.block.0).unwrap_or(u32::MAX),
            today: || LabelDate::from_timestamp(Timestamp::from_system(std::time::SystemTime::now())),
        };
        let tape = TapeRoom::start_virtual(library, labels, control.clone())?;
        let stop_worker = Arc::new(AtomicBool::new(false));
        let (config, control, stop) = (worker, control.clone(), Arc::clone(&stop_worker));
        let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            while let Err(failure) = run_worker(config.clone(), control.clone(), Arc::clone(&stop)) {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                error!(%failure, "worker ended; it is started again");
                std::thread::sleep(ROOM_PAUSE);
            }
        });
        let worker = worker.map_err(|cause| Failure::io("start the worker", &cause))?;
        Ok(Self { tape, stop_worker, worker })
    }

    fn tell(&self) {
        self.tape.tell();
        self.stop_worker.store(true, Ordering::Release);
    }

    fn join(self) -> Result<()> {
        let tape = self.tape.stop(DRAIN);
        if self.worker.join().is_err() {
            error!("the worker's thread ended badly");
        }
        tape
    }
}

fn worker_config(
    possession: &Possession,
    (facility, owner): (&str, &str),
    clock: &Clock,
) -> Result<WorkerConfig> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let wish = &possession.config.batch;
    Ok(WorkerConfig {
        directory: possession.layout.batch(),
        name: "worker1".to_owned(),
        cpus: if wish.cpus > 0 { wish.cpus } else { cpus },
        memory_bytes: if wish.memory.0 > 0 { wish.memory.0 } else { memory_of_host() },
        shepherd: std::env::current_exe().map_err(|cause| Failure::io("find this program", &cause))?,
        user: owner.to_owned(),
        credentials: credentials(possession, facility, clock),
        facility: possession.layout.root().display().to_string(),
        cgroup: batch::cgroup::find(),
    })
}

/// What the worker shows at the doors: tokens of those for whom it stores.
fn credentials(possession: &Possession, facility: &str, clock: &Clock) -> Credentials {
    let (key, facility, clock) = (possession.key.clone(), facility.to_owned(), Arc::clone(clock));
    let token = move |user: &str| {
        let user = user.to_owned();
        let wish = TokenWish { user, lifetime: STORE_TOKEN_LIFETIME, scopes: None, audience: None };
        let (token, _) = sign_token(&key, facility.clone(), wish, clock())?;
        Ok(Token::new(token))
    };
    Credentials { token: Arc::new(token), ca_file: possession.vouchers() }
}

/// Bytes of memory of this host; 0 if it does not say.
fn memory_of_host() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib =
        total.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
