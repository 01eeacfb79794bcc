//! Running a facility: every role in one process, wired together, until it is told to stop.

use crate::{
    authority::HostNames,
    config::{self, RootTls},
    door::RootDoor,
    facility::{Key, Possession, TokenWish, sign_token},
    files::Files,
    http::{self, HttpDoor, RemoteTrust},
    identity::Gate,
    janitor,
    metrics::DoorCounters,
};
use base::{ErrorKind, Failure, Millis, Result, Timestamp, limits::CONNECTIONS_MAX};
use batch::{Credentials, WorkerConfig, run_worker};
use client::{Control, FacilityKey, xrd::Token};
use head::{Clock, Head};
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
use wire::{control::Endpoints, label::LabelDate};

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
    let running = start(&possession).await?;
    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: draining"),
        _ = interrupt.recv() => info!("SIGINT: draining"),
    }
    stop(&possession, running).await;
    Ok(())
}

async fn start(possession: &Possession) -> Result<Running> {
    let doors = &possession.config.doors;
    let root = listen(doors.bind, doors.root_port, "root_port").await?;
    // Tokens are not sent in plain text: beyond this host there is only https.
    let near = if doors.bind.is_loopback() { doors.bind } else { Ipv4Addr::LOCALHOST.into() };
    let http = listen(near, doors.http_port, "http_port").await?;
    let https = listen(doors.bind, doors.https_port, "https_port").await?;
    let (root_url, http_url) = (format!("root://{}", root.address()?), format!("http://{}", http.address()?));
    let (roots_url, https_url) =
        (format!("roots://{}", root.address()?), format!("https://{}", https.address()?));

    let clock: Clock = Arc::new(|| Timestamp::from_system(std::time::SystemTime::now()));
    let core = possession.open_head(&root_url, clock())?;
    let facility = core.facility().clone();
    let (identity, authority) = possession.certificates(&facility.id, clock())?;
    let tls = net::tls::server_config(&identity)?;
    let partition = Arc::new(possession.open_partition(&facility.id)?);
    let library = possession.open_library()?;
    let (head, head_thread) = Head::start(core, Arc::clone(&clock))?;
    janitor::register(&head, &possession.config.disk.pool, &partition).await?;

    let (shutdown, chores) = (Shutdown::new(), Shutdown::new());
    let counters = Arc::new(DoorCounters::default());
    let files = Arc::new(Files::new(
        head.clone(),
        vec![Arc::clone(&partition)],
        possession.key.caps(),
        Arc::clone(&clock),
        doors.recall_wait.0,
        chores.child(),
    ));
    let renewal = authority.keep(HostNames::of_this_host(doors.bind), Arc::clone(&clock), chores.token());
    chores.spawn("certificates", renewal);
    chores.spawn("janitor", janitor::keep(head.clone(), partition, files.withdrawn(), chores.token()));
    let require_token = doors.require_token;
    let gate =
        Gate::new(possession.key.tokens(), &facility.id, &facility.owner, require_token, Arc::clone(&clock));
    let root_door = RootDoor::new(Arc::clone(&files), &facility.name, gate.clone(), Arc::clone(&counters))
        .with_tls(TlsOffer { config: Arc::clone(&tls), rule: tls_rule(doors) })
        .with_trust(possession.trust())
        .with_reads(possession.config.disk.reads.into());
    let sessions = net::xrd::serve(Arc::new(root_door), root, &shutdown);
    // The door is opened once.
    let _ = counters.sessions.set(sessions);
    let key: Key = possession.key.clone();
    let trust = RemoteTrust { authorities: possession.trust(), ..RemoteTrust::default() };
    let http_door = HttpDoor::new(files, key, &facility.owner, counters, shutdown.token())
        .with_gate(gate)
        .with_trust(trust);
    let http_door = Arc::new(http_door);
    http::serve(Arc::clone(&http_door), http, None, &shutdown)?;
    http::serve(http_door, https, Some(tls), &shutdown)?;

    let control = Control::new(&http_url, &facility.owner).with_key(FacilityKey::new(possession.key.token()));
    let worker = worker_config(possession, (&facility.id, &facility.owner), &clock)?;
    let rooms = Rooms::start(possession, &library, &control, worker)?;
    let endpoints = Endpoints {
        root: root_url,
        http: http_url,
        roots: Some(roots_url),
        https: Some(https_url),
        is_token_required: require_token,
        pid: std::process::id(),
        facility: facility.id.clone(),
    };
    possession.announce(&endpoints)?;
    info!(root = endpoints.root, http = endpoints.http, incarnation = facility.incarnation, "facility is up");
    Ok(Running { doors: shutdown, chores, rooms, head, head_thread })
}

/// A token must not be sent in plain text, so who demands one demands TLS at the login.
fn tls_rule(doors: &config::Doors) -> TlsRule {
    match doors.root_tls {
        RootTls::Required => TlsRule::Required,
        RootTls::Offered if !doors.require_token => TlsRule::Offered,
        RootTls::Offered | RootTls::Login => TlsRule::Login,
    }
}

async fn listen(bind: IpAddr, port: u16, option: &str) -> Result<Listener> {
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
    for outcome in [rooms, doors.stop(DRAIN).await, chores.stop(DRAIN).await] {
        if let Err(failure) = outcome {
            warn!(%failure, "not everything ended in time; nothing acknowledged is lost");
        }
    }
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
