//! Whole arrays: what is done to all their elements costs a few statements, not one for each.
//!
//! Only what differs from element to element goes one by one: processes that run, and elements whose owner may not do it.

use super::{allowed_hold, stays};
use crate::{
    Context, Core, Topic,
    batch::{calls, calls::require_owner, ready, release_inputs, routes},
    store::{ArrayRow, JobRow, QueueRow},
};
use base::{Failure, Result, units::counted};
use wire::control::{EventType, HoldKind, JobSelection, JobState};

/// What was done: how many elements were changed, and why others were not. `None`: it has to go one by one.
type Done = Option<(u64, Option<Failure>)>;

/// The first element of the array that a selection names as a whole.
pub(super) fn array(core: &Core, jobs: &JobSelection) -> Result<Option<JobRow>> {
    if !jobs.indices.is_empty() {
        return Ok(None);
    }
    let job = core.store.job(jobs.job)?;
    Ok(job.filter(|job| job.array.is_some_and(|element| element.array == job.id)))
}

fn row(core: &Core, first: &JobRow) -> Result<ArrayRow> {
    core.store
        .job_array(first.id)?
        .ok_or_else(|| Failure::corrupt(format!("array {} has no row in the catalogue", first.id)))
}

/// Elements in one of these states.
fn count(core: &Core, first: &JobRow, states: &[JobState]) -> Result<u64> {
    let counts = core.store.array_states(first.id)?;
    Ok(states.iter().filter_map(|state| counts.get(state.as_str())).sum())
}

const ALIVE: [JobState; 4] = [JobState::Held, JobState::Queued, JobState::Running, JobState::Archiving];

fn all_over(first: &JobRow) -> Done {
    Some((0, Some(Failure::invalid(format!("all jobs of array {} are over", first.id)))))
}

/// Ends all elements that are not over.
pub(super) fn cancel_all(core: &mut Core, context: &Context, first: &JobRow) -> Result<Done> {
    if let Err(refused) = require_owner(first, context, "cancel") {
        return Ok(Some((0, Some(refused))));
    }
    let waiting = count(core, first, &[JobState::Held, JobState::Queued, JobState::Archiving])?;
    let mut changed = waiting;
    for id in core.store.array_elements_in(first.id, JobState::Running)? {
        let job = calls::known(core, id)?;
        calls::cancel(core, context, job)?;
        changed += 1;
    }
    if changed == 0 {
        return Ok(all_over(first));
    }
    if waiting > 0 {
        let by = format!("cancelled by {}", context.who.name);
        core.store.cancel_array(first.id, &by, context.now)?;
        release_inputs(core, first)?;
        let jobs = counted(waiting, "job", "jobs");
        let what = format!("{jobs} of array {} of {}: {by}", first.id, first.owner);
        core.say(context.now, EventType::JobCancelled, first.id, what);
        let elements = row(core, first)?.count;
        ready::look_at_dependents_of_array(core, context.now, first, elements)?;
    }
    core.touch(Topic::Jobs);
    core.touch(Topic::Files);
    Ok(Some((changed, None)))
}

/// Holds all elements that are not over.
pub(super) fn hold_all(
    core: &mut Core,
    context: &Context,
    first: &JobRow,
    hold: Option<HoldKind>,
) -> Result<Done> {
    let hold = match allowed_hold(context, first, hold) {
        Ok(hold) => hold,
        Err(refused) => return Ok(Some((0, Some(refused)))),
    };
    let changed = count(core, first, &ALIVE)?;
    if changed == 0 {
        return Ok(all_over(first));
    }
    core.store.hold_array(first.id, hold, true)?;
    core.touch(Topic::Jobs);
    Ok(Some((changed, None)))
}

/// Releases all elements, if nothing of it is for operators only.
pub(super) fn release_all(
    core: &mut Core,
    context: &Context,
    first: &JobRow,
    hold: Option<HoldKind>,
) -> Result<Done> {
    if let Err(refused) = require_owner(first, context, "release") {
        return Ok(Some((0, Some(refused))));
    }
    let meant: Vec<_> = core
        .store
        .array_holds(first.id)?
        .into_iter()
        .filter(|kind| hold.is_none_or(|one| one == *kind))
        .collect();
    if !context.who.is_operator && meant.iter().any(|kind| *kind != HoldKind::User) {
        return Ok(None);
    }
    let changed = count(core, first, &ALIVE)?;
    if changed == 0 {
        return Ok(all_over(first));
    }
    for kind in meant {
        core.store.hold_array(first.id, kind, false)?;
    }
    core.touch(Topic::Jobs);
    for ended in ready::settle_all(core, context.now, first)? {
        ready::look_at_dependents(core, context.now, ended)?;
    }
    Ok(Some((changed, None)))
}

/// Moves all elements that have not started.
pub(super) fn move_all(core: &mut Core, context: &Context, first: &JobRow, queue: &QueueRow) -> Result<Done> {
    if let Err(refused) = require_owner(first, context, "move") {
        return Ok(Some((0, Some(refused))));
    }
    for wish in core.store.array_wishes(first.id)? {
        if routes::accepts(core, queue, &wish).is_err() {
            return Ok(None);
        }
    }
    let changed = count(core, first, &[JobState::Held, JobState::Queued])?;
    core.store.move_array(first.id, &queue.name)?;
    core.touch(Topic::Jobs);
    let running = core.store.array_elements_in(first.id, JobState::Running)?;
    let refused = running.first().map(|id| calls::known(core, *id)).transpose()?.map(|job| stays(&job));
    match changed {
        0 if refused.is_none() => Ok(all_over(first)),
        _ => Ok(Some((changed, refused))),
    }
}
