//! Why a job is where it is: a word for programs, a sentence for people.

use super::{
    is_available,
    plan::{Limited, Limits, has_labels},
    ready::{Obstacle, obstacle},
    refusals,
    routes::{labels_of, serves},
    running, waiting_files,
};
use crate::{
    Core,
    store::{ActiveJobs, JobFileRole, JobRow, QueueRow, Wish, WorkerRow},
};
use base::{
    Result, Timestamp,
    units::{counted, human_span},
};
use std::cell::OnceCell;
use wire::control::{HoldKind, JobState, WaitCause};

/// Why a job is where it is.
pub(crate) type Why = (Option<WaitCause>, Option<String>);

/// What the answers for several jobs have in common: a listing asks for a thousand.
pub(crate) struct Scene<'a> {
    active: &'a ActiveJobs,
    /// The workers' slots in words.
    slots: String,
    /// The most slots that are free on one worker.
    free_max: Option<u32>,
    /// What runs, counted once a job waits.
    limits: OnceCell<Limits<'a>>,
}

impl<'a> Scene<'a> {
    /// Looks at workers that are available now.
    pub(crate) fn of(core: &Core, active: &'a ActiveJobs, now: Timestamp) -> Result<Self> {
        let (workers, taken) = (core.store.workers()?, core.store.slots_taken()?);
        let there = || workers.iter().filter(|worker| is_available(core, &worker.name, now));
        let used = |worker: &WorkerRow| taken.get(&worker.name).copied().unwrap_or(0);
        let total: u64 = there().map(|worker| u64::from(worker.cpus)).sum();
        let busy: u64 = there().map(|worker| u64::from(used(worker))).sum();
        let slots =
            if total == 0 { "no worker is running".to_owned() } else { format!("{busy} of {total} busy") };
        let free_max = there().map(|worker| worker.cpus.saturating_sub(used(worker))).max();
        Ok(Self { active, slots, free_max, limits: OnceCell::new() })
    }
}

/// Why a job is where it is; what was stored when it ended, computed while it lives.
pub(crate) fn why(core: &Core, job: &JobRow, scene: &Scene<'_>, now: Timestamp) -> Result<Why> {
    Ok(match job.state {
        JobState::Held => held(core, job, now)?,
        JobState::Queued => {
            let (cause, words) = queued(core, job, scene, now)?;
            (Some(cause), Some(words))
        }
        JobState::Running => {
            let silent = job.worker.as_deref().is_some_and(|worker| !is_available(core, worker, now));
            (silent.then_some(WaitCause::WorkerSilent), running(core, job, now))
        }
        JobState::Archiving => {
            let words = waiting_files(core, job, JobFileRole::Output, "outputs are not on tape", now)?;
            (Some(WaitCause::Outputs), Some(words))
        }
        JobState::Done | JobState::Failed | JobState::Cancelled => (None, job.reason.clone()),
    })
}

fn held(core: &Core, job: &JobRow, now: Timestamp) -> Result<Why> {
    let failed = || {
        let before = job.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("failed {} of {} times{before}", job.failures, job.spec.retries + 1)
    };
    let (cause, words) = match obstacle(core, job, now)? {
        None => (WaitCause::Other, "is about to be queued".to_owned()),
        Some(Obstacle::Held(hold)) => {
            let cause = match hold {
                HoldKind::User => WaitCause::HeldByUser,
                HoldKind::Operator => WaitCause::HeldByOperator,
                HoldKind::System => WaitCause::HeldBySystem,
            };
            let who = match hold {
                HoldKind::User => "its user".to_owned(),
                HoldKind::Operator => "an operator".to_owned(),
                HoldKind::System => "the facility".to_owned(),
            };
            let why = job.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            (cause, format!("held by {who}{why}; `bp release {}` releases it", job.id))
        }
        Some(Obstacle::Never(words)) => (
            WaitCause::DependencyNeverSatisfied,
            format!("can never start: waits until {words}, which cannot happen any more"),
        ),
        Some(Obstacle::Dependency(words)) => (WaitCause::Dependency, format!("waits until {words}")),
        Some(Obstacle::Begins(at)) => (WaitCause::BeginTime, format!("begins in {}", human_span(at - now))),
        Some(Obstacle::Retry(at)) => {
            (WaitCause::Retry, format!("{}; tried again in {}", failed(), human_span(at - now)))
        }
        Some(Obstacle::Inputs) => {
            (WaitCause::Inputs, waiting_files(core, job, JobFileRole::Input, "inputs are not online", now)?)
        }
    };
    Ok((Some(cause), Some(words)))
}

fn queued(core: &Core, job: &JobRow, scene: &Scene<'_>, now: Timestamp) -> Result<(WaitCause, String)> {
    let table = core.store.queues()?;
    let queue = table.queues.get(&job.queue);
    if let Some((cause, words)) = queue.and_then(|queue| of_queue(queue, now)) {
        return Ok((cause, words));
    }
    if let Some(refused) = refusals::nobody_runs(core, &job.into(), now)? {
        return Ok((WaitCause::NoWorker, refused.what));
    }
    if let Some(words) = missing_labels(core, job, queue)? {
        return Ok((WaitCause::NoWorker, words));
    }
    if core.live.jobs_held_back.contains(&job.id) {
        let words = waiting_files(core, job, JobFileRole::Input, "inputs are not online", now)?;
        return Ok((WaitCause::Inputs, words));
    }
    let array = job.array.map(|element| element.array);
    let cap = array.and_then(|array| scene.active.cap(array));
    let wish = Wish {
        cpus: job.spec.resources.cpus,
        memory: job.spec.resources.memory_bytes,
        labels: String::new(),
        is_of_facility_owner: job.is_of_facility_owner,
        array: array.filter(|_| cap.is_some()),
    };
    let limits = scene.limits.get_or_init(|| Limits::of(scene.active, table.run_limit));
    if let Some(limited) = queue.and_then(|queue| limits.limit(queue, &job.owner, (&wish, cap))) {
        return Ok(of_limit(limited, &job.queue, &job.owner));
    }
    let has_room = scene.free_max.is_some_and(|free| free >= wish.cpus);
    let cause = if has_room { WaitCause::Priority } else { WaitCause::Resources };
    Ok((cause, format!("waits for {} of the CPU slots; {}", wish.cpus, scene.slots)))
}

/// What the workers of a queue lack that a job asks for; `None` if one has it all. Workers that are away count: they come back.
fn missing_labels(core: &Core, job: &JobRow, queue: Option<&QueueRow>) -> Result<Option<String>> {
    let wanted = &job.spec.constraints;
    let is_bound = queue.is_some_and(|queue| !queue.settings.workers.is_empty());
    if wanted.is_empty() && !is_bound {
        return Ok(None);
    }
    let mut nearest: Option<(Vec<&str>, String)> = None;
    let workers = core.store.workers()?;
    if workers.is_empty() {
        return Ok(None);
    }
    for worker in workers {
        let labels = labels_of(core, &worker)?;
        if !queue.is_none_or(|queue| serves(queue, &worker.name, &labels)) {
            continue;
        }
        let lacks: Vec<&str> = wanted
            .iter()
            .map(|label| &**label)
            .filter(|label| !has_labels(label, &worker.name, &labels))
            .collect();
        if lacks.is_empty() {
            return Ok(None);
        }
        if nearest.as_ref().is_none_or(|(least, _)| lacks.len() < least.len()) {
            nearest = Some((lacks, worker.name));
        }
    }
    Ok(Some(match nearest {
        Some((lacks, worker)) => format!(
            "no worker has all labels that it asks for ({}); the nearest is {worker}, which lacks {}",
            wanted.join(", "),
            lacks.join(", ")
        ),
        None => format!("no worker serves queue {}: `bp queue set {0} --workers` names them", job.queue),
    }))
}

/// Why a queue starts nothing.
fn of_queue(queue: &QueueRow, now: Timestamp) -> Option<(WaitCause, String)> {
    let name = &queue.name;
    if queue.settings.kind == wire::control::QueueKind::Pipe {
        let what =
            if queue.is_started { "none of its destinations accepts the job now" } else { "it is stopped" };
        return Some((WaitCause::QueueStopped, format!("pipe queue {name} does not route it: {what}")));
    }
    if !queue.is_started {
        return Some((WaitCause::QueueStopped, format!("queue {name} is stopped")));
    }
    if !super::windows::is_open(&queue.settings.windows, now) {
        let opens = super::windows::opens_in(&queue.settings.windows, now).unwrap_or_default();
        return Some((WaitCause::QueueWindow, format!("queue {name} starts jobs in {}", human_span(opens))));
    }
    None
}

fn jobs(most: u32) -> String {
    counted(most.into(), "job", "jobs")
}

fn of_limit(limited: Limited, queue: &str, owner: &str) -> (WaitCause, String) {
    match limited {
        Limited::Facility(most) => {
            (WaitCause::RunLimit, format!("{} may run in the facility at a time, and as many do", jobs(most)))
        }
        Limited::Queue(most) => (
            WaitCause::QueueLimit,
            format!("{} of queue {queue} may run at a time, and as many do", jobs(most)),
        ),
        Limited::User(most) => (
            WaitCause::UserLimit,
            format!("{} of {owner} may run in queue {queue} at a time, and as many do", jobs(most)),
        ),
        Limited::Array(most) => (
            WaitCause::ArrayLimit,
            format!(
                "{} of its array may run at a time, and as many do",
                counted(most.into(), "element", "elements")
            ),
        ),
    }
}
