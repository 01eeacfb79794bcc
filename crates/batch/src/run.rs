//! One run, from the order to the acknowledged end. Every step begins and ends with the run directory.

use crate::{
    cgroup::Cgroup,
    identity::{Identity, Kind},
    output_told,
    room::{Backoff, Shared},
    run_dir::{ExitRecord, Phase, RunDir, RunOrder, check_name},
    sandbox::Confinement,
    shepherd,
    stage::{self, Errand, From},
    store, tree, users,
};
use base::{ErrorKind, Failure, FilePath, Millis, Result};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tracing::{debug, error, info, warn};
use wire::control::{JobEnded, JobExit, JobOrder, JobRun, JobStarted, JobText, JobToken, Usage};

/// From the polite to the final signal: time to write a checkpoint, not to finish.
const GRACE: Millis = Millis::from_seconds(10);
/// How long a shepherd may take to start on a busy host before another one is tried.
const START_PATIENCE: Duration = Duration::from_secs(30);
const START_TRIES_MAX: u32 = 3;
/// How long inputs are tried while a disk server is away: the job holds a CPU slot meanwhile.
const FETCH_PATIENCE: Duration = Duration::from_secs(600);
/// First and longest pause between two looks for an exit record: a short job must not wait, a long one costs nothing.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));
/// Pause before the token of a run is asked for again, also after a start of the room: it may have been down for long.
const TOKEN_PAUSE: Duration = Duration::from_secs(60);
/// From the order to end, or the wall limit, to the end of the shepherd: the grace, the time that processes may resist, and some.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How long the processes of a dead shepherd may resist.
const SWEEP_PATIENCE: Duration = Duration::from_secs(10);

/// A run in the hands of its thread.
pub(crate) struct Held {
    pub(crate) dir: RunDir,
    pub(crate) order: JobOrder,
    /// Which directory of the file system `dir` is; `None` of a run that an older release began.
    place: Option<(u64, u64)>,
    /// As it was read last: what is needed when the directory is gone.
    identity: Mutex<Option<Identity>>,
    /// Bytes that are kept of each output of the job.
    log_bytes: u64,
    /// How far the head was told what the job prints; `None` while nobody follows it. Held while the head is told.
    pub(crate) telling: Mutex<Option<[u64; 2]>>,
    is_cancelled: AtomicBool,
    is_dropped: AtomicBool,
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next phase.
    Step,
    /// Nothing: the run is forgotten.
    Gone,
    /// The room stops.
    Stop,
}

impl Held {
    pub(crate) fn new(dir: RunDir, order: JobOrder, log_bytes: u64) -> Self {
        Self {
            is_cancelled: AtomicBool::new(dir.is_cancelled()),
            place: dir.place(),
            identity: Mutex::default(),
            telling: Mutex::default(),
            log_bytes,
            dir,
            order,
            is_dropped: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> JobRun {
        self.order.run
    }

    /// Asks for the end of the run; returns whether that was new.
    pub(crate) fn cancel(&self) -> bool {
        if self.is_cancelled.swap(true, Ordering::Relaxed) {
            return false;
        }
        if let Err(failure) = self.dir.cancel() {
            if failure.kind == ErrorKind::NotFound {
                // The run was told and put away while the head's order was on its way.
                return false;
            }
            warn!(job = %self.id().job, %failure, "cannot tell the shepherd to end");
            // The head repeats its order.
            self.is_cancelled.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Ends the run without a report.
    pub(crate) fn drop_it(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.cancel();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Whether its directory is the one that was made for it.
    fn is_there(&self) -> bool {
        self.dir.is_there() && self.dir.place() == self.place
    }

    /// Whom it runs as, if that is decided.
    fn identity(&self) -> Result<Option<Identity>> {
        let mut known = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = self.dir.identity()?;
        }
        Ok(known.clone())
    }

    fn end(&self, exit: JobExit, usage: Usage) -> Result<Next> {
        self.end_with(exit, usage, Vec::new())
    }

    fn end_with(&self, exit: JobExit, usage: Usage, stored: Vec<FilePath>) -> Result<Next> {
        info!(job = %self.id().job, attempt = self.id().attempt, ?exit, "run ended");
        let kept = |name| self.dir.kept(name, self.log_bytes);
        let text = JobText { stdout: kept("stdout"), stderr: kept("stderr") };
        let run = self.id();
        self.dir.set_ended(&JobEnded { run, exit, usage, text, stored })?;
        Ok(Next::Step)
    }
}

/// Drives a run until it is acknowledged or the room stops. Trouble of this host is tried again, never fatal.
pub(crate) fn drive(shared: &Shared, held: &Held) {
    let mut backoff = Backoff::new();
    while !shared.is_stopping() {
        match step(shared, held) {
            Ok(Next::Step) => backoff = Backoff::new(),
            Ok(Next::Gone | Next::Stop) => return,
            Err(failure) => {
                let pause = backoff.next();
                warn!(job = %held.id().job, attempt = held.id().attempt, %failure, "a step of a run failed; retrying");
                shared.pause(pause, &|| held.is_dropped());
            }
        }
    }
}

fn step(shared: &Shared, held: &Held) -> Result<Next> {
    if !held.is_there() {
        return vanished(shared, held);
    }
    if held.is_dropped() {
        return forget(shared, held);
    }
    match held.dir.phase() {
        Phase::Ordered => fetch_inputs(shared, held),
        Phase::Staged => launch(shared, held),
        Phase::Launched | Phase::Exited => watch(shared, held),
        Phase::Ended => report(shared, held),
    }
}

/// Ends what the head gave up: when the shepherd is gone, so is the run.
fn forget(shared: &Shared, held: &Held) -> Result<Next> {
    held.dir.cancel()?;
    let mut pause = LOOK_PAUSE.0;
    while !shared.is_stopping() {
        if let Some(_alive) = held.dir.try_lock()? {
            if matches!(held.dir.phase(), Phase::Launched | Phase::Exited) {
                sweep(shared, held)?;
            }
            put_away(shared, held)?;
            info!(job = %held.id().job, attempt = held.id().attempt, "the head gave up this run; it was ended \
                and removed");
            return Ok(Next::Gone);
        }
        shared.pause(pause, &|| false);
        pause = (pause * 2).min(LOOK_PAUSE.1);
    }
    Ok(Next::Stop)
}

/// The directory of a run was removed, or another one is in its place: whatever it says is not from us. The run is lost.
fn vanished(shared: &Shared, held: &Held) -> Result<Next> {
    error!(job = %held.id().job, attempt = held.id().attempt, "the directory of a run is missing or was \
        replaced; the run is lost");
    sweep(shared, held)?;
    if held.is_dropped() {
        return put_away(shared, held).map(|()| Next::Gone);
    }
    let exit = JobExit::Lost;
    let ended = JobEnded::without_text(held.id(), exit);
    match shared.ask(move |control| control.call(&ended)) {
        Some(Ok(_)) => {
            put_away(shared, held)?;
            Ok(Next::Gone)
        }
        Some(Err(failure)) => Err(failure.during("report a lost run")),
        None => Ok(Next::Stop),
    }
}

/// Deletes what a run has left and gives its user back.
fn put_away(shared: &Shared, held: &Held) -> Result<()> {
    let identity = held.identity()?;
    shared.store.remove(&held.dir)?;
    if let Some(identity) = identity {
        shared.users.give_back(&identity);
    }
    Ok(())
}

/// Whom the job runs as: decided once, and kept by whoever takes the run up.
fn identify(shared: &Shared, held: &Held) -> Result<Identity> {
    if let Some(known) = held.identity()? {
        return Ok(known);
    }
    let identity = shared.users.identify(&held.order)?;
    held.dir.set_identity(&identity).inspect_err(|_| shared.users.give_back(&identity))?;
    info!(job = %held.id().job, attempt = held.id().attempt, user = identity.name, "job runs as this user");
    Ok(identity)
}

fn fetch_inputs(shared: &Shared, held: &Held) -> Result<Next> {
    let cancelled = || {
        if held.is_dropped() { Ok(Next::Step) } else { held.end(JobExit::Cancelled, Usage::default()) }
    };
    let not_started = |failure| held.end(JobExit::NotStarted(failure), Usage::default());
    if held.is_cancelled() {
        return cancelled();
    }
    if let Err(failure) = check_order(&held.order) {
        return not_started(failure);
    }
    let identity = match identify(shared, held) {
        Ok(identity) => identity,
        Err(refused) if users::is_refusal(&refused) => {
            return held.end(JobExit::Refused(refused), Usage::default());
        }
        Err(failure) => return Err(failure),
    };
    held.dir.furnish(&identity, shared.config.authorities.as_deref())?;
    let order = match run_order(shared, held, &identity) {
        Ok(order) => order,
        Err(failure) => return not_started(failure),
    };
    let token = match renew_token(shared, held, &identity) {
        Ok(token) => token.token,
        Err(_) if shared.is_stopping() => return Ok(Next::Stop),
        // Without the head nobody could be told how it ended, either.
        Err(failure) if can_pass(&failure) => return Err(failure),
        Err(failure) => return not_started(failure.during("ask for the token of the job")),
    };
    match fetch_all(shared, held, &identity, &token) {
        _ if held.is_cancelled() => cancelled(),
        Some(Ok(())) => held.dir.set_staged(&order).map(|()| Next::Step),
        Some(Err(failure)) => not_started(failure),
        None => Ok(Next::Stop),
    }
}

/// Fetches every input; `None` if the room stops or the job is cancelled.
fn fetch_all(shared: &Shared, held: &Held, identity: &Identity, token: &str) -> Option<Result<()>> {
    let interrupted = || shared.is_stopping() || held.is_cancelled();
    let (scratch, since) = (held.dir.scratch(), Instant::now());
    for (input, source) in held.order.spec.inputs.iter().zip(&held.order.inputs) {
        let target = scratch.join(&input.name);
        let mut is_by_name = true;
        let fetched = patiently(shared, held, since, (FETCH_PATIENCE, can_pass), &mut || {
            // In turns: where a disk server is away another one may have the file, and the head knows.
            is_by_name = !is_by_name;
            let root = shared.door(&held.order);
            let errand = errand(shared, held, token);
            let fetch = |from| stage::fetch((source, from), (&target, identity), &errand, &interrupted);
            if !is_by_name {
                match fetch(From::Server(&held.order.outputs, &root)) {
                    Err(failure) if is_outdated(&failure) => is_by_name = true,
                    done => return done,
                }
            }
            fetch(From::Name(&root, &input.path))
        })?;
        if let Err(failure) = fetched {
            return Some(Err(failure.during(format_args!("fetch input {}", input.path))));
        }
    }
    Some(Ok(()))
}

/// Gets a new token for the job, and puts it where the job finds it.
fn renew_token(shared: &Shared, held: &Held, identity: &Identity) -> Result<JobToken> {
    let token = shared.token(held.id())?;
    held.dir.set_token(&token.token, identity)?;
    Ok(token)
}

pub(crate) fn errand<'a>(shared: &'a Shared, held: &'a Held, token: &'a str) -> Errand<'a> {
    Errand { user: &held.order.owner, token, ca_file: shared.config.ca_file.as_ref() }
}

/// Whether a disk server says that the order is too old: the object has moved since, or somebody has lost a right.
fn is_outdated(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Permission)
}

/// Whether what failed may go well later.
pub(crate) fn can_pass(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked)
}

/// The same for an output: a pool that is full now gets room by and by, and the CPU time is spent.
pub(crate) fn can_pass_for_output(failure: &Failure) -> bool {
    can_pass(failure) || failure.kind == ErrorKind::NoSpace
}

/// Tries `copy` again while what it needs is away; `None` if the room stops or the job is cancelled.
pub(crate) fn patiently(
    shared: &Shared,
    held: &Held,
    since: Instant,
    (patience, can_pass): (Duration, fn(&Failure) -> bool),
    copy: &mut dyn FnMut() -> Result<()>,
) -> Option<Result<()>> {
    let mut backoff = Backoff::new();
    loop {
        if shared.is_stopping() || held.is_cancelled() {
            return None;
        }
        let Err(failure) = copy() else {
            return Some(Ok(()));
        };
        if shared.is_stopping() || held.is_cancelled() {
            return None;
        }
        if !can_pass(&failure) || since.elapsed() > patience {
            return Some(Err(failure));
        }
        let pause = backoff.next();
        warn!(job = %held.id().job, %failure, pause_ms = pause.as_millis() as u64, "copy failed; retrying");
        shared.pause(pause, &|| held.is_cancelled());
    }
}

/// Refuses an order that no worker can carry out.
fn check_order(order: &JobOrder) -> Result<()> {
    let JobOrder { spec, inputs, .. } = order;
    if spec.inputs.len() != inputs.len() {
        let (wanted, got) = (spec.inputs.len(), inputs.len());
        return Err(Failure::invalid(format!("the order has {got} sources for {wanted} inputs")));
    }
    let mut names = BTreeSet::new();
    for input in &spec.inputs {
        check_name(&input.name)?;
        if !names.insert(&input.name) {
            return Err(Failure::invalid(format!("two inputs are named {:?}", input.name)));
        }
    }
    if let Some(output) = spec.outputs.iter().find(|output| !output.has_good_name()) {
        let what = format!("output {:?} is not a path below the scratch directory", output.name);
        return Err(Failure::invalid(what));
    }
    if spec.command.first().is_none_or(String::is_empty)
        || spec.command.iter().any(|word| word.contains('\0'))
    {
        return Err(Failure::invalid("the command is empty or has a NUL character"));
    }
    Ok(())
}

/// What the shepherd runs.
fn run_order(shared: &Shared, held: &Held, identity: &Identity) -> Result<RunOrder> {
    let spec = &held.order.spec;
    Ok(RunOrder {
        command: spec.command.clone(),
        environment: environment(shared, held, identity)?,
        wall: spec.resources.wall,
        grace: GRACE,
        memory_bytes: spec.resources.memory_bytes,
        cgroup: shared.config.cgroup.clone(),
        confinement: Some(Confinement {
            identity: identity.clone(),
            namespaces: shared.users.finding().namespaces,
            hidden: shared.config.hidden.clone(),
            limits: shared.config.limits,
        }),
    })
}

/// The whole environment of the job: ours only where a program cannot do without.
fn environment(shared: &Shared, held: &Held, identity: &Identity) -> Result<BTreeMap<String, String>> {
    let kind = identity.kind;
    let scratch = held.dir.scratch().display().to_string();
    let mut environment = shared.config.environment.clone();
    let user = if identity.kind == Kind::Slot { &held.order.owner } else { &identity.name };
    for (name, value) in [
        ("HOME", &*scratch),
        ("USER", user),
        ("LOGNAME", user),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", &*temporary(shared, held)),
    ] {
        environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    if shared.config.authorities.is_some() {
        environment.insert("X509_CERT_DIR".to_owned(), held.dir.certificates().display().to_string());
    }
    if let Ok(path) = std::env::var("PATH") {
        environment.insert("PATH".to_owned(), path);
    }
    for (name, value) in &held.order.spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Failure::invalid(format!("environment variable {name:?} cannot be set")));
        }
        environment.insert(name.clone(), value.clone());
    }
    let of_owner = shared.config.facility_of_owner.as_ref().filter(|_| kind == Kind::Own);
    let facility = of_owner.unwrap_or(&shared.config.facility);
    // Last: the job's identity is not for the user to choose.
    let JobRun { job, attempt } = held.id();
    for (name, value) in [
        ("BP_JOB_ID", job.to_string()),
        ("BP_ATTEMPT", attempt.to_string()),
        ("BP_SCRATCH", scratch),
        ("BP_CPUS", held.order.spec.resources.cpus.to_string()),
        ("BP_FACILITY", facility.clone()),
        ("BP_ROOT", shared.door(&held.order)),
        ("BEARER_TOKEN_FILE", held.dir.token_file().display().to_string()),
    ] {
        environment.insert(name.to_owned(), value);
    }
    Ok(environment)
}

/// Where the job keeps what it needs for a while: `/tmp` is its own, unless the kernel does not let us mount one for it.
fn temporary(shared: &Shared, held: &Held) -> String {
    let [tmp, _] = held.dir.temporary();
    if shared.users.finding().namespaces.mounts { "/tmp".to_owned() } else { tmp.display().to_string() }
}

fn launch(shared: &Shared, held: &Held) -> Result<Next> {
    // The head first: what it does not know to have begun it may give to another worker.
    if !held.is_cancelled() && !tell_start(shared, held)? {
        return Ok(Next::Step);
    }
    let mut why = String::new();
    let is_settled = || held.dir.phase() != Phase::Staged || held.is_cancelled();
    for _ in 0..START_TRIES_MAX {
        if is_settled() {
            break;
        }
        if let Err(failure) = start_shepherd(shared, held) {
            why = failure.what;
            continue;
        }
        let since = Instant::now();
        while !is_settled() && since.elapsed() < START_PATIENCE {
            if shared.is_stopping() {
                return Ok(Next::Stop);
            }
            // Shepherds are quick: a fixed short pause costs less than a start seen late.
            shared.pause(LOOK_PAUSE.0, &|| false);
        }
    }
    if held.dir.phase() != Phase::Staged || held.is_dropped() {
        return Ok(Next::Step);
    }
    not_launched(shared, held, &why)
}

/// Tells the head that a run begins now; `false` if it must not, because the head gave it up or the room stops.
fn tell_start(shared: &Shared, held: &Held) -> Result<bool> {
    let run = held.id();
    let identity = held.identity()?;
    let kind = identity.as_ref().map(|identity| identity.kind);
    let start = JobStarted {
        run,
        run_as: identity.map(|identity| identity.name),
        not_enforced: shared.users.not_enforced(shared.config.cgroup.as_deref(), kind),
    };
    match shared.ask(move |control| control.call(&start)) {
        Some(Ok(_)) => Ok(true),
        Some(Err(failure)) if failure.kind == ErrorKind::NotFound => {
            warn!(job = %run.job, attempt = run.attempt, %failure, "the run was abandoned before it started");
            held.drop_it();
            Ok(false)
        }
        Some(Err(failure)) => Err(failure.during("tell that the run begins")),
        None => Ok(false),
    }
}

/// Ends a run that has no shepherd, unless one is starting at this moment.
fn not_launched(shared: &Shared, held: &Held, why: &str) -> Result<Next> {
    // With the lock in hand no shepherd can begin: it would find the run ended.
    let Some(_alive) = held.dir.try_lock()? else {
        shared.pause(LOOK_PAUSE.0, &|| false);
        return Ok(Next::Step);
    };
    if held.dir.phase() != Phase::Staged {
        return Ok(Next::Step);
    }
    if held.is_cancelled() {
        return held.end(JobExit::Cancelled, Usage::default());
    }
    let log = held.dir.tail("shepherd.log");
    let failure = Failure::internal(format!("no shepherd started: {why} {log}").trim_end().to_owned());
    error!(job = %held.id().job, %failure, "cannot start a run");
    held.end(JobExit::NotStarted(failure), Usage::default())
}

/// Starts the stage `outer` and waits for it; the shepherd itself is in the background then.
fn start_shepherd(shared: &Shared, held: &Held) -> Result<()> {
    let program = &shared.config.shepherd;
    let failed = |cause: &std::io::Error| Failure::io(format!("run {} shepherd", base::tail(program)), cause);
    let mut outer = Command::new(program)
        .arg("shepherd")
        .arg(held.dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(shepherd::append(&held.dir, "shepherd.log")?)
        .spawn()
        .map_err(|cause| failed(&cause))?;
    let since = Instant::now();
    loop {
        match outer.try_wait().map_err(|cause| failed(&cause))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(Failure::internal(format!("{} shepherd ended: {status}", base::tail(program))));
            }
            None if since.elapsed() > START_PATIENCE => {
                let _ = outer.kill();
                let _ = outer.wait();
                return Err(Failure::timeout(format!("{} shepherd hangs", base::tail(program))));
            }
            None => std::thread::sleep(LOOK_PAUSE.0),
        }
    }
}

/// Waits for the end of the shepherd; its record then says how the job ended.
///
/// While the shepherd lives no record counts, whoever wrote it: the job may run on, and can be cancelled.
fn watch(shared: &Shared, held: &Held) -> Result<Next> {
    let identity = held.identity()?.unwrap_or_else(Identity::own);
    let mut token = KeptToken { next: Instant::now() + TOKEN_PAUSE, keys: shared.keys(), identity };
    let mut pause = LOOK_PAUSE.0;
    let mut overdue = Overdue::new(&held.order);
    while !shared.is_stopping() {
        if held.is_dropped() || !held.is_there() {
            return Ok(Next::Step);
        }
        token.keep(shared, held);
        if held.dir.phase() == Phase::Ended {
            return Ok(Next::Step);
        }
        if let Some(_alive) = held.dir.try_lock()? {
            return ended(shared, held, &token.identity);
        }
        if overdue.is_now(held.is_cancelled()) {
            kill_shepherd(held)?;
        }
        shared.pause(pause, &|| held.is_dropped());
        pause = (pause * 2).min(LOOK_PAUSE.1);
    }
    Ok(Next::Stop)
}

/// When a shepherd has had all the time that it needs to end its job: it hangs, or the job has stopped it.
struct Overdue {
    since: Instant,
    wall: Duration,
    cancelled: Option<Instant>,
}

impl Overdue {
    fn new(order: &JobOrder) -> Self {
        let wall = Duration::from_millis(order.spec.resources.wall.0.max(0).unsigned_abs());
        Self { since: Instant::now(), wall, cancelled: None }
    }

    fn is_now(&mut self, is_cancelled: bool) -> bool {
        if is_cancelled {
            self.cancelled.get_or_insert_with(Instant::now);
        }
        self.cancelled.is_some_and(|since| since.elapsed() > END_PATIENCE)
            || self.since.elapsed() > self.wall.saturating_add(END_PATIENCE)
    }
}

/// Ends a shepherd that does not end its job, with all that it has started. The run is lost then.
fn kill_shepherd(held: &Held) -> Result<()> {
    let Some(started) = held.dir.started()? else {
        return Ok(());
    };
    let shepherd = tree::process(started.pid).filter(|process| process.start_ticks == started.start_ticks);
    let Some(shepherd) = shepherd else {
        return Ok(());
    };
    error!(job = %held.id().job, pid = started.pid, "the shepherd does not end its job; killing both");
    for process in tree::descendants(started.pid).into_iter().chain([shepherd]) {
        let _ = tree::send(process, Signal::KILL);
    }
    Ok(())
}

/// The shepherd has ended.
fn ended(shared: &Shared, held: &Held, identity: &Identity) -> Result<Next> {
    match held.dir.exit() {
        Ok(Some(record)) if !is_of_shepherd(held, &record)? => {
            error!(job = %held.id().job, "the exit record was not written by the run's shepherd; the run is lost");
            sweep(shared, held)?;
            held.end(JobExit::Lost, Usage::default())
        }
        Ok(Some(record)) => {
            if !shared.users.finding().namespaces.processes {
                // A job of our own user can end its shepherd and outlive it.
                sweep(shared, held)?;
            }
            store_outputs(shared, held, record, identity.uid)
        }
        Ok(None) => lose(shared, held),
        Err(failure) if failure.kind == ErrorKind::Corrupt => {
            error!(job = %held.id().job, %failure, "the exit record is damaged; the run is lost");
            sweep(shared, held)?;
            held.end(JobExit::Lost, Usage::default())
        }
        Err(failure) => Err(failure),
    }
}

/// Whether the shepherd that ran the job wrote the record. Those of older releases do not say who wrote them.
fn is_of_shepherd(held: &Held, record: &ExitRecord) -> Result<bool> {
    let Some(started) = held.dir.started()? else {
        // It never ran: there is nothing to be forged.
        return Ok(record.exit != JobExit::Code(0));
    };
    Ok(record.by.map_or(held.dir.is_of_older_release(), |by| by == (started.pid, started.start_ticks)))
}

/// The token of a job that runs: replaced long before it ends, and when the facility's keys have changed.
struct KeptToken {
    next: Instant,
    keys: u64,
    identity: Identity,
}

impl KeptToken {
    fn keep(&mut self, shared: &Shared, held: &Held) {
        let keys = shared.keys();
        if Instant::now() < self.next && self.keys == keys {
            return;
        }
        self.keys = keys;
        let pause = match renew_token(shared, held, &self.identity) {
            Ok(token) => Duration::from_millis(token.lifetime.0.unsigned_abs() / 2),
            Err(failure) => {
                debug!(job = %held.id().job, %failure, "could not get a new token for a run; retrying");
                TOKEN_PAUSE
            }
        };
        self.next = Instant::now() + pause;
    }
}

/// The shepherd died without a record: nobody knows whether the job went well.
fn lose(shared: &Shared, held: &Held) -> Result<Next> {
    error!(job = %held.id().job, attempt = held.id().attempt, "the shepherd died; the run is lost");
    sweep(shared, held)?;
    held.end(JobExit::Lost, Usage::default())
}

/// Ends the processes that a dead shepherd left behind.
fn sweep(shared: &Shared, held: &Held) -> Result<()> {
    // Without its directory, or with one of a job's making, what we would do today.
    let order = held.dir.run_order().ok().flatten().filter(|_| held.is_there());
    let parent = order.map_or_else(|| shared.config.cgroup.clone(), |order| order.cgroup);
    let group = parent
        .and_then(|parent| Cgroup::make(&parent, &shepherd::cgroup_name(&held.dir), (0, u64::MAX)).ok());
    // A slot user has this job and nothing else.
    let slot = held.identity()?.filter(|identity| identity.kind == Kind::Slot).map(|identity| identity.uid);
    let since = Instant::now();
    while since.elapsed() < SWEEP_PATIENCE {
        let mut rest = tree::of_run(&held.dir.file(""), &held.dir.scratch());
        if let Some(group) = &group {
            group.kill();
            rest.extend(group.processes().into_iter().filter_map(tree::process));
        }
        rest.extend(slot.into_iter().flat_map(tree::of_user));
        rest.retain(tree::is_living);
        if rest.is_empty() {
            return Ok(());
        }
        for process in rest {
            let _ = tree::send(process, Signal::KILL);
        }
        std::thread::sleep(LOOK_PAUSE.0);
    }
    error!(job = %held.id().job, "cannot kill the processes of a dead shepherd; check this host");
    Ok(())
}

fn store_outputs(shared: &Shared, held: &Held, record: ExitRecord, uid: u32) -> Result<Next> {
    if !record.left_behind.is_empty() {
        error!(job = %held.id().job, pids = ?record.left_behind, "cannot kill the processes of a job; check this host");
    }
    let (mut exit, mut stored) = (record.exit, Vec::new());
    if exit == JobExit::Code(0) && !held.order.spec.outputs.is_empty() {
        match store::store_all(shared, held, uid) {
            Some(Ok(paths)) => stored = paths,
            Some(Err(failure)) => exit = JobExit::OutputFailed(failure),
            None if held.is_dropped() => return Ok(Next::Step),
            None if held.is_cancelled() => exit = JobExit::Cancelled,
            None => return Ok(Next::Stop),
        }
    }
    held.end_with(exit, record.usage, stored)
}

/// Tells the head how it ended until the head has it; only then is the run forgotten.
fn report(shared: &Shared, held: &Held) -> Result<Next> {
    let Some(ended) = held.dir.ended()? else {
        return Ok(Next::Step);
    };
    output_told::tell_rest(shared, held);
    match shared.ask(move |control| control.call(&ended)) {
        Some(Ok(_)) => {
            put_away(shared, held)?;
            Ok(Next::Gone)
        }
        Some(Err(failure)) => Err(failure.during("report the end")),
        None => Ok(Next::Stop),
    }
}
