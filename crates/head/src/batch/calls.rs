//! Calls of users on jobs.

use super::{finish, reason, refusals::nobody_runs, shares::place, slots_text};
use crate::{Apply, Context, Core, Topic, store::JobRow, waiters::Awaited};
use base::{Failure, JobId, Result};
use wire::control::{
    AwaitJobs, AwaitedJobs, CancelJob, Done, JobInfo, JobList, JobLog, JobState, JobText, Jobs,
};

/// Jobs that one listing shows unless they are named.
const LIST_MAX: usize = 1000;

pub(super) fn known(core: &Core, id: JobId) -> Result<JobRow> {
    core.store.job(id)?.ok_or_else(|| Failure::not_found(format!("job {id} does not exist")))
}

fn infos(core: &Core, rows: Vec<JobRow>, context: &Context) -> Result<Vec<JobInfo>> {
    let (slots, is_one) = (slots_text(core, context.now)?, rows.len() == 1);
    let info = |row: JobRow| {
        let mut why = reason(core, &row, &slots, context.now)?;
        // Of many it would cost a walk through the queue for each.
        if is_one && waits_for_slots(core, &row, context)? {
            let place = place(core, &row, context.now)?;
            why = why.map(|why| format!("{why}; {place}"));
        }
        let info = row.info(why);
        Ok(if is_owner(&row, context) { info } else { without_environment(info) })
    };
    rows.into_iter().map(info).collect()
}

/// Whether a job waits for nothing but its turn.
fn waits_for_slots(core: &Core, job: &JobRow, context: &Context) -> Result<bool> {
    let is_held_back = core.live.jobs_held_back.contains(&job.id);
    Ok(job.state == JobState::Queued
        && !is_held_back
        && nobody_runs(core, &job.into(), context.now)?.is_none())
}

/// A job as others may see it: what is in its environment may be secret.
pub(crate) fn without_environment(mut info: JobInfo) -> JobInfo {
    info.spec.environment.clear();
    info
}

fn named(core: &Core, ids: &[JobId], context: &Context) -> Result<Vec<JobInfo>> {
    let rows: Result<Vec<_>> = ids.iter().map(|id| known(core, *id)).collect();
    infos(core, rows?, context)
}

impl Apply for Jobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobList> {
        if !self.ids.is_empty() {
            return Ok(JobList { jobs: named(core, &self.ids, context)?, is_cut: false });
        }
        let rows = if self.active_only {
            let mut rows = core.store.active_jobs()?;
            rows.reverse();
            rows.truncate(LIST_MAX);
            rows
        } else {
            core.store.newest_jobs(LIST_MAX)?
        };
        Ok(JobList { jobs: infos(core, rows, context)?, is_cut: false })
    }
}

impl Apply for AwaitJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<AwaitedJobs> {
        let jobs = named(core, &self.ids, context)?;
        for job in jobs.iter().filter(|job| !job.state.is_over()) {
            core.awaits(Awaited::Job(job.id));
        }
        Ok(AwaitedJobs { jobs })
    }
}

fn is_owner(job: &JobRow, context: &Context) -> bool {
    context.who.is_operator || context.who.name == job.owner
}

pub(super) fn require_owner(job: &JobRow, context: &Context, verb: &str) -> Result<()> {
    if is_owner(job, context) {
        return Ok(());
    }
    Err(Failure::permission(format!(
        "user {} may not {verb} job {} of {}",
        context.who.name, job.id, job.owner
    )))
}

impl Apply for CancelJob {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let mut job = known(core, self.job)?;
        require_owner(&job, context, "cancel")?;
        match job.state {
            state if state.is_over() => {
                return Err(Failure::invalid(format!("job {} is {}", job.id, state.as_str())));
            }
            JobState::Running => {
                job.is_cancelled = true;
                core.store.save_job(&job)?;
                core.touch(Topic::Jobs);
            }
            _ => {
                let by = format!("cancelled by {}", context.who.name);
                finish(core, context, job, JobState::Cancelled, Some(by))?;
            }
        }
        Ok(Done {})
    }
}

impl Apply for JobLog {
    fn apply(self, core: &mut Core, context: &Context) -> Result<JobText> {
        let job = known(core, self.job)?;
        require_owner(&job, context, "read the output of")?;
        Ok(core.store.job_text(self.job)?.unwrap_or_default())
    }
}
