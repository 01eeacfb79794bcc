//! The calls of workers.

mod end;
mod start;

use super::{WorkerLive, calls::known, finish};
use crate::{
    Apply, Context, Core, Topic,
    hosts::{require_name, require_owner},
    store::{JobRow, WorkerRow},
};
use base::{
    Failure, FilePath, Millis, Result,
    limits::{CPU_SLOTS_MAX, NAME_BYTES_MAX, WORKER_USERS_MAX, WORKERS_PER_HOST_MAX},
};
use wire::{
    auth::token::{Claims, Scopes, enrolment},
    control::{
        Done, DrainWorker, GetJobToken, JobExit, JobRun, JobStarted, JobState, JobToken, JobUsers,
        RegisterWorker, WorkerLoad, WorkerOrders,
    },
};

/// Labels of one worker: more than anybody reads.
const WORKER_LABELS_MAX: usize = 64;
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
            labels: check_labels(self.labels)?,
            architecture: self.architecture,
            is_draining: false,
        })?;
        note_heard(core, context, &self.worker, None);
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
fn note_heard(
    core: &mut Core,
    context: &Context,
    worker: &str,
    load: Option<WorkerLoad>,
) -> Option<WorkerLive> {
    let host = context.who.as_host().unwrap_or_default().to_owned();
    core.live.workers.insert(worker.to_owned(), WorkerLive { host, heard: context.now, load })
}

/// Refuses labels that no job could ask for.
fn check_labels(labels: Vec<String>) -> Result<Vec<String>> {
    let is_word = |label: &String| {
        !label.is_empty()
            && label.len() <= NAME_BYTES_MAX
            && !label.contains(|c: char| c == ',' || c.is_whitespace())
    };
    if labels.len() > WORKER_LABELS_MAX || !labels.iter().all(is_word) {
        return Err(Failure::invalid("a worker has too many labels, or one that is no word")
            .hint(format!("write words without commas, at most {WORKER_LABELS_MAX}: `[batch] labels`")));
    }
    Ok(labels)
}

impl Apply for DrainWorker {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("drain workers")?;
        if worker_row(core, &self.worker)?.is_none() {
            let names: Vec<_> = core.store.workers()?.into_iter().map(|row| row.name).collect();
            return Err(Failure::not_found(format!("there is no worker {:?}", self.worker))
                .hint(format!("the facility has {}", names.join(", "))));
        }
        core.store.set_worker_draining(&self.worker, self.drain)?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
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
    let ids: Vec<_> = {
        let active = core.store.active()?;
        active.running().filter(|job| job.worker.as_deref() == Some(worker)).map(|job| job.id).collect()
    };
    ids.into_iter().map(|id| known(core, id)).collect()
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
    if job.has_begun && job.spec.rerunnable && !job.is_cancelled {
        return super::retry::run_again(core, context, job, Some(why));
    }
    if job.has_begun {
        job.exit = Some(JobExit::Lost);
        return finish(core, context, job, JobState::Failed, Some(why));
    }
    job.state = JobState::Queued;
    job.worker = None;
    job.started = None;
    super::save(core, &job, context.now)?;
    super::ready::settle(core, context.now, job).map(drop)
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
