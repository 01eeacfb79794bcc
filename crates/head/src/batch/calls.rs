//! Calls of users on jobs.

use super::{finish, list::is_owner};
use crate::{Apply, Context, Core, Topic, store::JobRow};
use base::{Failure, JobId, Result};
use wire::control::{CancelJob, Done, JobLog, JobState, JobText};

pub(super) fn known(core: &Core, id: JobId) -> Result<JobRow> {
    core.store.job(id)?.ok_or_else(|| Failure::not_found(format!("job {id} does not exist")))
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
        let job = known(core, self.job)?;
        cancel(core, context, job).map(|()| Done {})
    }
}

/// Ends a job, whatever its state.
pub(super) fn cancel(core: &mut Core, context: &Context, mut job: JobRow) -> Result<()> {
    require_owner(&job, context, "cancel")?;
    match job.state {
        state if state.is_over() => Err(Failure::invalid(format!("job {} is {}", job.id, state.as_str()))),
        JobState::Running => {
            job.is_cancelled = true;
            job.reason = None;
            core.store.save_job(&job)?;
            core.touch(Topic::Jobs);
            Ok(())
        }
        _ => {
            let by = format!("cancelled by {}", context.who.name);
            finish(core, context, job, JobState::Cancelled, Some(by))
        }
    }
}

impl Apply for JobLog {
    fn apply(self, core: &mut Core, context: &Context) -> Result<JobText> {
        let job = known(core, self.job)?;
        require_owner(&job, context, "read the output of")?;
        Ok(core.store.job_text(self.job)?.unwrap_or_default())
    }
}
