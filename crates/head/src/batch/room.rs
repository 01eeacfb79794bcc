//! The calls of workers.

use super::{
    WorkerLive,
    calls::known,
    candidate, finish,
    plan::{Slots, dispatch},
    refusals::refusal,
};
use crate::{
    Apply, Context, Core, Principal, Topic,
    executor::core::CapFor,
    hosts::{require_name, require_owner},
    namespace::{path_of, resolve_file},
    pool::{self, source},
    store::{Charge, JobFileRole, JobRow, Payer, WorkerRow},
    tape,
};
use base::{
    ErrorKind, Failure, FilePath, Millis, Result,
    limits::{CPU_SLOTS_MAX, JOB_FILES_MAX, JOB_TEXT_BYTES_MAX, WORKER_USERS_MAX, WORKERS_PER_HOST_MAX},
};
use tracing::info;
use wire::{
    auth::token::{Claims, Scopes, enrolment},
    control::{
        Done, FileState, GetJobToken, InputSource, JobEnded, JobExit, JobOrder, JobOrders, JobRun,
        JobStarted, JobState, JobToken, JobUsers, NextJob, OutputKind, RegisterWorker, WorkerOrders,
    },
};

/// How long the token of a job is good: longer than a large output takes. Workers ask for another one in time.
const TOKEN_LIFETIME: Millis = Millis::from_seconds(12 * 3600);

impl Apply for RegisterWorker {
    fn apply(self, core: &mut Core, context: &Context) -> Result<WorkerOrders> {
        if let Some(known) = worker_row(core, &self.worker)? {
            require_worker(context, &known)?;
        }
        require_name(core, context, "a worker", &self.worker)?;
        require_room(core, context, &self.worker)?;
        if self.cpus > CPU_SLOTS_MAX || self.memory_bytes > i64::MAX as u64 {
            let what = format!(
                "worker {:?} has {} CPU slots and {} bytes of memory",
                self.worker, self.cpus, self.memory_bytes
            );
            return Err(Failure::invalid(what).hint(format!("no host has more than {CPU_SLOTS_MAX} slots")));
        }
        core.store.put_worker(&WorkerRow {
            name: self.worker.clone(),
            host: context.who.as_host().unwrap_or_default().to_owned(),
            cpus: self.cpus,
            memory: self.memory_bytes,
            not_enforced: self.not_enforced,
            users: bounded(self.users),
        })?;
        note_heard(core, context, &self.worker);
        core.live.refusals.forget(&self.worker);
        core.live.outputs.worker_began(&self.runs);
        for job in running_on(core, &self.worker)? {
            if !self.runs.contains(&job.run()) {
                let why = format!("run {} was lost by worker {}", job.attempt, self.worker);
                forgotten(core, context, job, why)?;
            }
        }
        let mut drop = Vec::new();
        for run in self.runs {
            if !is_current(core, run, &self.worker)? {
                drop.push(run);
            }
        }
        core.touch(Topic::Jobs);
        Ok(WorkerOrders { drop, root: core.config.server.root_url() })
    }
}

/// Notes that a worker spoke; yields what was noted before.
fn note_heard(core: &mut Core, context: &Context, worker: &str) -> Option<WorkerLive> {
    let host = context.who.as_host().unwrap_or_default().to_owned();
    core.live.workers.insert(worker.to_owned(), WorkerLive { host, heard: context.now })
}

/// Keeps no more names of a worker than it should send: it may be asked about the others.
fn bounded(mut users: JobUsers) -> JobUsers {
    users.maybe_others |= users.users.len() > WORKER_USERS_MAX;
    users.users.truncate(WORKER_USERS_MAX);
    users
}

/// Refuses more workers of one host than it can have a use for.
fn require_room(core: &Core, context: &Context, name: &str) -> Result<()> {
    let Some(own) = context.who.as_host() else { return Ok(()) };
    let others = core.store.workers()?.into_iter().filter(|row| row.host == own && row.name != name).count();
    if others < WORKERS_PER_HOST_MAX {
        return Ok(());
    }
    Err(Failure::busy(format!("host {own} has {others} workers, and no more are taken: {name:?} is refused"))
        .hint("removing a host removes its workers: `bp host remove`, then let it join again"))
}

fn worker_row(core: &Core, name: &str) -> Result<Option<WorkerRow>> {
    Ok(core.store.workers()?.into_iter().find(|row| row.name == name))
}

fn require_worker(context: &Context, worker: &WorkerRow) -> Result<()> {
    require_owner(context, &format!("worker {}", worker.name), &worker.host)
}

/// A host was removed: nobody will say how what runs on it ends.
pub(crate) fn host_removed(core: &mut Core, context: &Context, host: &str) -> Result<()> {
    for worker in core.store.workers()?.into_iter().filter(|worker| worker.host == host) {
        for job in running_on(core, &worker.name)? {
            let why = format!("host {host} was removed while run {} was on it", job.attempt);
            forgotten(core, context, job, why)?;
        }
        core.store.delete_worker(&worker.name)?;
        core.live.workers.remove(&worker.name);
    }
    core.touch(Topic::Jobs);
    Ok(())
}

fn running_on(core: &Core, worker: &str) -> Result<Vec<JobRow>> {
    let mut jobs = core.store.active_jobs()?;
    jobs.retain(|job| job.state == JobState::Running && job.worker.as_deref() == Some(worker));
    Ok(jobs)
}

/// A run that goes on, with its job. Only its worker may speak of it; `NotFound` for those that are over.
pub(super) fn current(core: &Core, context: &Context, run: JobRun) -> Result<JobRow> {
    let job = known(core, run.job)?;
    let worker = job.worker.as_deref().filter(|_| job.run() == run && job.state == JobState::Running);
    let worker = worker.map(|worker| worker_row(core, worker)).transpose()?.flatten();
    let worker = worker.ok_or_else(|| {
        Failure::not_found(format!("run {} of job {} is not running", run.attempt, run.job))
            .hint("register the worker; the reply names the runs to drop")
    })?;
    require_worker(context, &worker).map(|()| job)
}

fn is_current(core: &Core, run: JobRun, worker: &str) -> Result<bool> {
    Ok(core.store.job(run.job)?.is_some_and(|job| {
        job.state == JobState::Running && job.run() == run && job.worker.as_deref() == Some(worker)
    }))
}

/// A worker does not know a run: it never reached it, or it is lost. What has begun is never begun again unasked.
fn forgotten(core: &mut Core, context: &Context, mut job: JobRow, why: String) -> Result<()> {
    if job.has_begun {
        job.exit = Some(JobExit::Lost);
        return finish(core, context, job, JobState::Failed, Some(why));
    }
    job.state = JobState::Queued;
    job.worker = None;
    job.started = None;
    super::save(core, &job, context.now)?;
    Ok(())
}

impl Apply for NextJob {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOrders> {
        let worker = worker_row(core, &self.worker)?;
        let worker = worker.filter(|row| core.live.workers.contains_key(&row.name)).ok_or_else(|| {
            Failure::unavailable(format!("worker {} is not registered", self.worker)).hint("register it")
        })?;
        require_worker(context, &worker)?;
        if let Some(before) = note_heard(core, context, &worker.name)
            && context.now - before.heard > super::SILENT_AFTER
        {
            info!(worker = worker.name, "worker is reachable again");
            core.touch(Topic::Jobs);
        }
        start_jobs(core, context, &worker)?;
        let keys = core.config.tokens.keys().serial();
        let mut orders = JobOrders { keys, ..JobOrders::default() };
        for job in running_on(core, &self.worker)? {
            let run = job.run();
            let is_held = self.runs.contains(&run);
            if job.is_cancelled && is_held {
                orders.kill.extend((!self.killing.contains(&run)).then_some(run));
            } else if job.is_cancelled {
                // The order never reached the worker.
                finish(core, context, job, JobState::Cancelled, Some("cancelled before it ran".to_owned()))?;
            } else if !is_held {
                match order(core, context, &job) {
                    Ok(order) => orders.start.push(order),
                    Err(_) if !job.has_begun && hold_back(core, context, &job)? => {
                        forgotten(core, context, job, String::new())?;
                    }
                    Err(failure) => {
                        finish(core, context, job, JobState::Failed, Some(failure.to_string()))?;
                    }
                }
            } else if core.live.outputs.is_to_be_told(run, context.now) {
                orders.tell.push(run);
            }
        }
        Ok(orders)
    }
}

/// Gives queued jobs to a worker, as far as its slots go.
fn start_jobs(core: &mut Core, context: &Context, worker: &WorkerRow) -> Result<()> {
    let active = core.store.active_jobs()?;
    let mut slots = Slots {
        cpus: worker.cpus,
        cpus_free: worker.cpus,
        memory: worker.memory,
        memory_free: worker.memory,
    };
    let mut queue = Vec::new();
    for job in active {
        let wish = job.spec.resources;
        match job.state {
            JobState::Running if job.worker.as_deref() == Some(&worker.name) => {
                slots.cpus_free = slots.cpus_free.saturating_sub(wish.cpus);
                slots.memory_free = slots.memory_free.saturating_sub(wish.memory_bytes);
            }
            JobState::Queued if core.live.jobs_held_back.contains(&job.id) => {}
            JobState::Queued if refusal(core, worker, &(&job).into(), context.now).is_none() => {
                queue.push(candidate(&job));
            }
            _ => {}
        }
    }
    let fair = (*core.store.fair_share()?).clone();
    for id in dispatch(slots, queue, fair, context.now) {
        let mut job = known(core, id)?;
        if hold_back(core, context, &job)? {
            continue;
        }
        job.state = JobState::Running;
        job.worker = Some(worker.name.clone());
        job.has_begun = false;
        job.attempt += 1;
        job.started = Some(context.now);
        super::save(core, &job, context.now)?;
        core.touch(Topic::Jobs);
        info!(job = %id, worker = worker.name, attempt = job.attempt, "job given to worker");
    }
    Ok(())
}

/// Keeps a job from being started while an input cannot be read: what is on tape is recalled, else its disk server is waited for. Yields
/// whether it did.
fn hold_back(core: &mut Core, context: &Context, job: &JobRow) -> Result<bool> {
    if core.live.away.is_empty() {
        return Ok(false);
    }
    let mut is_held = false;
    for file in core.store.job_files(job.id, JobFileRole::Input)? {
        let Some(node) = core.store.node(file)? else { continue };
        match pool::state_of(core, &node) {
            FileState::OutOfReach => is_held = true,
            FileState::Nearline => {
                is_held = true;
                tape::request_recall(core, context, &node)?;
            }
            _ => {}
        }
    }
    if is_held {
        core.live.jobs_held_back.insert(job.id);
        // Others may have its slots.
        core.touch(Topic::Jobs);
    }
    Ok(is_held)
}

fn order(core: &Core, context: &Context, job: &JobRow) -> Result<JobOrder> {
    let mut inputs = Vec::new();
    for file in core.store.job_files(job.id, JobFileRole::Input)? {
        let path = path_of(core, file)?;
        let lost = || Failure::corrupt(format!("input {path} is no longer on disk"));
        let node = core.store.node(file)?.filter(|node| !node.is_in_trash()).ok_or_else(lost)?;
        let replica = source(core, &node, job.id.0, context.now)?.ok_or_else(lost)?;
        inputs.push(InputSource {
            url: core.job_url(&CapFor::to_read(&node, &replica, &path), context.now)?,
            size: node.size,
            checksums: node.checksums.ok_or_else(lost)?,
        });
    }
    let outputs = core.config.server.root_url();
    Ok(JobOrder {
        run: job.run(),
        owner: job.owner.clone(),
        is_of_facility_owner: job.is_of_facility_owner,
        spec: job.spec.clone(),
        inputs,
        outputs,
    })
}

impl Apply for JobStarted {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let mut job = current(core, context, self.run)?;
        if !job.has_begun {
            job.has_begun = true;
            if job.attempt <= 1 {
                core.live.waits.job_began(context.now - job.submitted);
            }
            job.run_as = self.run_as;
            job.not_enforced = self.not_enforced;
            super::save(core, &job, context.now)?;
            core.touch(Topic::Jobs);
        }
        Ok(Done {})
    }
}

impl Apply for GetJobToken {
    fn apply(self, core: &mut Core, context: &Context) -> Result<JobToken> {
        let JobRow { owner, groups, .. } = current(core, context, self.run)?;
        // The operator's jobs have all files, but not the facility: a worker's host may be broken into.
        let is_operator = owner == core.facility.owner;
        let host = context.who.as_host();
        let lifetime = TOKEN_LIFETIME.min(core.config.tokens.lifetime_max());
        let claims = Claims {
            issuer: core.facility.id.clone(),
            subject: owner,
            audience: vec![core.facility.id.clone()],
            id: format!("job {}.{}", self.run.job, self.run.attempt),
            issued: context.now,
            starts: context.now,
            expires: context.now + lifetime,
            scopes: is_operator.then(|| Scopes::everything_below(&FilePath::root())),
            groups: if is_operator { Vec::new() } else { groups },
            is_of_job: true,
            // Whoever turns the host away takes it back.
            host: host.map(|host| core.joined(host).map(|joined| enrolment(host, joined))).transpose()?,
        };
        Ok(JobToken { token: core.config.tokens.sign(&claims), lifetime })
    }
}

impl Apply for JobEnded {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let mut job = match current(core, context, self.run) {
            Ok(job) => job,
            // Reported before; the answer was lost. Or the run was given up.
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Done {}),
            Err(failure) => return Err(failure),
        };
        if let JobExit::Refused(why) = &self.exit
            && !job.has_begun
        {
            return refused(core, context, job, why.clone());
        }
        let slots = i64::from(job.spec.resources.cpus);
        let charge = Charge {
            jobs: 1,
            // Nobody is paid for running a job.
            cpu: self.usage.cpu.max(Millis(0)),
            slot_wall: Millis(self.usage.wall.0.max(0).saturating_mul(slots)),
            ..Charge::default()
        };
        core.store.charge(Payer::user(&job.owner), &charge)?;
        let mut text = self.text;
        shorten(&mut text.stdout);
        shorten(&mut text.stderr);
        core.store.set_job_text(job.id, &text)?;
        job.usage = Some(self.usage);
        job.exit = Some(self.exit.clone());
        info!(job = %job.id, exit = ?self.exit, "job ended");
        match self.exit {
            JobExit::Code(0) => succeeded(core, context, job, self.stored)?,
            JobExit::Cancelled => {
                finish(core, context, job, JobState::Cancelled, Some("cancelled while it ran".to_owned()))?;
            }
            exit => finish(core, context, job, JobState::Failed, Some(explain_exit(&exit)))?,
        }
        Ok(Done {})
    }
}

/// The worker does not run jobs of the owner: another one may, or this one later.
fn refused(core: &mut Core, context: &Context, mut job: JobRow, why: Failure) -> Result<Done> {
    let worker = job.worker.take().unwrap_or_default();
    info!(job = %job.id, worker, why = %why, "the worker cannot run jobs of this user; the job goes to another one");
    core.live.refusals.put(&worker, &job.owner, why, context.now);
    if job.is_cancelled {
        let cancelled = Some("cancelled before it ran".to_owned());
        return finish(core, context, job, JobState::Cancelled, cancelled).map(|()| Done {});
    }
    job.state = JobState::Queued;
    job.started = None;
    super::save(core, &job, context.now)?;
    core.touch(Topic::Jobs);
    Ok(Done {})
}

/// The process ended well and its outputs are stored: done, or archived first.
fn succeeded(core: &mut Core, context: &Context, mut job: JobRow, stored: Vec<FilePath>) -> Result<()> {
    let operator = Principal::operator(&job.owner);
    let on_behalf = Context { who: operator, now: context.now };
    for (index, path) in stored_outputs(&job, stored).iter().enumerate() {
        let node = match resolve_file(core, &on_behalf.who, path) {
            Ok(node) => node,
            Err(failure) => {
                let why = format!("output {path} is not there: {failure}");
                return finish(core, context, job, JobState::Failed, Some(why));
            }
        };
        core.store.put_job_file(job.id, JobFileRole::Output, index, node.id)?;
        if job.spec.archive
            && !node.is_archived
            && let Err(failure) = tape::request_archive(core, &on_behalf, &node)
        {
            // It is stored, and stays; only the copy that was asked for cannot be.
            let why = format!("output: {}", failure.what);
            return finish(core, context, job, JobState::Failed, Some(why));
        }
    }
    if job.spec.archive && core.store.job_files_missing(job.id, JobFileRole::Output)? > 0 {
        job.state = JobState::Archiving;
        super::save(core, &job, context.now)?;
        // The process is over; its inputs may go.
        core.store.release_pins_of(&super::pin_holder(job.id))?;
        core.touch(Topic::Jobs);
        return Ok(());
    }
    finish(core, context, job, JobState::Done, None)
}

/// Keeps no more of what a job printed than a worker should send.
fn shorten(text: &mut String) {
    // Replaced bytes are up to three times as long as they were, and the mark of what is left out comes to that.
    let mut end = text.len().min(3 * JOB_TEXT_BYTES_MAX + 100);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Where the outputs are: as the worker says, as far as they were ordered, else as they were ordered.
fn stored_outputs(job: &JobRow, mut stored: Vec<FilePath>) -> Vec<FilePath> {
    let outputs = &job.spec.outputs;
    if stored.is_empty() {
        let files = outputs.iter().filter(|output| output.kind() == OutputKind::File);
        return files.map(|output| output.path.clone()).collect();
    }
    stored.retain(|path| outputs.iter().any(|output| path.is_within(&output.path)));
    stored.truncate(JOB_FILES_MAX);
    stored
}

fn explain_exit(exit: &JobExit) -> String {
    match exit {
        JobExit::Code(code) => format!("exit code {code}"),
        JobExit::Signal(signal) => format!("ended by signal {signal}"),
        JobExit::WallLimit => "exceeded its wall time limit".to_owned(),
        JobExit::NotStarted(failure) => format!("could not be started: {failure}"),
        JobExit::OutputFailed(failure) => format!("output was not stored: {failure}"),
        JobExit::Limit(limit) => format!("exceeded a limit: {limit}"),
        JobExit::Refused(failure) => format!("the worker refused it: {failure}"),
        JobExit::Lost => "its shepherd died; the result is unknown".to_owned(),
        JobExit::Cancelled => "cancelled".to_owned(),
    }
}
