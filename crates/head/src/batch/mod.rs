//! Jobs: held until their inputs are online, run, archived, done.

mod calls;
mod changes;
mod costs;
mod deliveries;
mod fair_share;
mod list;
mod output;
pub(crate) mod place;
mod plan;
mod queues;
mod ready;
mod refusals;
mod replay;
mod retry;
mod room;
mod routes;
mod shares;
mod submit;
mod waits;
mod windows;

pub(crate) use costs::{loaded, recalled};
pub(crate) use deliveries::Deliveries;
pub(crate) use list::without_environment;
pub(crate) use output::Outputs;
pub(crate) use ready::look_at_times;
pub(crate) use refusals::Refusals;
pub use replay::{Replay, ReplayedJob};
pub(crate) use room::host_removed;
pub(crate) use waits::{Scene, why};

use crate::{
    Context, Core, Topic,
    hosts::presence,
    namespace::path_of,
    pool,
    store::{JobFileRole, JobRow, Member},
    tape,
};
use base::{Failure, FileId, FilePath, JobId, Millis, Result, Timestamp};
use wire::control::{EventType, FileState, JobState, Presence, WorkerLoad};

/// How long a worker may be silent before no more is expected of it: three times as long as it waits for orders.
const SILENT_AFTER: Millis = Millis::from_seconds(90);

/// The last report of a worker; lost when the head stops, and sent again.
#[derive(Debug, Clone)]
pub(crate) struct WorkerLive {
    /// The host that it is on; empty: the head's own.
    pub(crate) host: String,
    /// When it was heard last.
    pub(crate) heard: Timestamp,
    /// How busy its host is.
    pub(crate) load: Option<WorkerLoad>,
}

/// Whether a worker has registered and was heard lately, and its host is there.
pub(crate) fn is_available(core: &Core, worker: &str, now: Timestamp) -> bool {
    let live = core.live.workers.get(worker);
    live.is_some_and(|live| now - live.heard <= SILENT_AFTER && !presence::is_away(core, &live.host, now))
}

/// What is wrong with a worker that is not available.
fn trouble(core: &Core, worker: &str, now: Timestamp) -> &'static str {
    let host = core.live.workers.get(worker).map_or("", |live| &live.host);
    match presence::presence(core, host, now) {
        Some(Presence::Stopped) => "has stopped",
        _ => "is silent",
    }
}

/// The name under which a job pins its inputs.
pub(crate) fn pin_holder(job: JobId) -> String {
    format!("job {job}")
}

/// A file came online: jobs that were held only for it may run.
pub(crate) fn file_online(core: &mut Core, file: FileId, now: Timestamp) -> Result<()> {
    core.live.jobs_held_back.clear();
    if core.store.active_jobs_len()? == 0 {
        return Ok(());
    }
    for id in core.store.jobs_with_file(file, JobFileRole::Input, JobState::Held)? {
        if let Some(job) = core.store.job(id)?
            && core.store.job_files_missing(job.shared(), JobFileRole::Input)? == 0
            && let Some(ended) = ready::settle(core, now, job)?
        {
            ready::look_at_dependents(core, now, ended)?;
        }
    }
    Ok(())
}

/// A file is on tape: jobs that waited only for it are done.
pub(crate) fn file_archived(core: &mut Core, context: &Context, file: FileId) -> Result<()> {
    for id in core.store.jobs_with_file(file, JobFileRole::Output, JobState::Archiving)? {
        if core.store.job_files_missing(id, JobFileRole::Output)? == 0
            && let Some(job) = core.store.job(id)?
        {
            finish(core, context, job, JobState::Done, None)?;
        }
    }
    Ok(())
}

/// A file can never be on tape: jobs that wait for that have failed.
pub(crate) fn file_not_archived(
    core: &mut Core,
    context: &Context,
    file: FileId,
    failure: &Failure,
) -> Result<()> {
    for id in core.store.jobs_with_file(file, JobFileRole::Output, JobState::Archiving)? {
        if let Some(job) = core.store.job(id)? {
            let why = format!("output {} cannot be archived: {}", path_of(core, file)?, failure.what);
            finish(core, context, job, JobState::Failed, Some(why))?;
        }
    }
    Ok(())
}

/// A job that waits until this output is on tape.
pub(crate) fn job_archiving(core: &Core, file: FileId) -> Result<Option<JobId>> {
    let jobs = core.store.jobs_with_file(file, JobFileRole::Output, JobState::Archiving)?;
    Ok(jobs.into_iter().next())
}

/// A file was removed: jobs that waited for it to be on tape wait in vain.
pub(crate) fn file_removed(core: &mut Core, context: &Context, file: FileId, path: &FilePath) -> Result<()> {
    for id in core.store.jobs_with_file(file, JobFileRole::Output, JobState::Archiving)? {
        if let Some(job) = core.store.job(id)? {
            let why = format!("output {path} was removed before it was on tape");
            finish(core, context, job, JobState::Failed, Some(why))?;
        }
    }
    Ok(())
}

/// Writes a job. When it takes its slots, or gives them back, the usage of its owner changes.
fn save(core: &mut Core, job: &JobRow, now: Timestamp) -> Result<()> {
    let before = core.store.active()?.slots_of(job.id);
    let after = if job.state == JobState::Running { job.spec.resources.cpus } else { 0 };
    core.store.save_job(job)?;
    let change = f64::from(after) - f64::from(before);
    if change != 0.0 {
        core.store.change_slots(&member(job), change, now)?;
    }
    Ok(())
}

/// Whose share a job is counted to: its first group was proven when it was submitted.
fn member(job: &JobRow) -> Member {
    Member { group: job.group.clone(), user: job.owner.clone() }
}

/// Ends a job, and looks at those that waited for its end.
fn finish(
    core: &mut Core,
    context: &Context,
    job: JobRow,
    state: JobState,
    reason: Option<String>,
) -> Result<()> {
    let job = finish_one(core, context.now, job, state, reason)?;
    ready::look_at_dependents(core, context.now, job)
}

/// Ends a job: its pins go, its state is final.
fn finish_one(
    core: &mut Core,
    now: Timestamp,
    mut job: JobRow,
    state: JobState,
    reason: Option<String>,
) -> Result<JobRow> {
    debug_assert!(state.is_over());
    job.state = state;
    job.reason = reason;
    job.ended = Some(now);
    save(core, &job, now)?;
    release_inputs(core, &job)?;
    core.touch(Topic::Jobs);
    core.touch(Topic::Files);
    say_ended(core, &job, now);
    Ok(job)
}

/// The process of a job is over: its inputs may go, unless other elements of its array need them.
fn release_inputs(core: &mut Core, job: &JobRow) -> Result<()> {
    if let Some(element) = job.array
        && core.store.array_needs_inputs(element.array)?
    {
        return Ok(());
    }
    core.store.release_pins_of(&pin_holder(job.shared()))?;
    Ok(())
}

fn say_ended(core: &mut Core, job: &JobRow, now: Timestamp) {
    let kind = match job.state {
        JobState::Done => EventType::JobDone,
        JobState::Cancelled => EventType::JobCancelled,
        _ => EventType::JobFailed,
    };
    let why = job.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let what = format!("job {} of {} is {}{why}", job.id, job.owner, job.state.as_str());
    core.say(now, kind, job.id, what);
}

/// What is to be said of a job that was given to a worker.
fn running(core: &Core, job: &JobRow, now: Timestamp) -> Option<String> {
    let silent = job.worker.as_deref().filter(|worker| !is_available(core, worker, now));
    match silent {
        Some(worker) => {
            let trouble = trouble(core, worker, now);
            Some(format!("worker {worker} {trouble}: its runs continue there and are not started elsewhere"))
        }
        None if job.is_cancelled => Some("is being ended".to_owned()),
        None if !job.has_begun => Some("inputs are being copied to the worker".to_owned()),
        None => None,
    }
}

/// How many files are missing, and what the first of them waits for.
fn waiting_files(core: &Core, job: &JobRow, role: JobFileRole, what: &str, now: Timestamp) -> Result<String> {
    let holder = job.holder_of(role);
    let files = core.store.job_files(holder, role)?;
    let missing = core.store.job_files_missing(holder, role)?;
    let mut text = format!("{missing} of {} {what}", files.len());
    for file in files {
        let Some(node) = core.store.node(file)? else {
            continue;
        };
        let is_there = match role {
            JobFileRole::Input => pool::state_of(core, &node).is_online(),
            JobFileRole::Output => node.is_safe_on_tape(),
        };
        if !is_there {
            let why = match tape::waits(core, file, now)? {
                Some(why) => why,
                None if pool::state_of(core, &node) == FileState::OutOfReach => {
                    format!("is out of reach, on {}", pool::away_words(core, &node, now))
                }
                None => "no recall is queued".to_owned(),
            };
            text.push_str(&format!("; {} {why}", path_of(core, file)?));
            break;
        }
    }
    Ok(text)
}
