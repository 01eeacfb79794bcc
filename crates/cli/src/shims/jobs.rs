//! Asks the facility for jobs, and waits for them.

use super::Shim;
use crate::{
    context::Run,
    waiting::{self, PATIENCE_DEFAULT},
};
use base::{ErrorKind, Failure, JobId, Result};
use wire::control::{AwaitJobs, JobExit, JobFilter, JobInfo, JobSelection, JobState, Jobs};

/// Jobs that one listing shows: more than a table of people, and than a workflow has.
pub(crate) const LIMIT: u32 = 100_000;

/// The names of users, of whom some may be given by number; or the first whom nobody knows.
///
/// To pass over one who is unknown would leave a filter without users, which asks for the jobs of all.
pub(crate) fn owners(shim: &Shim, users: &[String]) -> std::result::Result<Vec<String>, String> {
    users.iter().map(|user| owner(shim, user).ok_or_else(|| user.clone())).collect()
}

/// The name of a user, who may be given by number; none if nobody knows such a user.
pub(crate) fn owner(shim: &Shim, user: &str) -> Option<String> {
    let known = match user.parse::<u32>() {
        Ok(number) => nix::unistd::User::from_uid(number.into()),
        Err(_) => nix::unistd::User::from_name(user),
    };
    // Users of the facility need not be users of this host.
    let here = || (user == shim.context.user()).then(|| user.to_owned());
    known.ok().flatten().map(|user| user.name).or_else(here)
}

/// The jobs that are asked for.
///
/// A head of an older version passes over what it does not know of the call; what is cancelled must not depend on that.
pub(crate) fn list(shim: &mut Shim, call: Jobs) -> Result<Vec<JobInfo>> {
    let mut found = shim.call(&call)?.jobs;
    found.retain(|job| is_selected(&call.select, job) && is_in(&call.filter, job));
    Ok(found)
}

/// Whether one of the selections names a job, or there are none.
fn is_selected(select: &[JobSelection], job: &JobInfo) -> bool {
    select.is_empty() || select.iter().any(|one| names(one, job))
}

/// Whether a selection names a job.
pub(crate) fn names(select: &JobSelection, job: &JobInfo) -> bool {
    match (select.indices.as_slice(), job.array) {
        ([], None) => select.job == job.id,
        ([], Some(element)) => select.job == element.array || select.job == job.id,
        (indices, Some(element)) => {
            select.job == element.array && indices.iter().any(|range| range.contains(element.index))
        }
        (_, None) => false,
    }
}

/// Whether a job is of one of these accounts and workers; an empty list leaves all. The head is asked for neither.
pub(crate) fn is_of(job: &JobInfo, accounts: &[String], workers: &[String]) -> bool {
    let account = job.spec.account.as_deref().unwrap_or_default();
    (accounts.is_empty() || accounts.iter().any(|one| one == account))
        && (workers.is_empty() || job.worker.as_ref().is_some_and(|worker| workers.contains(worker)))
}

/// Whether a filter leaves a job, but for the time.
pub(crate) fn is_in(filter: &JobFilter, job: &JobInfo) -> bool {
    let one = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && one(&filter.owners, &job.owner)
        && one(&filter.names, &job.spec.name)
        && one(&filter.queues, &job.queue)
}

/// All jobs and elements of a selection, without what is long; empty if there is no such job.
pub(crate) fn of(shim: &mut Shim, select: &[JobSelection]) -> Result<Vec<JobInfo>> {
    named(shim, select, true)
}

/// The same with scripts and environments.
pub(crate) fn whole(shim: &mut Shim, select: &[JobSelection]) -> Result<Vec<JobInfo>> {
    named(shim, select, false)
}

fn named(shim: &mut Shim, select: &[JobSelection], brief: bool) -> Result<Vec<JobInfo>> {
    let call = Jobs { select: select.to_vec(), elements: true, brief, limit: Some(LIMIT), ..Jobs::default() };
    match list(shim, call) {
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Those jobs of a selection that exist: one that is gone must not hide the others.
pub(crate) fn existing(shim: &mut Shim, select: &[JobSelection]) -> Result<Vec<JobInfo>> {
    let found = of(shim, select)?;
    if !found.is_empty() || select.len() < 2 {
        return Ok(found);
    }
    let mut found = Vec::new();
    for one in select {
        found.extend(of(shim, std::slice::from_ref(one))?);
    }
    Ok(found)
}

/// Whether there are such jobs.
pub(crate) fn is_known(shim: &mut Shim, select: &[JobSelection]) -> Result<bool> {
    Ok(!of(shim, select)?.is_empty())
}

/// Waits until a job, or every element of an array, is over. The exit code is the highest of theirs.
pub(crate) fn wait(shim: &mut Shim, job: JobId) -> Run {
    let ids = of(shim, &[job.into()])?.iter().map(|job| job.id).collect();
    let call = AwaitJobs { ids, ..AwaitJobs::default() };
    loop {
        let waited =
            waiting::silently(&mut shim.context, |context| waiting::jobs(context, &call, PATIENCE_DEFAULT));
        match waited {
            Ok(reply) => return Ok(reply.jobs.iter().map(code).max().unwrap_or(0)),
            // The facility may have been restarted meanwhile; this call waits for it.
            Err(crate::context::Stop::Failed(Failure {
                kind: ErrorKind::Unavailable | ErrorKind::Io,
                ..
            })) => {
                shim.context.forget_facility();
                of(shim, &[job.into()])?;
            }
            Err(stop) => return Err(stop),
        }
    }
}

/// The code with which a command ends that has waited for the job.
pub(crate) fn code(job: &JobInfo) -> u8 {
    if job.state == JobState::Done {
        return 0;
    }
    job.exit.as_ref().and_then(JobExit::shell_code).filter(|code| *code > 0).unwrap_or(1)
}
