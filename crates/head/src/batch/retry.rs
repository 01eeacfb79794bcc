//! Runs again: after a failure, where the job asks for it, or because somebody wants it.

use super::{finish, ready, save};
use crate::{Context, Core, Topic, store::JobRow};
use base::{Millis, Result};
use tracing::info;
use wire::control::{JobExit, JobState};

/// The first pause after a failure; each next one is twice as long.
const PAUSE: Millis = Millis::from_seconds(10);
/// No pause is longer.
const PAUSE_MAX: Millis = Millis::from_seconds(3600);
/// What a running job says that is ended only to be run again.
pub(super) const RERUN: &str = "is being ended, and runs again";

/// How long to wait after so many failures.
fn pause(failures: u32) -> Millis {
    Millis(PAUSE.0 << failures.saturating_sub(1).min(20)).min(PAUSE_MAX)
}

/// Whether a run that ended so may be tried again without asking anybody: what was cancelled or lost is not.
fn is_retried(exit: &JobExit) -> bool {
    matches!(
        exit,
        JobExit::Code(_)
            | JobExit::Signal(_)
            | JobExit::WallLimit
            | JobExit::NotStarted(_)
            | JobExit::OutputFailed(_)
            | JobExit::Limit(_)
    )
}

/// A run ended badly: the job is tried again later if it asks for that, else it has failed.
pub(super) fn failed(core: &mut Core, context: &Context, mut job: JobRow, why: String) -> Result<()> {
    let is_late = job.spec.deadline.is_some_and(|deadline| deadline <= context.now);
    let retries = job.exit.as_ref().is_some_and(is_retried) && job.failures < job.spec.retries;
    if !retries || job.is_cancelled || is_late {
        return finish(core, context, job, JobState::Failed, Some(why));
    }
    job.failures += 1;
    job.spec.begin = Some(context.now + pause(job.failures));
    info!(job = %job.id, failures = job.failures, why, "the job failed and is tried again");
    run_again(core, context, job, Some(why))
}

/// Puts a job back to where it was before its run.
pub(super) fn run_again(
    core: &mut Core,
    context: &Context,
    mut job: JobRow,
    why: Option<String>,
) -> Result<()> {
    job.state = JobState::Held;
    job.reason = why;
    job.worker = None;
    job.has_begun = false;
    job.is_cancelled = false;
    job.started = None;
    job.ended = None;
    job.run_as = None;
    job.not_enforced.clear();
    save(core, &job, context.now)?;
    core.touch(Topic::Jobs);
    if let Some(ended) = ready::settle(core, context.now, job)? {
        ready::look_at_dependents(core, context.now, ended)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_up_to_an_hour() {
        assert_eq!([1, 2, 3].map(|failures| pause(failures).0), [10_000, 20_000, 40_000]);
        assert_eq!(pause(1000), PAUSE_MAX);
    }
}
