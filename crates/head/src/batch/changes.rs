//! What is done to jobs that exist: holds, moves, changes, cancellation; for one, for a whole array, for some of its elements.

mod alter;
mod whole;

use super::{
    calls::{cancel, known, require_owner},
    list::selected,
    queues::known_queue,
    ready, routes,
};
use crate::{Apply, Context, Core, Topic, store::JobRow};
use base::{Failure, JobId, Result};
use wire::control::{
    CancelJobs, HoldJobs, HoldKind, JobOutcome, JobOutcomes, JobSelection, JobState, MoveJobs, ReleaseJobs,
    SELECTIONS_MAX,
};

/// Does the same to all elements of an array at once; `None` if that has to go element by element.
type Whole<'a> = &'a dyn Fn(&mut Core, &Context, &JobRow) -> Result<Option<(u64, Option<Failure>)>>;

/// As [`each`], but whole arrays are given to `whole`.
fn each_or_whole(
    core: &mut Core,
    context: &Context,
    jobs: Vec<JobSelection>,
    whole: Whole<'_>,
    mut act: impl FnMut(&mut Core, &Context, JobRow) -> Result<()>,
) -> Result<JobOutcomes> {
    let mut outcomes = Vec::with_capacity(jobs.len().min(SELECTIONS_MAX));
    require_few(&jobs)?;
    for jobs in jobs {
        let done = match whole::array(core, &jobs)? {
            Some(first) => whole(core, context, &first)?,
            None => None,
        };
        match done {
            Some((changed, failure)) => outcomes.push(JobOutcome { jobs, changed, failure }),
            None => outcomes.extend(each(core, context, vec![jobs], &mut act)?.outcomes),
        }
    }
    Ok(JobOutcomes { outcomes })
}

fn require_few(jobs: &[JobSelection]) -> Result<()> {
    if jobs.len() <= SELECTIONS_MAX {
        return Ok(());
    }
    let named = base::units::counted(jobs.len() as u64, "job is", "jobs are");
    Err(Failure::invalid(format!("{named} named; a call takes {SELECTIONS_MAX}")))
}

/// Does something to each job that is named. What is refused for one of an array is told only if it was refused for all of them, or
/// some of them are over anyway.
pub(super) fn each(
    core: &mut Core,
    context: &Context,
    jobs: Vec<JobSelection>,
    mut act: impl FnMut(&mut Core, &Context, JobRow) -> Result<()>,
) -> Result<JobOutcomes> {
    require_few(&jobs)?;
    let mut outcomes = Vec::with_capacity(jobs.len());
    for jobs in jobs {
        let mut outcome = JobOutcome { jobs, changed: 0, failure: None };
        match selected(core, &outcome.jobs) {
            Err(failure) => outcome.failure = Some(failure),
            Ok(ids) => {
                let is_one = ids.len() == 1;
                for id in ids {
                    match act_on(core, context, id, is_one, &mut act)? {
                        None => {}
                        Some(Ok(())) => outcome.changed += 1,
                        Some(Err(failure)) => _ = outcome.failure.get_or_insert(failure),
                    }
                }
            }
        }
        outcomes.push(outcome);
    }
    Ok(JobOutcomes { outcomes })
}

/// Does it to one job; `None`: an element that is over already is left as it is.
fn act_on(
    core: &mut Core,
    context: &Context,
    id: JobId,
    is_one: bool,
    act: &mut impl FnMut(&mut Core, &Context, JobRow) -> Result<()>,
) -> Result<Option<Result<()>>> {
    let job = known(core, id)?;
    if !is_one && job.state.is_over() && !job.spec.rerunnable {
        return Ok(None);
    }
    Ok(Some(act(core, context, job)))
}

impl Apply for CancelJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        each_or_whole(core, context, self.jobs, &whole::cancel_all, cancel)
    }
}

fn require_alive(job: &JobRow) -> Result<()> {
    if job.state.is_over() {
        return Err(Failure::invalid(format!("job {} is {}", job.id, job.state.as_str())));
    }
    Ok(())
}

/// The hold that somebody sets who names one or none.
fn allowed_hold(context: &Context, job: &JobRow, named: Option<HoldKind>) -> Result<HoldKind> {
    let is_own = context.who.name == job.owner;
    let hold = named.unwrap_or(if is_own { HoldKind::User } else { HoldKind::Operator });
    require_owner(job, context, "hold")?;
    if hold != HoldKind::User {
        context.who.require_operator("set the hold of an operator")?;
    }
    Ok(hold)
}

impl Apply for HoldJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        let whole = |core: &mut Core, context: &Context, first: &JobRow| {
            whole::hold_all(core, context, first, self.hold)
        };
        each_or_whole(core, context, self.jobs, &whole, |core, context, mut job| {
            require_alive(&job)?;
            let hold = allowed_hold(context, &job, self.hold)?;
            if !job.holds.contains(&hold) {
                job.holds.push(hold);
                job.holds.sort_unstable();
                core.store.save_job(&job)?;
                core.touch(Topic::Jobs);
            }
            ready::settle(core, context.now, job).map(drop)
        })
    }
}

impl Apply for ReleaseJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        let whole = |core: &mut Core, context: &Context, first: &JobRow| {
            whole::release_all(core, context, first, self.hold)
        };
        each_or_whole(core, context, self.jobs, &whole, |core, context, mut job| {
            require_owner(&job, context, "release")?;
            require_alive(&job)?;
            let may = |hold: &HoldKind| context.who.is_operator || *hold == HoldKind::User;
            let is_meant = |hold: &HoldKind| self.hold.is_none_or(|kind| kind == *hold);
            if let Some(kept) = job.holds.iter().find(|hold| is_meant(hold) && !may(hold)) {
                return Err(Failure::permission(format!(
                    "job {} has the hold of the {}",
                    job.id,
                    kept.as_str()
                ))
                .hint("ask an operator to release it"));
            }
            job.holds.retain(|hold| !is_meant(hold));
            core.store.save_job(&job)?;
            core.touch(Topic::Jobs);
            if let Some(ended) = ready::settle(core, context.now, job)? {
                ready::look_at_dependents(core, context.now, ended)?;
            }
            Ok(())
        })
    }
}

fn stays(job: &JobRow) -> Failure {
    Failure::invalid(format!("job {} is {} and stays in queue {}", job.id, job.state.as_str(), job.queue))
}

impl Apply for MoveJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobOutcomes> {
        let queue = known_queue(core, &self.queue)?;
        let whole = |core: &mut Core, context: &Context, first: &JobRow| {
            whole::move_all(core, context, first, &queue)
        };
        let outcomes = each_or_whole(core, context, self.jobs, &whole, |core, context, mut job| {
            require_owner(&job, context, "move")?;
            if !matches!(job.state, JobState::Held | JobState::Queued) {
                return Err(stays(&job));
            }
            routes::accepts(core, &queue, &job.spec.resources)?;
            job.queue.clone_from(&queue.name);
            core.store.save_job(&job)?;
            core.touch(Topic::Jobs);
            Ok(())
        })?;
        routes::route_kept(core, context.now)?;
        Ok(outcomes)
    }
}
