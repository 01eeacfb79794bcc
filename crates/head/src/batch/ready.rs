//! What keeps a job from waiting for a slot: holds, other jobs, times, inputs. Each end of a job, each release and each time that comes
//! looks at the jobs that it may concern, and at no others.

use super::finish_one;
use crate::{
    Core, Topic,
    store::{DependencyRow, DependencyState, JobFileRole, JobRow},
};
use base::{JobId, Result, Timestamp};
use wire::control::{DependencyKind, HoldKind, JobState};

/// Jobs whose time has come that one call looks at: it takes a few milliseconds, and the next call takes the others.
const DUE_MAX: usize = 1000;

/// What keeps a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Somebody holds it.
    Held(HoldKind),
    /// A dependency can never be fulfilled.
    Never(String),
    /// A dependency is not fulfilled yet.
    Dependency(String),
    /// Its time has not come.
    Begins(Timestamp),
    /// It failed and is tried again then.
    Retry(Timestamp),
    /// Inputs are not online.
    Inputs,
}

/// How the jobs stand that a dependency names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Targets {
    /// One has not begun.
    has_waiting: bool,
    /// One has begun and is not over.
    has_begun: bool,
    /// One failed or was cancelled.
    has_failed: bool,
}

/// Decides a dependency on one job, or on all elements of an array.
fn decide(kind: DependencyKind, targets: Targets) -> DependencyState {
    use DependencyState::{Met, Never, Waiting};
    let is_over = !targets.has_waiting && !targets.has_begun;
    match kind {
        DependencyKind::After => {
            if targets.has_waiting {
                Waiting
            } else {
                Met
            }
        }
        DependencyKind::AfterAny => {
            if is_over {
                Met
            } else {
                Waiting
            }
        }
        // One that failed decides it, whatever the others do.
        DependencyKind::AfterOk | DependencyKind::AfterCorr if targets.has_failed => Never,
        DependencyKind::AfterOk | DependencyKind::AfterCorr => {
            if is_over {
                Met
            } else {
                Waiting
            }
        }
        DependencyKind::AfterNotOk if !is_over => Waiting,
        DependencyKind::AfterNotOk => {
            if targets.has_failed {
                Met
            } else {
                Never
            }
        }
        // Decided by those of the same name.
        DependencyKind::Singleton => Waiting,
    }
}

fn targets_of(state: JobState) -> Targets {
    Targets {
        has_waiting: matches!(state, JobState::Held | JobState::Queued),
        has_begun: matches!(state, JobState::Running | JobState::Archiving),
        has_failed: matches!(state, JobState::Failed | JobState::Cancelled),
    }
}

fn targets(core: &Core, job: JobId, is_whole: bool) -> Result<Targets> {
    if !is_whole {
        let row = core.store.job(job)?;
        // A job that is no longer kept was over, and nobody knows how.
        return Ok(
            row.map_or(Targets { has_failed: true, ..Targets::default() }, |row| targets_of(row.state))
        );
    }
    Ok(Targets {
        has_waiting: core.store.array_has(job, &[JobState::Held, JobState::Queued])?,
        has_begun: core.store.array_has(job, &[JobState::Running, JobState::Archiving])?,
        has_failed: core.store.array_has(job, &[JobState::Failed, JobState::Cancelled])?,
    })
}

/// How a dependency of a job stands now.
pub(super) fn state_of(core: &Core, job: &JobRow, row: &DependencyRow) -> Result<DependencyState> {
    match (row.kind, row.on_job) {
        _ if row.state == DependencyState::Met => Ok(DependencyState::Met),
        (DependencyKind::Singleton, _) | (_, None) => {
            let has_earlier = core.store.has_earlier(&job.owner, &job.spec.name, job.shared())?;
            Ok(if has_earlier { DependencyState::Waiting } else { DependencyState::Met })
        }
        (DependencyKind::AfterCorr, Some(array)) if row.is_whole => {
            let index = job.array.map_or(0, |element| element.index);
            match core.store.array_element(array, index)? {
                Some(element) => Ok(decide(row.kind, targets(core, element, false)?)),
                // There is none with that index: as Slurm, which then waits for nothing.
                None => Ok(DependencyState::Met),
            }
        }
        (kind, Some(on)) => Ok(decide(kind, targets(core, on, row.is_whole)?)),
    }
}

/// What keeps a job from waiting for a slot; what people can do something about comes first.
pub(super) fn obstacle(core: &Core, job: &JobRow, now: Timestamp) -> Result<Option<Obstacle>> {
    if let Some(hold) = job.holds.first() {
        return Ok(Some(Obstacle::Held(*hold)));
    }
    let mut waits = None;
    for row in core.store.dependencies(job.shared())? {
        match state_of(core, job, &row)? {
            DependencyState::Met => {}
            DependencyState::Never => return Ok(Some(Obstacle::Never(words(&row, job)))),
            DependencyState::Waiting => _ = waits.get_or_insert_with(|| words(&row, job)),
        }
    }
    if let Some(words) = waits {
        return Ok(Some(Obstacle::Dependency(words)));
    }
    if let Some(begin) = job.spec.begin.filter(|begin| *begin > now) {
        return Ok(Some(if job.failures > 0 { Obstacle::Retry(begin) } else { Obstacle::Begins(begin) }));
    }
    let is_missing = core.store.job_files_missing(job.shared(), JobFileRole::Input)? > 0;
    Ok(is_missing.then_some(Obstacle::Inputs))
}

/// A dependency in words: what of which job has to come first.
fn words(row: &DependencyRow, job: &JobRow) -> String {
    let Some(on) = row.on_job else {
        return format!("earlier jobs of {} with the name {:?} are over", job.owner, job.spec.name);
    };
    let what = match row.kind {
        DependencyKind::After => "has begun",
        DependencyKind::AfterAny | DependencyKind::Singleton => "is over",
        DependencyKind::AfterOk => "has ended well",
        DependencyKind::AfterNotOk => "has failed",
        DependencyKind::AfterCorr => "has ended well, the element with the same index",
    };
    format!("{} {on} {what}", if row.is_whole { "array" } else { "job" })
}

/// Looks whether a job that has not started may wait for a slot. Yields the job if it was cancelled because it never can.
pub(super) fn settle(core: &mut Core, now: Timestamp, mut job: JobRow) -> Result<Option<JobRow>> {
    if !matches!(job.state, JobState::Held | JobState::Queued) {
        return Ok(None);
    }
    let found = obstacle(core, &job, now)?;
    if let (Some(Obstacle::Never(why)), true) = (&found, job.spec.cancel_if_never) {
        let why = format!("cancelled: it can never be that {why}");
        return finish_one(core, now, job, JobState::Cancelled, Some(why)).map(Some);
    }
    let state = if found.is_some() { JobState::Held } else { JobState::Queued };
    let has_begun = job.spec.begin.is_some_and(|begin| begin <= now);
    if state != job.state || has_begun {
        job.state = state;
        // It has come: nobody looks for it any more.
        job.spec.begin = job.spec.begin.filter(|_| !has_begun);
        core.store.save_job(&job)?;
        core.touch(Topic::Jobs);
    }
    Ok(None)
}

/// Jobs began or are over: others may have waited for that. One that is cancelled for it is over in turn.
pub(super) fn look_at_dependents(core: &mut Core, now: Timestamp, job: JobRow) -> Result<()> {
    let mut changed = vec![job];
    while let Some(job) = changed.pop() {
        let array = job.array.map(|element| element.array);
        for row in core.store.dependents(job.id, array)? {
            changed.extend(look_at(core, now, &job, row)?);
        }
        if job.state.is_over()
            && let Some(next) = core.store.first_singleton(&job.owner, &job.spec.name)?
            && let Some(next) = core.store.job(next)?
        {
            changed.extend(settle_all(core, now, &next)?);
        }
    }
    Ok(())
}

/// Looks at what waits by one dependency for a job that has changed.
fn look_at(core: &mut Core, now: Timestamp, job: &JobRow, row: DependencyRow) -> Result<Vec<JobRow>> {
    let Some(dependent) = core.store.job(row.job)? else { return Ok(Vec::new()) };
    if row.kind == DependencyKind::AfterCorr && row.is_whole {
        // Decided for each element by itself.
        let index = job.array.map_or(0, |element| element.index);
        let element = core.store.array_element(row.job, index)?;
        let element = element.map(|id| core.store.job(id)).transpose()?.flatten();
        let ended = element.map(|element| settle(core, now, element)).transpose()?.flatten();
        return Ok(ended.into_iter().collect());
    }
    decided(core, now, &dependent, row)
}

/// Decides a dependency anew; yields the jobs that were cancelled for it.
fn decided(
    core: &mut Core,
    now: Timestamp,
    dependent: &JobRow,
    mut row: DependencyRow,
) -> Result<Vec<JobRow>> {
    let state = state_of(core, dependent, &row)?;
    if state == row.state {
        return Ok(Vec::new());
    }
    row.state = state;
    core.store.put_dependency(&row)?;
    core.touch(Topic::Jobs);
    settle_all(core, now, dependent)
}

/// All elements of an array, `count` of them, have changed at once: others may have waited for that.
pub(super) fn look_at_dependents_of_array(
    core: &mut Core,
    now: Timestamp,
    first: &JobRow,
    count: u64,
) -> Result<()> {
    let mut ended = Vec::new();
    for row in core.store.dependents_of_array(first.shared(), count)? {
        let Some(dependent) = core.store.job(row.job)? else { continue };
        ended.extend(if row.kind == DependencyKind::AfterCorr && row.is_whole {
            settle_all(core, now, &dependent)?
        } else {
            decided(core, now, &dependent, row)?
        });
    }
    if let Some(next) = core.store.first_singleton(&first.owner, &first.spec.name)?
        && let Some(next) = core.store.job(next)?
    {
        ended.extend(settle_all(core, now, &next)?);
    }
    ended.into_iter().try_for_each(|job| look_at_dependents(core, now, job))
}

/// Looks at a job, or at all elements of its array. Yields those that were cancelled.
pub(super) fn settle_all(core: &mut Core, now: Timestamp, job: &JobRow) -> Result<Vec<JobRow>> {
    let Some(element) = job.array else {
        return Ok(settle(core, now, job.clone())?.into_iter().collect());
    };
    let array = element.array;
    let alike = JobRow {
        holds: Vec::new(),
        spec: wire::control::JobSpec { begin: None, ..job.spec.clone() },
        ..job.clone()
    };
    let rows = core.store.dependencies(array)?;
    let is_common = !rows.iter().any(|row| row.kind == DependencyKind::AfterCorr);
    match obstacle(core, &alike, now)? {
        // A million of them are queued by one statement.
        None if is_common => {
            core.store.queue_array(array, now)?;
            core.touch(Topic::Jobs);
            Ok(Vec::new())
        }
        Some(Obstacle::Dependency(_) | Obstacle::Inputs) if is_common => Ok(Vec::new()),
        _ => {
            let mut ended = Vec::new();
            for (id, state) in core.store.array_elements(array, &[])? {
                if matches!(state, JobState::Held | JobState::Queued)
                    && let Some(row) = core.store.job(id)?
                {
                    ended.extend(settle(core, now, row)?);
                }
            }
            Ok(ended)
        }
    }
}

/// Carries out what the time brings: jobs that may begin, deadlines that have passed. Asks to be woken when the next one comes.
pub(crate) fn look_at_times(core: &mut Core, now: Timestamp) -> Result<()> {
    for id in core.store.jobs_begun(now, DUE_MAX)? {
        if let Some(job) = core.store.job(id)?
            && let Some(ended) = settle(core, now, job)?
        {
            look_at_dependents(core, now, ended)?;
        }
    }
    for id in core.store.jobs_overdue(now, DUE_MAX)? {
        let Some(mut job) = core.store.job(id)? else { continue };
        if job.state == JobState::Running {
            // Its worker ends it; its end is told as what it is.
            job.is_cancelled = true;
            core.store.save_job(&job)?;
        } else {
            let why = "its deadline passed before it ran".to_owned();
            let job = finish_one(core, now, job, JobState::Failed, Some(why))?;
            look_at_dependents(core, now, job)?;
        }
        core.touch(Topic::Jobs);
    }
    if let Some(next) = core.store.jobs_next_time()? {
        core.look_again_in((next - now).max(base::Millis(1)));
    }
    for queue in core.store.queues()?.queues.values() {
        if let Some(span) = super::windows::opens_in(&queue.settings.windows, now) {
            core.look_again_in(span);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use DependencyKind::{After, AfterAny, AfterNotOk, AfterOk};
    use DependencyState::{Met, Never, Waiting};

    #[test]
    fn dependencies_on_one_job() {
        let of = |state| [After, AfterAny, AfterOk, AfterNotOk].map(|kind| decide(kind, targets_of(state)));
        assert_eq!(of(JobState::Held), [Waiting; 4]);
        assert_eq!(of(JobState::Queued), [Waiting; 4]);
        assert_eq!(of(JobState::Running), [Met, Waiting, Waiting, Waiting]);
        assert_eq!(of(JobState::Archiving), [Met, Waiting, Waiting, Waiting]);
        assert_eq!(of(JobState::Done), [Met, Met, Met, Never]);
        assert_eq!(of(JobState::Failed), [Met, Met, Never, Met]);
        assert_eq!(of(JobState::Cancelled), [Met, Met, Never, Met]);
    }

    #[test]
    fn dependencies_on_an_array() {
        let (waits, runs) = (targets_of(JobState::Queued), targets_of(JobState::Running));
        let some_failed = Targets { has_failed: true, ..runs };
        assert_eq!(
            decide(After, Targets { has_waiting: true, ..runs }),
            Waiting,
            "all of them have to begin"
        );
        assert_eq!(decide(AfterOk, some_failed), Never);
        assert_eq!(decide(AfterNotOk, some_failed), Waiting);
        assert_eq!(decide(AfterAny, waits), Waiting);
    }
}
