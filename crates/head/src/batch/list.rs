//! Lists of jobs as people see them.

use super::{
    calls::known,
    plan::Pass,
    refusals::nobody_runs,
    shares::place,
    waits::{Scene, why},
};
use crate::{Apply, Context, Core, Topic, store::JobRow, waiters::Awaited};
use base::{Failure, JobId, Result, units::counted};
use std::collections::BTreeSet;
use wire::control::{
    ArrayElements, AwaitJobs, AwaitedJobs, JobFilter, JobInfo, JobList, JobSelection, JobState, Jobs,
    SELECTIONS_MAX,
};

/// Entries of one listing unless somebody says another number.
const LIST_MAX: usize = 1000;
/// Entries of one listing, whatever somebody says: the reply stays below what a client reads.
const LIST_BOUND: usize = 100_000;
/// Entries of which each says why it waits: for more, those that wait for a slot share their reason with the first.
const REASONS_MAX: usize = 1000;

/// How much is told of each job.
#[derive(Debug, Clone, Copy, Default)]
struct Detail {
    is_brief: bool,
    has_costs: bool,
}

fn infos(core: &Core, rows: Vec<JobRow>, context: &Context, detail: Detail) -> Result<Vec<JobInfo>> {
    let mut costs = if detail.has_costs { super::costs::of(core, &rows)? } else { Vec::new() }.into_iter();
    let (active, is_one) = (core.store.active()?, rows.len() == 1);
    let scene = Scene::of(core, &active, context.now)?;
    let mut infos = Vec::with_capacity(rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        let is_cheap = row.state.is_over() || row.state == JobState::Running;
        let (cause, mut reason) =
            if at < REASONS_MAX || is_cheap { why(core, &row, &scene, context.now)? } else { (None, None) };
        // Of many it would cost a walk through the queue for each.
        if is_one && waits_for_slots(core, &row, context)? {
            let place = place(core, &row, context.now)?;
            reason = reason.map(|why| format!("{why}; {place}"));
        }
        let mut info = row.info(reason);
        info.waits_for = cause;
        info.costs = costs.next();
        let info = if is_owner(&row, context) { info } else { without_environment(info) };
        infos.push(if detail.is_brief { briefly(info) } else { info });
    }
    Ok(infos)
}

fn detail(call: &Jobs) -> Detail {
    Detail { is_brief: call.brief, has_costs: call.costs }
}

/// Whether a job waits for nothing but its turn.
fn waits_for_slots(core: &Core, job: &JobRow, context: &Context) -> Result<bool> {
    let is_held_back = core.live.jobs_held_back.contains(&job.id);
    Ok(job.state == JobState::Queued
        && !is_held_back
        && nobody_runs(core, &job.into(), context.now)?.is_none())
}

pub(super) fn is_owner(job: &JobRow, context: &Context) -> bool {
    context.who.is_operator || context.who.name == job.owner
}

/// A job as others may see it: what is in its environment, or in its script, may be secret.
pub(crate) fn without_environment(mut info: JobInfo) -> JobInfo {
    info.spec.environment.clear();
    info.spec.script = info.spec.script.map(|_| String::new());
    info
}

/// A job without what is long.
fn briefly(info: JobInfo) -> JobInfo {
    let mut info = without_environment(info);
    info.spec.inputs.clear();
    info.spec.outputs.clear();
    info
}

/// The jobs that a selection names: all elements of an array, those with these indices, or the one job.
pub(super) fn selected(core: &Core, selection: &JobSelection) -> Result<Vec<JobId>> {
    let first = known(core, selection.job)?;
    let is_array = first.array.is_some_and(|element| element.array == first.id);
    if !is_array && selection.indices.is_empty() {
        return Ok(vec![first.id]);
    }
    if !is_array {
        return Err(Failure::invalid(format!("job {} is not an array and has no elements", first.id)));
    }
    let elements = core.store.array_elements(first.id, &selection.indices)?;
    if elements.is_empty() {
        return Err(Failure::not_found(format!("array {} has no such element: {selection}", first.id)));
    }
    Ok(elements.into_iter().map(|(id, _)| id).collect())
}

/// An array as one entry: its first element, with how the others stand.
fn as_array(core: &Core, mut info: JobInfo) -> Result<JobInfo> {
    let Some(element) = info.array else { return Ok(info) };
    let Some(array) = core.store.job_array(element.array)? else { return Ok(info) };
    let states = core.store.array_states(array.id)?;
    let has = |state: JobState| states.get(state.as_str()).is_some_and(|count| *count > 0);
    let order = [
        JobState::Running,
        JobState::Archiving,
        JobState::Queued,
        JobState::Held,
        JobState::Failed,
        JobState::Cancelled,
    ];
    info.state = order.into_iter().find(|state| has(*state)).unwrap_or(JobState::Done);
    info.elements = Some(ArrayElements {
        count: array.count,
        waiting: core.store.array_waiting(array.id)?,
        states,
        running_max: array.running_max,
    });
    Ok(info)
}

impl Apply for Jobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<JobList> {
        let unsaid = if self.ids.is_empty() && self.select.is_empty() { LIST_MAX } else { LIST_BOUND };
        let limit = self.limit.map_or(unsaid, |limit| limit as usize).min(LIST_BOUND);
        if !self.ids.is_empty() || !self.select.is_empty() {
            return named(core, &self, limit, context);
        }
        check_filter(&self.filter)?;
        let mut rows = if self.elements {
            core.store.list_jobs(&self.filter, self.active_only, limit + 1)?
        } else {
            core.store.list_arrays_and_jobs(&self.filter, self.active_only, limit + 1)?
        };
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        let mut jobs = infos(core, rows, context, detail(&self))?;
        if !self.elements {
            jobs = jobs.into_iter().map(|info| as_array(core, info)).collect::<Result<_>>()?;
        }
        Ok(JobList { jobs, is_cut })
    }
}

/// Jobs that were named. An id is that one job, also of the first element of an array. A selected array is one entry, unless its
/// elements are asked for.
fn named(core: &Core, call: &Jobs, limit: usize, context: &Context) -> Result<JobList> {
    let mut wanted: Vec<_> = call.ids.iter().map(|id| (*id, false)).collect();
    for selection in &call.select {
        if selection.indices.is_empty() && !call.elements {
            wanted.push((selection.job, true));
        } else {
            wanted.extend(selected(core, selection)?.into_iter().map(|id| (id, false)));
        }
        if wanted.len() > limit {
            break;
        }
    }
    let is_cut = wanted.len() > limit;
    wanted.truncate(limit);
    let rows = wanted.iter().map(|(id, _)| known(core, *id)).collect::<Result<_>>()?;
    let told = infos(core, rows, context, detail(call))?.into_iter().zip(wanted);
    let jobs = told.map(|(info, (id, may_be_array))| {
        let is_array = may_be_array && info.array.is_some_and(|element| element.array == id);
        if is_array { as_array(core, info) } else { Ok(info) }
    });
    Ok(JobList { jobs: jobs.collect::<Result<_>>()?, is_cut })
}

fn check_filter(filter: &JobFilter) -> Result<()> {
    let len = filter.queues.len() + filter.owners.len() + filter.names.len() + filter.states.len();
    if len > SELECTIONS_MAX {
        return Err(Failure::invalid(format!("a filter of {len} values; it may have {SELECTIONS_MAX}")));
    }
    Ok(())
}

impl Apply for AwaitJobs {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<AwaitedJobs> {
        let mut ids = self.ids;
        for selection in &self.select {
            ids.extend(selected(core, selection)?);
        }
        let mut seen = BTreeSet::new();
        ids.retain(|id| seen.insert(*id));
        if ids.len() > LIST_BOUND {
            let named = counted(ids.len() as u64, "job is", "jobs are");
            return Err(Failure::invalid(format!("{named} named; a call waits for {LIST_BOUND}"))
                .hint("wait for elements of an array in parts: 12_[1-50000]"));
        }
        let rows = ids.into_iter().map(|id| known(core, id)).collect::<Result<_>>()?;
        let jobs = infos(core, rows, context, Detail::default())?;
        for job in jobs.iter().filter(|job| !job.state.is_over()) {
            core.awaits(Awaited::Job(job.id));
        }
        Ok(AwaitedJobs { jobs })
    }
}

/// What a pass looks at now.
pub(super) fn pass<'a>(
    core: &Core,
    active: &'a crate::store::ActiveJobs,
    queues: &'a crate::store::QueueTable,
    held_back: &'a BTreeSet<JobId>,
    context_now: base::Timestamp,
) -> Result<Pass<'a>> {
    let fair = core.store.fair_share()?;
    Ok(Pass { active, queues, fair, held_back, now: context_now })
}
